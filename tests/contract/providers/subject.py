"""A provider under test, and short ways to speak to it."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from provider_workers.domain.filters import Filter
from provider_workers.domain.model import (
    Changes,
    Draft,
    Found,
    Include,
    Job,
    Page,
    Part,
    Question,
    Record,
    Reference,
    Selection,
    Stamp,
    Writer,
)
from provider_workers.domain.ports import ProviderAdapter
from service_kit.ids import new_id

ALICE = Writer("person", "alice")
BOB = Writer("person", "bob")


def words(text: str, role: str = "") -> tuple[Part, ...]:
    """A content of one text part."""
    return (Part("text", text, role),)


def fact(text: str, attributes: bytes = b"", **more: datetime | None) -> Draft:
    """A stated fact."""
    return Draft("fact", words(text), attributes, more.get("valid_from"), more.get("valid_to"))


def episode(text: str, attributes: bytes = b"", role: str = "", at: datetime | None = None) -> Draft:
    """An episode as an observe takes it."""
    return Draft("episode", words(text, role), attributes, at)


def text_of(record: Record) -> str:
    """What a record says."""
    return "\n".join(part.text for part in record.content)


@dataclass
class Subject:
    """``work`` does the background work that is due, and returns when it is done."""

    adapter: ProviderAdapter
    work: Callable[[], Awaitable[None]]
    _keys: "itertools.count[int]" = field(default_factory=itertools.count)

    def memory(self) -> str:
        """A memory nobody has written to."""
        return new_id("hmem")

    def key(self) -> str:
        """An idempotency key nobody has used."""
        return f"key-{next(self._keys)}"

    async def state(self, memory: str, text: str, attributes: bytes = b"", **more: datetime | None) -> Record:
        """Remember a fact as Alice."""
        return await self.adapter.remember(memory, fact(text, attributes, **more), Stamp(ALICE))

    async def observe(self, memory: str, *episodes: Draft, writer: Writer = ALICE) -> Job:
        """Observe, do the work, and answer the job as it ended."""
        observed = await self.adapter.observe(memory, episodes, Stamp(writer))
        assert observed.job is not None
        await self.work()
        return await self.adapter.job(memory, observed.job.id)

    async def revise(self, record: Record, text: str, expected: int = 0) -> Record:
        """Give a record another text as Bob."""
        changes = Changes(content=words(text))
        return await self.adapter.revise(record.memory_id, record.id, changes, expected, Stamp(BOB))

    async def forget(self, record: Record) -> Record:
        """Forget a record as Bob."""
        return await self.adapter.forget(record.memory_id, record.id, 0, Stamp(BOB))

    async def listed(
        self, memory: str, *, include: Include = Include.ACTIVE, where: Filter | None = None
    ) -> list[str]:
        """The texts of one page, as listed."""
        page = await self.adapter.list(memory, Selection(filter=where, include=include), Page(200))
        return [text_of(one) for one in page.records]

    async def ask(self, memories: str | Sequence[str], query: str = "", **more: object) -> Found:
        """Recall; ``more`` are :class:`Question`'s and :class:`Selection`'s other fields."""
        limit, text = more.pop("limit", 8), more.pop("text", "")
        assert isinstance(limit, int)
        assert isinstance(text, str)
        selection = Selection(**more)  # pyright: ignore[reportArgumentType] - the fields of Selection
        ids = [memories] if isinstance(memories, str) else list(memories)
        return await self.adapter.recall(ids, Question(selection, query, text, limit))


def found(answer: Found) -> list[str]:
    """The texts of a recall's hits, in order."""
    return [text_of(hit.record) for hit in answer.hits]


def derived_from(record: Record) -> tuple[Reference, ...]:
    """A reference that says what a record was derived from."""
    return (Reference("derived_from", record.memory_id, record.id),)
