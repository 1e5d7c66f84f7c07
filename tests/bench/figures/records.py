"""The operations on records in small and large memories, each against the bare SQL of the same work."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, LiteralString

from provider_workers.domain.model import Changes, Draft, Page, Part, Question, Selection, Stamp, Writer
from service_kit.errors import GroveError
from tests.bench.bench import Bench
from tests.bench.figure import Figure
from tests.bench.measure import Plan, compare, latency
from tests.bench.records import Filled, Heap, filled, memory_id, record_id

__all__ = ["records", "records_million"]

_SMALL: Final = (Heap("a", 1, 1_000), Heap("b", 1, 100_000), Heap("c", 10_000, 10))
_LARGE: Final = (Heap("a", 1, 1_000_000), Heap("b", 10_000, 100))
_STAMP: Final = Stamp(Writer("person", "bench"))
_FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)
_QUESTION: Final = "Which drink does Alice prefer?"
_PAGE: Final = Page(50)

_INSERT: Final[LiteralString] = (
    "with head as (insert into record (memory_id, record_id, created_at) values (%(memory)s, %(record)s, now()))"
    " insert into version (memory_id, record_id, version, type, content, attributes, refs, prefix, text, words,"
    " digest, created_at, written_at, status, supersedes, writer_kind, writer_id, derived, size)"
    " values (%(memory)s, %(record)s, 1, 'fact', '[]', '{}', '[]', '', 'Acme', words_of('Acme renews', ''),"
    " sha256('Acme'), now(), now(), 'active', '', 'person', 'bench', false, 60)"
)
_CLOSE: Final[LiteralString] = (
    "update version set status = 'superseded', invalidated_at = now()"
    " where memory_id = %(memory)s and record_id = %(closed)s and invalidated_at is null"
)
_GET: Final[LiteralString] = (
    "select * from version where memory_id = %(memory)s and record_id = %(record)s order by version desc limit 1"
)
_GET_THEN: Final[LiteralString] = (
    "select * from version where memory_id = %(memory)s and record_id = %(record)s and written_at <= %(then)s"
    " order by version desc limit 1"
)
_HISTORY: Final[LiteralString] = (
    "select * from version where memory_id = %(memory)s and record_id = %(record)s order by version"
)
_LIST: Final[LiteralString] = (
    "select * from version where memory_id = %(memory)s and invalidated_at is null"
    " order by created_at desc, record_id desc limit 50"
)
_LIST_THEN: Final[LiteralString] = (
    "select * from version where memory_id = %(memory)s and created_at <= %(then)s and written_at <= %(then)s"
    " and (invalidated_at is null or invalidated_at > %(then)s) order by created_at desc, record_id desc limit 50"
)
_NEAR: Final[LiteralString] = (
    "with near as materialized (select record_id, version, vector <=> (select vector from embedding limit 1) as far"
    " from embedding where memory_id = %(memory)s and invalidated_at is null and dimension <= 1024)"
    " select version.* from (select * from near order by far limit 8) near"
    " join version using (record_id, version) where memory_id = %(memory)s"
)
_NEAR_THEN: Final[LiteralString] = (
    "with near as materialized (select v.record_id, v.version,"
    " e.vector <=> (select vector from embedding limit 1) as far from version v"
    " join embedding e using (memory_id, record_id, version) where v.memory_id = %(memory)s"
    " and v.written_at <= %(then)s and (v.invalidated_at is null or v.invalidated_at > %(then)s))"
    " select version.* from (select * from near order by far limit 8) near"
    " join version using (record_id, version) where memory_id = %(memory)s"
)

_Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Work:
    """One operation: the provider's, and the least SQL that does the same. ``count`` calls make a window."""

    name: str
    ask: _Call
    bare: _Call
    count: int


async def records(bench: Bench) -> AsyncIterator[Figure]:
    """1,000 and 100,000 records in one memory, and 10,000 memories of ten."""
    del bench
    async for figure in _measured(_SMALL):
        yield figure


async def records_million(bench: Bench) -> AsyncIterator[Figure]:
    """A million records in one memory, and another million in 10,000 memories. Only when it is asked for."""
    del bench
    async for figure in _measured(_LARGE):
        yield figure


async def _measured(heaps: Sequence[Heap]) -> AsyncIterator[Figure]:
    """What is refused for its size is named at the end, so that it costs no other figure."""
    refused = list[str]()
    async with filled(heaps) as base:
        for heap in heaps:
            for work in _Works(base, heap).all():
                try:
                    yield await _measure(heap, work)
                except GroveError as error:
                    refused.append(f"{work.name}, {heap.records:,} records: {error}")
    if refused:
        raise RuntimeError("; ".join(refused))


async def _measure(heap: Heap, work: _Work) -> Figure:
    where = f"{heap.records:,} records"
    if heap.memories > 1:
        where = f"{heap.memories:,} memories of {heap.records}"
    name = f"records.{heap.memories}x{heap.records}.{work.name.replace(' ', '_')}"
    plan = Plan(name, f"{work.name}, {where}, p50", "ms", "bare SQL", "less", rounds=3, seconds=4)
    figure = await compare(
        plan, partial(latency, work.bare, work.count), partial(latency, work.ask, work.count)
    )
    worst = max(window.p99 or 0.0 for window in figure.windows)
    floor = max(window.p99 or 0.0 for window in figure.floor.windows) if figure.floor else 0.0
    return replace(figure, note=f"p99 {worst:.2f} ms, of the SQL {floor:.2f}")


class _Works:
    """What is measured of one heap. Memories and records take turns, so that no call asks for what the last did."""

    def __init__(self, base: Filled, heap: Heap) -> None:
        self._base = base
        self._heap = heap
        self._numbers = itertools.count(1)
        # When the first thousandth of the records, or the first thousand, had been written.
        self._early = max(1_000, heap.memories * heap.records // 1_000)
        self._then = _FIRST + timedelta(seconds=self._early)
        self._few = 2 if heap.records > 100_000 else 5 if heap.records > 1_000 else 30

    def all(self) -> list[_Work]:
        """Reads before writes, which add to what is read."""
        return [
            _Work("get", self._get, self._sql(_GET), 100),
            _Work("get as_of", self._get_then, self._sql(_GET_THEN, early=True), 100),
            _Work("history", self._history, self._sql(_HISTORY), 100),
            _Work("list", self._list, self._sql(_LIST), 50),
            _Work("list as_of", self._list_then, self._sql(_LIST_THEN, early=True), self._few),
            _Work("recall", self._recall, self._sql(_NEAR), self._few),
            _Work("recall as_of", self._recall_then, self._sql(_NEAR_THEN, early=True), self._few),
            _Work("remember", self._remember, self._insert, 30),
            _Work("revise", self._revise, self._replace, 30),
        ]

    def _at(self, *, early: bool = False) -> tuple[str, str]:
        """A memory and a record of it; with ``early`` one that was there then."""
        held = self._heap.memories * self._heap.records
        number = next(self._numbers) * 7919 % (min(held, self._early) if early else held)
        return memory_id(self._heap, number // self._heap.records), record_id(number)

    def _arguments(self, *, early: bool = False) -> dict[str, object]:
        memory, record = self._at(early=early)
        return {"memory": memory, "record": record, "then": self._then}

    def _sql(self, statement: LiteralString, *, early: bool = False) -> _Call:
        async def call() -> object:
            return await (
                await self._base.bare.execute(statement, self._arguments(early=early), prepare=True)
            ).fetchall()

        return call

    async def _get(self) -> object:
        return await self._base.provider.get(*self._at(), None)

    async def _get_then(self) -> object:
        return await self._base.provider.get(*self._at(early=True), self._then)

    async def _history(self) -> object:
        return await self._base.provider.history(*self._at())

    async def _list(self) -> object:
        return await self._base.provider.list(self._at()[0], Selection(), _PAGE)

    async def _list_then(self) -> object:
        return await self._base.provider.list(self._at(early=True)[0], Selection(as_of=self._then), _PAGE)

    async def _recall(self) -> object:
        return await self._base.provider.recall([self._at()[0]], Question(Selection(), _QUESTION))

    async def _recall_then(self) -> object:
        then = Selection(as_of=self._then)
        return await self._base.provider.recall([self._at(early=True)[0]], Question(then, _QUESTION))

    async def _remember(self) -> object:
        draft = Draft("fact", (Part("text", f"Acme renews in year {next(self._numbers)}."),))
        return await self._base.provider.remember(self._at()[0], draft, _STAMP)

    async def _revise(self) -> object:
        changes = Changes(content=(Part("text", f"Acme renews in year {next(self._numbers)}."),))
        return await self._base.provider.revise(*self._at(), changes, 0, _STAMP)

    async def _insert(self) -> object:
        fresh = f"hrec_bare{next(self._numbers)}"
        return await self._base.bare.execute(_INSERT, {"memory": self._at()[0], "record": fresh})

    async def _replace(self) -> object:
        memory, record = self._at()
        fresh = f"hrec_bare{next(self._numbers)}"
        async with self._base.bare.transaction():
            await self._base.bare.execute(_CLOSE, {"memory": memory, "closed": record})
            return await self._base.bare.execute(_INSERT, {"memory": memory, "record": fresh})
