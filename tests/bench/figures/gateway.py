"""The gateway against a bare FastAPI that makes one gRPC call."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

from tests.bench.bench import Bench
from tests.bench.figure import Figure, Target
from tests.bench.http1 import Http
from tests.bench.measure import Call, Plan, compare, latency, throughput

__all__ = ["memory_get", "one_call"]

_AT_ONCE = 16
_FLOOR_PATH = "/v1/memories/hmem_00000000000000000000000000000000"
_ONE_CALL = "/v1/memories/types"


def _get(http: Http, path: str) -> Call:
    async def call() -> None:
        (await http.get(path)).ok()

    return call


async def _connections(stack: AsyncExitStack, bench: Bench) -> tuple[Sequence[Http], Sequence[Http]]:
    floor = [await stack.enter_async_context(bench.floor_http()) for _ in range(_AT_ONCE)]
    product = [await stack.enter_async_context(bench.http()) for _ in range(_AT_ONCE)]
    return floor, product


async def one_call(bench: Bench) -> AsyncIterator[Figure]:
    """The types of records are what the gateway answers itself: the one gRPC call is the one that authenticates."""
    async with AsyncExitStack() as stack:
        floor, product = await _connections(stack, bench)
        plan = Plan(
            "gateway.one_call.throughput",
            f"gateway GET with one gRPC call, {_AT_ONCE} at a time",
            "calls/s",
            "bare FastAPI + gRPC",
            "more",
            Target("ratio", ">=", 0.8),
            note="the one call authenticates the token in the database, which the floor does not",
        )
        yield await compare(
            plan,
            lambda: throughput([_get(http, _FLOOR_PATH) for http in floor], 1.0),
            lambda: throughput([_get(http, _ONE_CALL) for http in product], 1.0),
        )
        yield await compare(
            Plan(
                "gateway.one_call.p50",
                "gateway GET with one gRPC call, p50",
                "ms",
                "bare FastAPI + gRPC",
                "less",
            ),
            lambda: latency(_get(floor[0], _FLOOR_PATH), 100),
            lambda: latency(_get(product[0], _ONE_CALL), 100),
        )
        yield await bench.cpu(
            Plan(
                "gateway.one_call.cpu",
                "gateway GET with one gRPC call, processor time",
                "ms",
                "bare FastAPI + gRPC",
                "less",
                rounds=3,
            ),
            _get(floor[0], _FLOOR_PATH),
            _get(product[0], _ONE_CALL),
        )


async def memory_get(bench: Bench) -> AsyncIterator[Figure]:
    """``GET /v1/memories/{id}``: gateway, access, memory service and the provider's count."""
    async with AsyncExitStack() as stack:
        floor, product = await _connections(stack, bench)
        path = f"/v1/memories/{await bench.memory(product[0], 'Read')}"
        yield await compare(
            Plan(
                "memory.get.p50",
                "memory GET end to end, p50",
                "ms",
                "bare FastAPI + gRPC",
                "less",
                Target("ratio", "<=", 2.2),
            ),
            lambda: latency(_get(floor[0], _FLOOR_PATH), 100),
            lambda: latency(_get(product[0], path), 100),
        )
        yield await compare(
            Plan(
                "memory.get.throughput",
                f"memory GET end to end, {_AT_ONCE} at a time",
                "calls/s",
                "bare FastAPI + gRPC",
                "more",
                rounds=3,
            ),
            lambda: throughput([_get(http, _FLOOR_PATH) for http in floor], 1.0),
            lambda: throughput([_get(http, path) for http in product], 1.0),
        )
        yield await bench.cpu(
            Plan(
                "memory.get.cpu",
                "memory GET end to end, processor time",
                "ms",
                "bare FastAPI + gRPC",
                "less",
                rounds=3,
            ),
            _get(floor[0], _FLOOR_PATH),
            _get(product[0], path),
        )
