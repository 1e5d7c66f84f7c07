"""Recall against a bare ``select``, in memories of two sizes, alone and among many others."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import psycopg

from tests.bench.bench import Bench
from tests.bench.figure import Figure
from tests.bench.http1 import Http
from tests.bench.measure import Call, Plan, compare, latency

__all__ = ["recall"]

_SIZES = (1_000, 5_000)
_OTHERS = 100
_BATCH = 500
_LOOK_S = 0.2
_PEOPLE = ("Alice", "Bob", "Carol", "Dan", "Eve")
_THINGS = (
    "tea",
    "the train to Oslo",
    "early meetings",
    "the blue design",
    "quiet offices",
    "old maps",
    "rye bread",
)
_QUESTION = {"query": "Which drink does Alice prefer?", "text": "Alice prefers", "limit": 8}


class _Job(msgspec.Struct):
    id: str
    status: str


class _Observed(msgspec.Struct):
    job: _Job


def _question(number: int) -> str:
    """A question, because no facts are derived from one: the memory holds as many records as it was given."""
    person, thing = _PEOPLE[number % len(_PEOPLE)], _THINGS[number % len(_THINGS)]
    return f"Did {person} really say on day {number} that {thing} is what to choose?"


async def _fill(http: Http, memory: str, first: int, last: int) -> list[str]:
    """Observe episodes; answers the jobs that give them their vectors."""
    jobs: list[str] = []
    for at in range(first, last, _BATCH):
        episodes = [{"content": _question(n)} for n in range(at, min(at + _BATCH, last))]
        answer = await http.post(f"/v1/memories/{memory}/observe", {"episodes": episodes})
        jobs.append(msgspec.json.decode(answer.ok(), type=_Observed).job.id)
    return [f"/v1/memories/{memory}/jobs/{job}" for job in jobs]


async def _finished(http: Http, jobs: list[str]) -> None:
    """Background work ended, so that what follows is measured alone."""
    for path in jobs:
        while True:
            status = msgspec.json.decode((await http.get(path)).ok(), type=_Job).status
            if status == "failed":
                raise RuntimeError("the records got no vectors")
            if status == "completed":
                break
            await asyncio.sleep(_LOOK_S)


async def recall(bench: Bench) -> AsyncIterator[Figure]:
    """Query and text together, limit 8, through the whole product; the floor is ``select 1`` on its Postgres."""
    async with (
        bench.http() as http,
        await psycopg.AsyncConnection[tuple[int]].connect(bench.product.database_url, autocommit=True) as db,
    ):

        async def select() -> None:
            await (await db.execute("select 1", prepare=True)).fetchone()

        memory = await bench.memory(http, "Recall")
        ask = partial(_ask, http, memory)
        held = 0
        for size in _SIZES:
            await _finished(http, await _fill(http, memory, held, size))
            held = size
            yield await _measure(f"recall.{size}", f"recall p50, {size:,} records", select, ask)
        jobs: list[str] = []
        for number in range(_OTHERS):
            other = await bench.memory(http, f"Other {number}")
            jobs += await _fill(http, other, 0, 10)
        await _finished(http, jobs)
        yield await _measure(
            f"recall.{held}.among_{_OTHERS}",
            f"recall p50, {held:,} records, {_OTHERS} other memories",
            select,
            ask,
        )


async def _ask(http: Http, memory: str) -> None:
    (await http.post(f"/v1/memories/{memory}/recall", _QUESTION)).ok()


async def _measure(name: str, what: str, select: Call, ask: Call) -> Figure:
    return await compare(
        Plan(name, what, "ms", "select 1", "less", rounds=4),
        partial(latency, select, 100),
        partial(latency, ask, 25),
    )
