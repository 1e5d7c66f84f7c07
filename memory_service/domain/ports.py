"""What the use cases need from outside. Each docstring is the contract, errors included."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from memory_service.domain.keyed import Keyed
from memory_service.domain.model import (
    Address,
    Capabilities,
    Description,
    Erased,
    Found,
    Job,
    Node,
    NodePage,
    Observed,
    Page,
    Privilege,
    Purge,
    Question,
    Record,
    RecordPage,
    Shape,
    Snapshot,
    SnapshotPage,
    Stamp,
    Stated,
)
from memory_service.domain.record_types import Operate, Operated, RecordType
from service_kit.idempotency import Idempotency


class AccessTree(Protocol):
    """The tree and its decisions, taken for the caller of the current passport (authz_service).

    ``memory_not_found`` for a node the caller holds nothing on or that does not exist,
    ``memory_forbidden`` where it holds something else than what is required.
    """

    async def check(self, memory_id: str, required: Privilege | None, *, count: bool = False) -> Node:
        """The node, if the caller holds ``required`` (None: anything) on it; its children only with ``count``."""
        ...

    async def check_many(self, memory_ids: Sequence[str], required: Privilege) -> frozenset[str]:
        """Those of at most 1,000 nodes on which the caller holds ``required``."""
        ...

    async def children(self, memory_id: str, page: Page, required: Privilege | None) -> NodePage:
        """Direct children the caller holds ``required`` (None: anything) on."""
        ...

    async def entry_points(self, page: Page) -> NodePage:
        """Where the caller enters the tree."""
        ...

    async def descendants(self, memory_id: str, page: Page) -> NodePage:
        """Descendants the caller holds anything on, nearest first."""
        ...

    async def reach(
        self, memory_id: str, required: Privilege, max_depth: int, most: int
    ) -> tuple[list[str], bool]:
        """Ids of descendants the caller holds ``required`` on, nearest first, at most ``most`` (100,000), and whether
        there are more; ``max_depth`` 0 means every level.
        """
        ...

    async def create(self, memory_id: str, parent_id: str, *, restricted: bool) -> Node:
        """Adds a node (a root when ``parent_id`` is empty); the same id by the same creator answers it again."""
        ...

    async def update(
        self, memory_id: str, shape: Shape, other: Privilege | None, idempotency: Idempotency
    ) -> Node:
        """Moves or restricts, and demands ``other`` for what changes outside the tree. A repeat under the same
        key changes nothing.
        """
        ...

    async def delete(self, memory_id: str, idempotency: Idempotency) -> None:
        """From the answer on nobody sees the node or anything below it. ``memory_busy`` while work is under way.
        A repeat under the same key is answered as the first time.
        """
        ...

    async def deleted(self, limit: int) -> tuple[str, ...]:
        """Some of the nodes that were deleted and whose content may still be there. For the purge."""
        ...

    async def purge(self, memory_ids: Sequence[str]) -> None:
        """Lets go of deleted nodes; what lay below them is answered by :meth:`deleted` next. For the purge."""
        ...

    async def existing(self, memory_ids: Sequence[str]) -> frozenset[str]:
        """Those that exist. For reconciliation, under a service passport."""
        ...

    async def older_than(self, moment: datetime, page: Page) -> tuple[tuple[str, ...], str]:
        """Ids of nodes created before ``moment`` and the next cursor. For reconciliation."""
        ...

    async def discard(self, memory_ids: Sequence[str]) -> None:
        """Removes half-created nodes. For reconciliation."""
        ...


class KeyedTransaction(Protocol):
    """Verbs of a write under an idempotency key."""

    async def claim(self, key: Keyed) -> bytes | None:
        """None when the write is to be done and settled, else what it answered the first time (always None
        without a key). Waits for a repeat under way. ``grovekeeper_idempotency_mismatch``; ``memory_not_found``
        when the answer went with its memory.
        """
        ...

    async def settle(self, key: Keyed, answer: bytes, memory_id: str | None) -> bytes:
        """Keeps what a claimed key answers and answers what is kept. It goes with ``memory_id``, if any."""
        ...


class Transaction(KeyedTransaction, Protocol):
    """Verbs of one transaction on what this service keeps."""

    async def release(self, key: Keyed) -> None:
        """What a claim was for was refused: the key is free again, unless it was settled."""
        ...

    async def add(self, description: Description) -> None:
        """Stores the description of a memory that is being made. One that is there already, from an attempt
        that was cut short, stays and counts as just made.
        """
        ...

    async def withdraw(self, key: Keyed) -> None:
        """The same though it was settled: what was kept to be answered did not come about."""
        ...

    async def change(
        self, memory_id: str, name: str | None, description: str | None, now: datetime
    ) -> Description | None:
        """Changes what is not None; None when the memory is not there."""
        ...

    async def remove(
        self, memory_ids: Sequence[str], made_before: datetime | None = None
    ) -> tuple[Purge, ...]:
        """Removes descriptions, only those older than a moment where one is given; answers what is left to
        purge, by provider.
        """
        ...

    async def enqueue_purge(self, purge: Purge) -> None:
        """Enqueues the purge of records, in this transaction."""
        ...

    async def enqueue_clearing(self) -> None:
        """Enqueues the clearing of all that was deleted, in this transaction."""
        ...


class Descriptions(Protocol):
    """What this service keeps: names, descriptions, providers."""

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction, committed when the block ends without an error."""
        ...

    async def get(self, memory_ids: Sequence[str]) -> dict[str, Description]:
        """Those that are there, by id."""
        ...

    async def by_provider(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        """Those that are there, by who keeps their records."""
        ...

    async def ids_after(self, after: str, limit: int, before: datetime) -> tuple[str, ...]:
        """Ids in order, after one, of memories created before a moment. For reconciliation."""
        ...

    async def answered(self, key: Keyed) -> bytes | None:
        """What a key answered, if anything, without claiming it. Raises as :meth:`Transaction.claim` does."""
        ...

    async def drop_old_keys(self, before: datetime) -> None:
        """Removes idempotency keys stored before a moment."""
        ...


class Provider(Protocol):
    """The connected providers (protos/provider/v1). ``memory_unavailable`` when one does not answer."""

    async def describe(self) -> tuple[Capabilities, ...]:
        """Every connected provider's capability document."""
        ...

    async def observe(self, address: Address, episodes: Sequence[Stated], stamp: Stamp) -> Observed:
        """Appends episodes."""
        ...

    async def job(self, address: Address, job_id: str) -> Job:
        """A job of this memory. ``grovekeeper_not_found`` otherwise."""
        ...

    async def remember(self, address: Address, draft: Stated, stamp: Stamp) -> Record:
        """Writes one record as stated."""
        ...

    async def get(self, address: Address, record_id: str, as_of: datetime | None) -> Record:
        """The latest version, or the one held at ``as_of``. ``memory_record_not_found``."""
        ...

    async def list(self, address: Address, selection: Stated, page: Page) -> RecordPage:
        """Records, newest first. ``selection`` carries types, filter, include and as_of."""
        ...

    async def revise(
        self,
        address: Address,
        record_id: str,
        changes: Stated,
        expected_version: int,
        stamp: Stamp,
    ) -> Record:
        """Appends a version. ``memory_record_not_found``, ``grovekeeper_conflict``, ``memory_unsupported``."""
        ...

    async def forget(self, address: Address, record_id: str, expected_version: int, stamp: Stamp) -> Record:
        """Closes a record. Errors as for revise."""
        ...

    async def erase(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        """Removes content for good. ``memory_record_not_found`` for any id that is not of this memory."""
        ...

    async def history(self, address: Address, record_id: str, as_of: datetime | None) -> tuple[Record, ...]:
        """Every version, oldest first, or those written by ``as_of``, as they read then."""
        ...

    async def types(self) -> tuple[RecordType, ...]:
        """The types the connected providers have of their own."""
        ...

    async def operate(self, address: Address, record_id: str, asked: Operate, stamp: Stamp) -> Operated:
        """Carries out an operation. ``memory_record_not_found``, ``memory_invalid`` where the record would no longer
        satisfy its type's schema, ``memory_unsupported``, ``grovekeeper_conflict``.
        """
        ...

    async def snapshot(self, address: Address) -> datetime:
        """An instant that no write is across: what was acknowledged is at or before it, what follows after it."""
        ...

    async def recall(self, provider: str, memory_ids: Sequence[str], question: Question) -> Found:
        """Searches exactly these memories, every one of which the caller may read."""
        ...

    async def count(self, provider: str, memory_ids: Sequence[str]) -> dict[str, int]:
        """Active records by memory; one with none may be left out."""
        ...

    async def exist(self, provider: str, records: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Which (memory id, record id) pairs can be read."""
        ...

    async def prime(self, address: Address) -> tuple[Record, ...]:
        """What is always relevant in a memory."""
        ...

    async def purge(self, address: Address) -> None:
        """Removes everything a memory held. Safe to repeat."""
        ...


class SnapshotTransaction(KeyedTransaction, Protocol):
    """Verbs of one transaction on the snapshots."""

    async def add(self, snapshot: Snapshot, most: int) -> None:
        """Keeps one more. ``memory_invalid`` when the name is taken or there are ``most`` already,
        ``memory_not_found`` when the memory is gone.
        """
        ...

    async def remove(self, memory_id: str, snapshot_id: str) -> Snapshot | None:
        """Removes one; None when it is not there."""
        ...


class SnapshotStore(Protocol):
    """The snapshots of every memory."""

    def begin(self) -> AbstractAsyncContextManager[SnapshotTransaction]:
        """A transaction, committed when the block ends without an error."""
        ...

    async def get(self, memory_id: str, snapshot_id: str) -> Snapshot | None:
        """One of a memory; None when it is not there."""
        ...

    async def list(self, memory_id: str, page: Page) -> SnapshotPage:
        """Those of a memory, newest first. ``invalid_input`` for a cursor that is not ours."""
        ...


class TypeTransaction(KeyedTransaction, Protocol):
    """Verbs of one transaction on the registered types."""

    async def put(self, one: RecordType, most: int) -> None:
        """Registers or replaces. ``memory_invalid`` when there are ``most`` others already."""
        ...

    async def remove(self, name: str) -> RecordType | None:
        """Takes one back; None when it is not there."""
        ...


class TypeStore(Protocol):
    """The types registered through the API."""

    def begin(self) -> AbstractAsyncContextManager[TypeTransaction]:
        """A transaction, committed when the block ends without an error."""
        ...

    async def get(self, name: str) -> RecordType | None:
        """One of them; None when it is not registered."""
        ...

    async def list(self) -> tuple[RecordType, ...]:
        """All of them, by name."""
        ...
