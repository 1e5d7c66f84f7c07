"""A decision against an echo: what authz adds to a call that answers the same message."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import grpc

from protos.authz.v1 import authz_pb2, authz_pb2_grpc
from tests.bench.bench import Bench
from tests.bench.figure import Figure, Target
from tests.bench.measure import Plan, compare, latency, throughput

__all__ = ["check"]

_DEPTH: Final = 4
_DEADLINE_S: Final = 10.0


async def check(bench: Bench) -> AsyncIterator[Figure]:
    """``Access.Check`` of ``read`` on a memory four levels below the caller's root."""
    async with bench.http() as http:
        memory = await bench.memory(http, "Access")
        for level in range(_DEPTH):
            memory = await bench.memory(http, f"Level {level}", memory)
    request = authz_pb2.CheckRequest(memory_id=memory, required=authz_pb2.PRIVILEGE_READ)
    async with (
        grpc.aio.insecure_channel(bench.floors.rpc) as bare,
        grpc.aio.insecure_channel(bench.product.authz) as channel,
    ):
        asked = authz_pb2.AuthenticateRequest(token=bench.token)
        passport = (
            await authz_pb2_grpc.AuthenticationStub(channel).Authenticate(asked, timeout=_DEADLINE_S)
        ).passport
        echo = partial(authz_pb2_grpc.AccessStub(bare).Check, request, timeout=_DEADLINE_S)
        decide = partial(
            authz_pb2_grpc.AccessStub(channel).Check,
            request,
            timeout=_DEADLINE_S,
            metadata=(("grove-passport", passport),),
        )
        yield await compare(
            Plan(
                "authz.check.p50",
                "Check, one at a time, p50",
                "ms",
                "echo",
                "less",
                note="strict: every check waits for a look at the database",
            ),
            lambda: latency(echo, 200),
            lambda: latency(decide, 200),
        )
        yield await compare(
            Plan(
                "authz.check.throughput",
                "Check, 64 at a time",
                "calls/s",
                "echo",
                "more",
                Target("ratio", ">=", 0.80),
                note="strict: every check waits for a look at the database",
            ),
            lambda: throughput([echo] * 64, 1.0),
            lambda: throughput([decide] * 64, 1.0),
        )
        yield await bench.cpu(
            Plan("authz.check.cpu", "Check, processor time", "ms", "echo", "less", rounds=3),
            echo,
            decide,
            400,
        )
