"""The operations on the memories bound to a provider: check what holds for all, then ask its adapter."""

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from datetime import datetime

from provider_workers.domain import checks, errors, limits
from provider_workers.domain.model import (
    Capabilities,
    Changes,
    Counts,
    Draft,
    Erased,
    File,
    Found,
    Job,
    Observed,
    Operate,
    Operated,
    Page,
    Place,
    Question,
    Record,
    RecordAddress,
    RecordPage,
    RecordType,
    Selection,
    Stamp,
)
from provider_workers.domain.ports import Adapters, ProviderAdapter

Address = tuple[str, str]
"""A provider's id and a memory's."""


class Operations:
    """Every operation of :class:`~provider_workers.domain.ports.ProviderAdapter`, by address."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters

    def describe(self) -> tuple[Capabilities, ...]:
        """Every connected provider's capability document."""
        return self._adapters.documents()

    async def observe(self, address: Address, episodes: Sequence[Draft], stamp: Stamp) -> Observed:
        adapter, memory_id = self._adapters.adapter(address[0]), _memory(address)
        checks.episodes(episodes, adapter.capabilities)
        return await adapter.observe(memory_id, episodes, stamp)

    async def job(self, address: Address, job_id: str) -> Job:
        checks.identifier(job_id, "job_id")
        return await self._adapters.adapter(address[0]).job(_memory(address), job_id)

    async def remember(self, address: Address, draft: Draft, stamp: Stamp) -> Record:
        adapter, memory_id = self._adapters.adapter(address[0]), _memory(address)
        checks.draft(draft, adapter.capabilities)
        if draft.supersedes:
            checks.record(draft.supersedes, "supersedes")
        return await adapter.remember(memory_id, draft, stamp)

    async def get(self, address: Address, record_id: str, as_of: datetime | None) -> Record:
        checks.record(record_id, "record_id")
        return await self._adapters.adapter(address[0]).get(_memory(address), record_id, as_of)

    async def list(self, address: Address, selection: Selection, page: Page) -> RecordPage:
        checks.selection(selection)
        return await self._adapters.adapter(address[0]).list(_memory(address), selection, page)

    async def revise(
        self, address: Address, record_id: str, changes: Changes, expected_version: int, stamp: Stamp
    ) -> Record:
        adapter, memory_id = self._adapters.adapter(address[0]), _memory(address)
        checks.record(record_id, "record_id")
        checks.changes(changes, adapter.capabilities)
        return await adapter.revise(memory_id, record_id, changes, expected_version, stamp)

    async def forget(self, address: Address, record_id: str, expected_version: int, stamp: Stamp) -> Record:
        checks.record(record_id, "record_id")
        adapter, memory_id = self._adapters.adapter(address[0]), _memory(address)
        return await adapter.forget(memory_id, record_id, expected_version, stamp)

    async def erase(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        checks.many(record_ids, limits.MAX_ERASED, "record_ids", least=1)
        for one in record_ids:
            checks.record(one, "record_ids")
        return await self._adapters.adapter(address[0]).erase(_memory(address), record_ids, stamp)

    async def keep(self, address: Address, file: File, chunks: AsyncIterable[bytes]) -> File:
        adapter, memory_id = self._with_files(address)
        checks.identifier(file.id, "file.id")
        return await adapter.keep(memory_id, file, chunks)

    async def read(
        self, address: Address, record_id: str, place: Place
    ) -> tuple[File, AsyncGenerator[bytes]]:
        adapter, memory_id = self._with_files(address)
        checks.record(record_id, "record_id")
        return await adapter.read(memory_id, record_id, place)

    async def kept(self, address: Address, file_ids: Sequence[str]) -> frozenset[str]:
        adapter, memory_id = self._with_files(address)
        checks.many(file_ids, limits.MAX_FILES, "file_ids")
        return await adapter.kept(memory_id, file_ids)

    def _with_files(self, address: Address) -> tuple[ProviderAdapter, str]:
        adapter, memory_id = self._adapters.adapter(address[0]), _memory(address)
        if not adapter.capabilities.files:
            raise errors.unsupported("files")
        return adapter, memory_id

    async def history(self, address: Address, record_id: str, as_of: datetime | None) -> tuple[Record, ...]:
        checks.record(record_id, "record_id")
        return await self._adapters.adapter(address[0]).history(_memory(address), record_id, as_of)

    async def snapshot(self, address: Address) -> datetime:
        adapter, memory_id = self._adapters.adapter(address[0]), _memory(address)
        if not adapter.capabilities.snapshots:
            raise errors.unsupported("snapshots")
        return await adapter.snapshot(memory_id)

    def types(self) -> Mapping[str, Sequence[RecordType]]:
        """The types each connected provider has of its own."""
        return {one.id: self._adapters.adapter(one.id).types for one in self._adapters.documents()}

    async def operate(self, address: Address, record_id: str, asked: Operate, stamp: Stamp) -> Operated:
        checks.identifier(record_id, "record_id")
        adapter, memory_id = self._adapters.adapter(address[0]), _memory(address)
        if not adapter.capabilities.types:
            raise errors.unsupported("operations of types")
        return await adapter.operate(memory_id, record_id, asked, stamp)

    async def recall(self, provider: str, memory_ids: Sequence[str], question: Question) -> Found:
        checks.many(memory_ids, limits.MAX_MEMORIES, "memory_ids", least=1)
        checks.question(question)
        return await self._adapters.adapter(provider).recall(memory_ids, question)

    async def count(self, provider: str, memory_ids: Sequence[str]) -> Counts:
        checks.many(memory_ids, limits.MAX_COUNTED, "memory_ids")
        return await self._adapters.adapter(provider).count(memory_ids)

    async def exist(self, provider: str, records: Sequence[RecordAddress]) -> frozenset[RecordAddress]:
        checks.many(records, limits.MAX_EXIST, "records")
        return await self._adapters.adapter(provider).exist(records)

    async def prime(self, address: Address) -> tuple[Record, ...]:
        return await self._adapters.adapter(address[0]).prime(_memory(address))

    async def purge(self, address: Address) -> None:
        await self._adapters.adapter(address[0]).purge(_memory(address))


def _memory(address: Address) -> str:
    checks.identifier(address[1], "memory_id")
    return address[1]
