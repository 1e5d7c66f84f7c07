"""In-memory doubles of what the memory service's use cases need from outside."""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from memory_service.domain import errors
from memory_service.domain.keyed import Keyed
from memory_service.domain.model import (
    Address,
    Capabilities,
    Description,
    Erased,
    File,
    Found,
    Hit,
    Job,
    Node,
    NodePage,
    Observed,
    Page,
    Piece,
    Privilege,
    Purge,
    Question,
    Record,
    RecordPage,
    Room,
    Shape,
    Stamp,
    Stated,
    Upload,
)
from memory_service.domain.ports import TypeTransaction
from memory_service.domain.record_types import Operate, Operated, RecordType
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency, mismatch

EVERYTHING = tuple(Privilege)
NOW = datetime(2026, 10, 4, tzinfo=UTC)


@dataclass
class Tree:
    """A tree in which one caller holds ``held``; parents by id ("" for a root)."""

    parents: dict[str, str] = field(default_factory=dict[str, str])
    held: dict[str, tuple[Privilege, ...]] = field(default_factory=dict[str, tuple[Privilege, ...]])
    gone: list[str] = field(default_factory=list[str])
    deleted_under: set[str] = field(default_factory=set[str])
    broken: bool = False
    refuses: bool = False

    def plant(self, memory_id: str, parent_id: str = "", held: tuple[Privilege, ...] = EVERYTHING) -> None:
        self.parents[memory_id] = parent_id
        self.held[memory_id] = held

    def _node(self, memory_id: str) -> Node:
        parent = self.parents[memory_id]
        seen = parent if self.held.get(parent) else ""
        children = [one for one, above in self.parents.items() if above == memory_id and self.held[one]]
        return Node(memory_id, seen, (), False, self.held[memory_id], len(children))

    async def check(self, memory_id: str, required: Privilege | None, *, count: bool = False) -> Node:
        if not self.held.get(memory_id):
            raise errors.memory_not_found()
        if required is not None and required not in self.held[memory_id]:
            raise GroveError("memory_forbidden", "No.")
        return self._node(memory_id)

    async def check_many(self, memory_ids: Sequence[str], required: Privilege) -> frozenset[str]:
        return frozenset(one for one in memory_ids if required in self.held.get(one, ()))

    async def children(self, memory_id: str, page: Page, required: Privilege | None) -> NodePage:
        await self.check(memory_id, None)
        found = [
            self._node(one)
            for one, above in self.parents.items()
            if above == memory_id and (required in self.held[one] if required else self.held[one])
        ]
        limit = page.limit or 50
        return NodePage(tuple(found[:limit]), "more" if len(found) > limit else "")

    async def entry_points(self, page: Page) -> NodePage:
        found = [self._node(one) for one, held in self.held.items() if held]
        return NodePage(tuple(one for one in found if not one.parent_id), "")

    async def descendants(self, memory_id: str, page: Page) -> NodePage:
        return NodePage(tuple(self._node(one) for one in self._below(memory_id, 0) if self.held[one]), "")

    async def reach(
        self, memory_id: str, required: Privilege, max_depth: int, most: int
    ) -> tuple[list[str], bool]:
        found = [one for one in self._below(memory_id, max_depth) if required in self.held[one]]
        return found[:most], len(found) > most

    def _below(self, memory_id: str, max_depth: int) -> list[str]:
        level, depth, found = [memory_id], 0, list[str]()
        while level and (max_depth == 0 or depth < max_depth):
            level, depth = [one for one, above in self.parents.items() if above in level], depth + 1
            found += level
        return found

    async def create(self, memory_id: str, parent_id: str, *, restricted: bool) -> Node:
        if self.broken:
            raise GroveError("grovekeeper_unavailable", "The line is cut.")
        if self.refuses:
            raise errors.invalid("Too deep.", "parent_id")
        if parent_id:
            await self.check(parent_id, Privilege.CREATE)
        self.plant(memory_id, parent_id)
        return self._node(memory_id)

    async def update(
        self, memory_id: str, shape: Shape, other: Privilege | None, idempotency: Idempotency
    ) -> Node:
        await self.check(memory_id, other)
        if shape.parent_id is not None:
            self.parents[memory_id] = shape.parent_id
        return self._node(memory_id)

    async def delete(self, memory_id: str, idempotency: Idempotency) -> None:
        if idempotency.key and idempotency.key in self.deleted_under:
            return
        await self.check(memory_id, Privilege.DELETE)
        self.deleted_under.add(idempotency.key)
        self.parents[memory_id] = ""
        self.held[memory_id] = ()
        self.gone.append(memory_id)

    async def deleted(self, limit: int) -> tuple[str, ...]:
        return tuple(self.gone[:limit])

    async def purge(self, memory_ids: Sequence[str]) -> None:
        for one in memory_ids:
            self.gone += [below for below, above in self.parents.items() if above == one]
            self.gone.remove(one)
            del self.parents[one], self.held[one]

    async def existing(self, memory_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(one for one in memory_ids if one in self.parents and one not in self.gone)

    async def older_than(self, moment: datetime, page: Page) -> tuple[tuple[str, ...], str]:
        return tuple(self.parents), ""

    async def discard(self, memory_ids: Sequence[str]) -> None:
        for one in memory_ids:
            del self.parents[one], self.held[one]


@dataclass
class Shelf:
    """Descriptions and what a transaction did to them."""

    kept: dict[str, Description] = field(default_factory=dict[str, Description])
    keys: dict[tuple[str, str, str], tuple[bytes, bytes | None]] = field(
        default_factory=dict[tuple[str, str, str], tuple[bytes, bytes | None]]
    )
    purges: list[Purge] = field(default_factory=list[Purge])
    clearings: int = 0

    def put(self, *memory_ids: str, provider: str = "native") -> None:
        for one in memory_ids:
            self.kept[one] = Description(one, f"name of {one}", "", provider, NOW, NOW)

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator["Shelf"]:
        yield self

    async def claim(self, key: Keyed) -> bytes | None:
        if key:
            self.keys.setdefault(_named(key), (key.idempotency.request_sha256, None))
        return await self.answered(key)

    async def answered(self, key: Keyed) -> bytes | None:
        sha256, answer = self.keys.get(_named(key), (key.idempotency.request_sha256, None))
        if sha256 != key.idempotency.request_sha256:
            raise mismatch()
        return answer

    async def settle(self, key: Keyed, answer: bytes, memory_id: str | None) -> bytes:
        if not key:
            return answer
        sha256, kept = self.keys[_named(key)]
        self.keys[_named(key)] = sha256, kept or answer
        return kept or answer

    async def release(self, key: Keyed) -> None:
        if self.keys[_named(key)][1] is None:
            del self.keys[_named(key)]

    async def withdraw(self, key: Keyed) -> None:
        self.keys.pop(_named(key), None)

    async def add(self, description: Description) -> None:
        kept = self.kept.setdefault(description.id, description)
        self.kept[description.id] = replace(kept, created_at=description.created_at)

    async def change(
        self, memory_id: str, name: str | None, description: str | None, now: datetime
    ) -> Description | None:
        old = self.kept.get(memory_id)
        if old is None:
            return None
        new = replace(old, name=name or old.name, description=description or old.description)
        self.kept[memory_id] = new
        return new

    async def remove(
        self, memory_ids: Sequence[str], made_before: datetime | None = None
    ) -> tuple[Purge, ...]:
        old = [
            one
            for one in memory_ids
            if one in self.kept and (made_before is None or self.kept[one].created_at < made_before)
        ]
        gone = [self.kept.pop(one) for one in old]
        return tuple(Purge(one.provider, (one.id,)) for one in gone)

    async def enqueue_purge(self, purge: Purge) -> None:
        self.purges.append(purge)

    async def enqueue_clearing(self) -> None:
        self.clearings += 1

    async def get(self, memory_ids: Sequence[str]) -> dict[str, Description]:
        return {one: self.kept[one] for one in memory_ids if one in self.kept}

    async def by_provider(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        found = defaultdict[str, list[str]](list)
        for one in filter(self.kept.__contains__, memory_ids):
            found[self.kept[one].provider].append(one)
        return found

    async def ids_after(self, after: str, limit: int, before: datetime) -> tuple[str, ...]:
        return tuple(sorted(one for one in self.kept if one > after)[:limit])

    async def drop_old_keys(self, before: datetime) -> None:
        return None


@dataclass
class Acts:
    """What the audit was told."""

    told: list[tuple[str, str, dict[str, str]]] = field(default_factory=list[tuple[str, str, dict[str, str]]])

    async def record(self, action: str, memory_id: str, **detail: str) -> None:
        self.told.append((action, memory_id, detail))


def _named(key: Keyed) -> tuple[str, str, str]:
    return key.principal, key.operation, key.idempotency.key


@dataclass
class Keeper:
    """A provider that keeps records in a list and remembers what it was asked."""

    records: list[Record] = field(default_factory=list[Record])
    asked: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    stamps: list[Stamp] = field(default_factory=list[Stamp])
    names: tuple[str, ...] = ("native",)
    looked_up: list[tuple[str, frozenset[tuple[str, str]]]] = field(
        default_factory=list[tuple[str, frozenset[tuple[str, str]]]]
    )
    max_depth: int = 3
    files: bool = False
    erases: bool = True
    copies: dict[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, str], ...]]
    )
    erased_in: list[str] = field(default_factory=list[str])

    async def describe(self) -> tuple[Capabilities, ...]:
        return tuple(
            Capabilities(one, self.max_depth, self.files, self.erases, payload=None) for one in self.names
        )

    async def observe(self, address: Address, episodes: Sequence[Stated], stamp: Stamp) -> Observed:
        self.stamps.append(stamp)
        return Observed(Job(None, ()), ())

    async def job(self, address: Address, job_id: str) -> Job:
        return Job(None, tuple(one for one in self.records if one.memory_id == address.memory_id))

    async def remember(self, address: Address, draft: Stated, stamp: Stamp) -> Record:
        self.stamps.append(stamp)
        record = Record(f"hrec_{len(self.records)}", address.memory_id, (), draft.payload)
        self.records.append(record)
        return record

    async def get(self, address: Address, record_id: str, as_of: datetime | None) -> Record:
        for one in self.records:
            if (one.memory_id, one.id) == (address.memory_id, record_id):
                return one
        raise errors.record_not_found()

    async def list(self, address: Address, selection: Stated, page: Page) -> RecordPage:
        return RecordPage(tuple(one for one in self.records if one.memory_id == address.memory_id), "")

    async def revise(
        self, address: Address, record_id: str, changes: Stated, expected_version: int, stamp: Stamp
    ) -> Record:
        return await self.get(address, record_id, None)

    async def forget(self, address: Address, record_id: str, expected_version: int, stamp: Stamp) -> Record:
        return await self.get(address, record_id, None)

    async def erase(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        self.erased_in.append(address.memory_id)
        elsewhere = self.copies.get(address.memory_id, ())
        return Erased(tuple(record_ids), tuple(one for _, one in elsewhere), elsewhere)

    async def history(self, address: Address, record_id: str, as_of: datetime | None) -> tuple[Record, ...]:
        return (await self.get(address, record_id, None),)

    async def types(self) -> tuple[RecordType, ...]:
        return ()

    async def operate(self, address: Address, record_id: str, asked: Operate, stamp: Stamp) -> Operated:
        return Operated(await self.get(address, record_id, None), b"")

    async def snapshot(self, address: Address) -> datetime:
        return NOW

    async def recall(self, provider: str, memory_ids: Sequence[str], question: Question) -> Found:
        self.asked.append(tuple(memory_ids))
        hits = tuple(Hit(one, 1.0, ("query",)) for one in self.records if one.memory_id in memory_ids)
        return Found(hits, (), abstain=not hits)

    async def count(self, provider: str, memory_ids: Sequence[str]) -> dict[str, int]:
        return {one: sum(record.memory_id == one for record in self.records) for one in memory_ids}

    async def exist(self, provider: str, records: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        self.looked_up.append((provider, frozenset(records)))
        there = {(one.memory_id, one.id) for one in self.records}
        return frozenset(there.intersection(records))

    async def prime(self, address: Address) -> tuple[Record, ...]:
        return tuple(one for one in self.records if one.memory_id == address.memory_id)

    async def purge(self, address: Address) -> None:
        self.records = [one for one in self.records if one.memory_id != address.memory_id]


@dataclass
class Sent:
    """Uploads by id; ``kept`` says which memories were given which."""

    uploads: dict[str, Upload] = field(default_factory=dict[str, Upload])
    kept: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    hidden: list[str] = field(default_factory=list[str])
    checks: list[Address] = field(default_factory=list[Address])
    begun: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])

    async def begin_upload(self, upload: Upload, room: Room) -> int:
        self.begun.append(upload.id)
        return min(upload.bytes, room.bytes)

    async def finish(self, upload: Upload, key: Keyed) -> str:
        self.uploads[upload.id] = upload
        return upload.id

    async def get(self, file_ids: Sequence[str], principal: str) -> Mapping[str, Upload]:
        mine = {id_: one for id_, one in self.uploads.items() if one.principal == principal}
        return {one: mine[one] for one in file_ids if one in mine}

    async def note_kept(self, file_ids: Sequence[str], memory_id: str) -> None:
        self.kept += [(memory_id, one) for one in file_ids]

    async def kept_in(self, memory_id: str, before: datetime) -> tuple[str, ...]:
        return tuple(one for memory, one in self.kept if memory == memory_id)

    async def enqueue_check(self, address: Address) -> None:
        self.checks.append(address)

    async def hide(self, file_ids: Sequence[str]) -> None:
        self.hidden += file_ids

    async def old(self, complete: datetime, incomplete: datetime, limit: int) -> tuple[str, ...]:
        return ()

    async def remove(self, file_ids: Sequence[str]) -> None:
        for one in file_ids:
            self.uploads.pop(one, None)
            self.removed.append(one)


@dataclass
class Folder:
    """What a provider keeps of files."""

    files: dict[str, File] = field(default_factory=dict[str, File])

    async def keep(self, address: Address, file: File, chunks: AsyncIterable[bytes]) -> File:
        self.files[file.id] = replace(file, version=b"".join([one async for one in chunks]).hex())
        return self.files[file.id]

    async def read(self, address: Address, record_id: str, piece: Piece) -> AsyncGenerator[File | bytes]:
        for one in self.files.values():
            yield one

    async def kept(self, address: Address, file_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(self.files) & frozenset(file_ids)


class NoTypes:
    """A registry in which nothing is registered."""

    async def get(self, name: str) -> RecordType | None:
        return None

    async def list(self) -> tuple[RecordType, ...]:
        return ()

    def begin(self) -> AbstractAsyncContextManager[TypeTransaction]:
        raise AssertionError("nothing is registered here")
