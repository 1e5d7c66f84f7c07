"""Recall through the whole product as what is asked grows, and as what lies beside it does."""

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, LiteralString

import msgspec
import psycopg

from tests.bench.bench import Bench
from tests.bench.figure import Figure
from tests.bench.forest import plant
from tests.bench.http1 import Http
from tests.bench.measure import Call, Plan, compare, latency
from tests.bench.records import Heap, memory_id

__all__ = ["recall_scale", "recall_scale_million"]

_LITTLE: Final = Heap("a", 1, 100)
_SMALL: Final = (Heap("b", 1, 100_000), Heap("c", 10_000, 10))
_LARGE: Final = (Heap("b", 1, 1_000_000), Heap("c", 100_000, 10))
_DEPTH: Final = 8
_WHO: Final = "person:bench"

# The least that a search by meaning does, once: how far the signs of every vector are.
_SIGNS: Final[LiteralString] = (
    "select record_id from embedding where memory_id = any(string_to_array(%(ids)s, ',')) and invalidated_at is null"
    " order by signs <~> (select signs from embedding limit 1) limit 400"
)

_Connection = psycopg.AsyncConnection[tuple[object, ...]]


class _Recalled(msgspec.Struct):
    results: list[dict[str, object]]
    degraded: list[str]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A memory, with all below it or alone, and the memories that those are."""

    name: str
    what: str
    memory: str
    ids: Sequence[str]
    deep: bool = False
    count: int = 5


async def recall_scale(bench: Bench) -> AsyncIterator[Figure]:
    """100 and 100,000 records in one memory, and 10,000 memories of ten asked at their root."""
    async for figure in _measured(bench, _SMALL):
        yield figure


async def recall_scale_million(bench: Bench) -> AsyncIterator[Figure]:
    """A million records in one memory, and another million in 100,000 memories. Only when it is asked for."""
    async for figure in _measured(bench, _LARGE):
        yield figure


async def _measured(bench: Bench, heaps: tuple[Heap, Heap]) -> AsyncIterator[Figure]:
    one, many = heaps
    async with await _Connection.connect(bench.product.database_url, autocommit=True) as bare:
        await bare.execute("set search_path = provider, extensions")
        async with bench.http() as http:
            alone, root = await bench.memory(http, "Alone"), await bench.memory(http, "Root")
        little = memory_id(_LITTLE)
        await plant(bench, alone, _WHO, [_LITTLE])
        asked = _Asked("100", "one memory of 100", little, [little], count=20)
        async for figure in _kinds(asked, bench, bare):
            yield figure
        await plant(bench, alone, _WHO, [one])
        await plant(bench, root, _WHO, [many])
        beside = f"among {many.memories + 1:,} others"
        for each in (
            replace(asked, name=f"100.among_{many.memories + 1}", what=f"one memory of 100 {beside}"),
            _Asked(f"{one.records}", f"one memory of {one.records:,}", memory_id(one), [memory_id(one)]),
            _Asked(
                f"{many.memories}x{many.records}",
                f"{many.memories:,} memories of {many.records}",
                root,
                # The root itself is the last of those that one recall covers.
                [memory_id(many, number) for number in range(min(many.memories, 99_999))],
                deep=True,
            ),
        ):
            async for figure in _kinds(each, bench, bare):
                yield figure


async def _kinds(asked: _Asked, bench: Bench, bare: _Connection) -> AsyncIterator[Figure]:
    rng = random.Random(7)  # noqa: S311 - the same questions in every run
    for kind, question in (
        ("common", "Which drink does Alice prefer?"),
        ("rare", "Which day mentions term{rare} and term{frequent}?"),
        ("mixed", "Does Bob like term{rare} and old maps?"),
    ):
        # A connection for each: planting takes longer than one is kept.
        async with bench.http() as http:
            yield await _measure(
                asked, kind, _floor(bare, asked.ids), partial(_ask, http, asked, question, rng)
            )


async def _ask(http: Http, asked: _Asked, question: str, rng: random.Random) -> None:
    said = question.format(rare=rng.randint(4_000, 19_999), frequent=rng.randint(200, 3_000))
    body = {"query": said, "limit": 8} | ({"depth": _DEPTH} if asked.deep else {})
    answer = await http.post(f"/v1/memories/{asked.memory}/recall", body)
    found = msgspec.json.decode(answer.ok(), type=_Recalled)
    if len(found.results) != 8:
        raise RuntimeError(f"{asked.what}, {said!r}: {len(found.results)} found, {found.degraded}")


def _floor(bare: _Connection, ids: Sequence[str]) -> Call:
    joined = ",".join(ids)

    async def signs() -> None:
        await (await bare.execute(_SIGNS, {"ids": joined})).fetchall()

    return signs


async def _measure(asked: _Asked, kind: str, floor: Call, ask: Call) -> Figure:
    plan = Plan(
        f"recall.scale.{asked.name}.{kind}",
        f"recall, {asked.what}, {kind} words, p50",
        "ms",
        "signs read",
        "less",
        rounds=4,
        seconds=12,
    )
    figure = await compare(plan, partial(latency, floor, asked.count), partial(latency, ask, asked.count))
    return replace(figure, note=f"worst {max(window.p99 or 0.0 for window in figure.windows):,.0f} ms")
