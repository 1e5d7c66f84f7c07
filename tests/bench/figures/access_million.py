"""Access on a million memories, in memory and by rows, each against the echo of the same run."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

import grpc
import psycopg

from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1 import authz_pb2_grpc as rpc
from protos.common.v1.common_pb2 import Page
from tests.bench.bench import Bench
from tests.bench.figure import Figure, Target, Window
from tests.bench.measure import Plan, compare, latency, percentile, throughput
from tests.bench.million import ASKER, GRANTS, MAKER, NODES, Authz, Million, metadata, million, node

__all__ = ["access_million"]

_DEADLINE_S: Final = 30.0
_GROUPS: Final = tuple(f"group:{number}" for number in range(1, 5))
_ENTRANTS: Final = (
    ("1", "person:one", 60),
    ("1,000", "person:1000", 40),
    ("16,000", "person:16000", 30),
    ("16,000 inside one another", "person:inside", 10),
    ("100,000", "person:100000", 30),
    ("1,000,000 created", MAKER, 30),
)
"""What is held, who holds it, and how often it is asked."""


async def access_million(bench: Bench) -> AsyncIterator[Figure]:
    """Everything the access chapter of the figures promises of a large tree."""
    async with million() as grove, grpc.aio.insecure_channel(bench.floors.rpc) as bare:
        for figure in _held(grove):
            yield figure
        for kind, request in _questions():
            for way, authz in (("in memory", grove.replica), ("by rows", grove.rows)):
                async for figure in _decisions(grove, bare, kind, request, way, authz):
                    yield figure
        for held, principal, count in _ENTRANTS:
            yield await _entries(grove, held, principal, count)
        yield await _lag(grove)
        async for figure in _shape(grove):
            yield figure


def _held(grove: Million) -> list[Figure]:
    bytes_each = (grove.replica.memory_mb() - grove.rows.memory_mb()) * 2**20 / NODES
    return [
        Figure(
            "access.million.memory",
            "A memory in the replica",
            "bytes",
            bytes_each,
            target=Target("value", "<=", 400),
            note=f"of {NODES:,}, with {GRANTS:,} grants: resident set beyond that of a process without",
        ),
        Figure("access.million.load", "Start until the replica serves", "s", grove.load_s),
    ]


def _questions() -> list[tuple[str, wire.CheckRequest]]:
    # Both below node 20, the deeper one at the seventh level.
    return [
        (
            "Check",
            wire.CheckRequest(
                memory_id=node(203_116), required=wire.PRIVILEGE_READ, omit_children_count=True
            ),
        ),
        ("Privileges", wire.CheckRequest(memory_id=node(2031))),
    ]


async def _decisions(
    grove: Million, bare: grpc.aio.Channel, kind: str, request: wire.CheckRequest, way: str, authz: Authz
) -> AsyncIterator[Figure]:
    echo = partial(rpc.AccessStub(bare).Check, request, timeout=_DEADLINE_S)
    passport = metadata(grove.signer, ASKER, *_GROUPS)
    ask = partial(authz.access.Check, request, timeout=_DEADLINE_S, metadata=passport)
    name = f"access.million.{kind.lower()}.{'replica' if way == 'in memory' else 'rows'}"
    figure = await compare(
        Plan(f"{name}.p50", f"{kind} {way}, one at a time, p50", "ms", "echo", "less", rounds=4, seconds=5),
        lambda: latency(echo, 200),
        lambda: latency(ask, 200),
    )
    worst = min(window.p99 or 0.0 for window in figure.windows)
    yield _noted(figure, f"p99 {worst:.2f} ms; strict, as every figure of these")
    target = Target("ratio", ">=", 0.80 if way == "in memory" else 0.70)
    yield await compare(
        Plan(
            f"{name}.throughput",
            f"{kind} {way}, 64 at a time",
            "calls/s",
            "echo",
            "more",
            target,
            rounds=4,
            seconds=7,
        ),
        lambda: throughput([echo] * 64, 0.8),
        lambda: throughput([ask] * 64, 0.8),
    )


async def _entries(grove: Million, held: str, principal: str, count: int) -> Figure:
    passport = metadata(grove.signer, principal)
    request = wire.ListEntryPointsRequest(page=Page(limit=50))

    def ask(authz: Authz) -> Callable[[], Awaitable[Any]]:
        return partial(authz.access.ListEntryPoints, request, timeout=_DEADLINE_S, metadata=passport)

    await ask(grove.replica)()
    window = await latency(ask(grove.replica), count)
    try:
        rows = f"{(await latency(ask(grove.rows), 2)).value:,.1f} ms"
    except grpc.aio.AioRpcError as failure:
        rows = failure.code().name
    return Figure(
        f"access.million.entries.{principal.removeprefix('person:')}",
        f"Entry points, {held} held, first page",
        "ms",
        window.value,
        (window,),
        target=Target("value", "<=", 10.0),
        note=f"p99 {window.p99:.1f} ms; by rows {rows}",
    )


async def _lag(grove: Million) -> Figure:
    """A grant comes and goes in one process; each time, at once, the other one is asked."""
    maker, asker = metadata(grove.signer, MAKER), metadata(grove.signer, "person:late")
    grants = rpc.GrantsStub(grove.rows.channel)
    check = partial(
        grove.replica.access.CheckMany,
        wire.CheckManyRequest(memory_ids=[node(2031)]),
        timeout=_DEADLINE_S,
        metadata=asker,
    )
    times, stale = list[float](), 0
    for _ in range(200):
        added = await grants.AddGrant(
            wire.AddGrantRequest(
                memory_id=node(2031), principal="person:late", privileges=[wire.PRIVILEGE_READ]
            ),
            timeout=_DEADLINE_S,
            metadata=maker,
        )
        stale += await _timed(check, times) != 1
        await grants.RevokeGrant(
            wire.RevokeGrantRequest(memory_id=node(2031), grant_id=added.id),
            timeout=_DEADLINE_S,
            metadata=maker,
        )
        stale += await _timed(check, times) != 0
    if stale:
        raise RuntimeError(f"{stale} answers were older than a change that was answered before them")
    return Figure(
        "access.million.lag",
        "Check right after a change in another process, p99",
        "ms",
        percentile(times, 0.99),
        (Window(percentile(times, 0.5), len(times), percentile(times, 0.99)),),
        target=Target("value", "<=", 5.0),
        note=f"p50 {percentile(times, 0.5):.2f} ms, {len(times)} times, none of them stale",
    )


async def _timed(check: Callable[[], Awaitable[wire.CheckManyResponse]], times: list[float]) -> int:
    start = perf_counter()
    held = await check()
    times.append((perf_counter() - start) * 1000)
    return len(held.memory_ids)


async def _shape(grove: Million) -> AsyncIterator[Figure]:
    """What is done to the root of a subtree of 111,111 nodes."""
    tree, maker = rpc.TreeStub(grove.replica.channel), metadata(grove.signer, MAKER)

    async def update(**wanted: Any) -> None:
        request = wire.UpdateNodeRequest(id=node(1), **wanted)
        await tree.UpdateNode(request, timeout=_DEADLINE_S, metadata=maker)

    async def delete() -> None:
        await tree.DeleteNode(wire.DeleteNodeRequest(id=node(1)), timeout=_DEADLINE_S, metadata=maker)

    moves = [partial(update, parent_id=node(2 + turn % 2)) for turn in range(7)]
    cutoffs = [partial(update, restricted=turn % 2 == 0) for turn in range(10)]
    for what, most, calls in (("Move", 20, moves), ("Restrict", 5, cutoffs), ("Delete", 20, [delete])):
        times, rows = list[float](), 0
        for call in calls:
            before = await _written(grove)
            start = perf_counter()
            await call()
            times.append((perf_counter() - start) * 1000)
            rows = max(rows, await _written(grove) - before)
        if rows != 1:
            raise RuntimeError(f"{rows} rows were written")
        yield Figure(
            f"access.million.{what.lower()}",
            f"{what} a subtree of 111,111",
            "ms",
            percentile(times, 0.5),
            target=Target("value", "<=", most),
            note=f"best {min(times):.1f}, worst {max(times):.1f} ms of {len(times)}; 1 row written",
        )


async def _written(grove: Million) -> int:
    """Rows of nodes written so far, as the log of changes has them."""
    async with await psycopg.AsyncConnection.connect(grove.owner_dsn, autocommit=True) as connection:
        cursor = await connection.execute("select count(*) from authz.change where kind = 'n'")
        row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


def _noted(figure: Figure, note: str) -> Figure:
    return Figure(
        figure.id, figure.what, figure.unit, figure.value, figure.windows, figure.floor, figure.target, note
    )
