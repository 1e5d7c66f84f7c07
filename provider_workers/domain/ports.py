"""What a memory system must do to keep records here. Each docstring is the contract, errors included.

Whoever calls has checked access: an adapter knows of no grants, and touches the memories it is named
and no other. A record is reached through its memory: an id of another memory is
``memory_record_not_found`` and that record stays untouched. Requests arrive checked
(:mod:`provider_workers.domain.checks`): sizes, types and filters are within bounds.

An operation the capability document does not declare is ``memory_unsupported``; a recall signal it does
not declare is named in ``degraded`` as ``<signal>:not_supported``.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from datetime import datetime
from typing import Protocol

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


class ProviderAdapter(Protocol):
    """One memory system (Memories, section 10)."""

    @property
    def capabilities(self) -> Capabilities:
        """What it does; constant while the process lives."""
        ...

    async def observe(self, memory_id: str, episodes: Sequence[Draft], stamp: Stamp) -> Observed:
        """Append episodes, in order (section 5.1).

        The episodes and the job that derives from them exist together or not at all; kept episodes are
        read and found by their words at once. ``observe_answers`` says what is answered: ``job`` with no
        records yet, or ``records``.
        """
        ...

    async def job(self, memory_id: str, job_id: str) -> Job:
        """A job of this memory and the records it has produced so far.

        What was erased is no longer among them. ``grovekeeper_not_found`` for any other id.
        """
        ...

    async def remember(self, memory_id: str, draft: Draft, stamp: Stamp) -> Record:
        """Write one record as stated; every signal that is up finds it once this answers.

        Its content names files that are kept: with their ``version`` those of :meth:`keep`, without it those that
        a record of this memory names already. ``file_not_found`` for any other; the same holds for an observe and
        a revision. Words found in a file's bytes become the text of a part that has none, with the ``text_source``
        ``extracted``.

        With ``supersedes`` that record is closed as ``superseded`` in the same step.
        ``memory_record_not_found`` (param ``supersedes``) when it is not in this memory,
        ``grovekeeper_conflict`` when another record superseded it before.
        """
        ...

    async def get(self, memory_id: str, record_id: str, as_of: datetime | None) -> Record:
        """The latest version, forgotten ones included, or the version held at ``as_of``, as it read then.

        ``memory_record_not_found`` also for a record not yet written at ``as_of``.
        """
        ...

    async def list(self, memory_id: str, selection: Selection, page: Page) -> RecordPage:
        """Versions the selection covers, the records written last first.

        A cursor goes on where its page ended, whatever was written since; a revised record keeps its
        place. ``invalid_input`` for a cursor that is not ours.
        """
        ...

    async def revise(
        self, memory_id: str, record_id: str, changes: Changes, expected_version: int, stamp: Stamp
    ) -> Record:
        """Append a version and close the one before it (section 5.3).

        Of concurrent revisions each gets a version of its own; there is never more than one latest.
        ``expected_version`` 0 expects nothing. ``memory_record_not_found``; ``grovekeeper_conflict`` when the
        version is another, or the record forgotten or superseded; ``memory_unsupported`` for an episode.
        """
        ...

    async def forget(self, memory_id: str, record_id: str, expected_version: int, stamp: Stamp) -> Record:
        """Close a record: it leaves every read that does not ask for history (section 5.2).

        Its latest version becomes ``forgotten``; forgetting it again answers the same.
        ``memory_record_not_found``; ``grovekeeper_conflict`` when the version is another.
        """
        ...

    async def erase(self, memory_id: str, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        """Remove records and what was derived from them in this memory, for good (section 5.2).

        All or nothing: ``memory_record_not_found`` when any id is not of this memory. Every version, index
        entry, job result and idempotency answer goes; the derived copies removed are among ``erased``.
        Derived copies that are not removed, for instance in a memory this call may not touch, are
        ``unreachable``; an empty list is a guarantee.

        The bytes and words of files that no remaining version of this memory names are gone before this answers,
        and are ``file_ids``. Where they cannot be removed the erase fails, to be repeated.
        """
        ...

    async def keep(self, memory_id: str, file: File, chunks: AsyncIterable[bytes]) -> File:
        """Keep a file's bytes for this memory; durable when it answers, with ``version`` (section 7).

        One that is kept already is answered as it is, and ``chunks`` not read. What no record names a day later
        is dropped. ``invalid_input`` when there are not ``file.bytes`` of them, ``file_too_large``,
        ``memory_unsupported``; ``grovekeeper_busy`` when too many wait for what is found in theirs.
        """
        ...

    async def read(self, memory_id: str, record_id: str, place: Place) -> tuple[File, AsyncGenerator[bytes]]:
        """A file that a version's content names, and the bytes asked for: none at or past its end.

        ``memory_record_not_found``; ``file_not_found`` where that part is no file.
        """
        ...

    async def kept(self, memory_id: str, file_ids: Sequence[str]) -> frozenset[str]:
        """Which of these files this memory keeps."""
        ...

    async def history(
        self, memory_id: str, record_id: str, as_of: datetime | None = None
    ) -> tuple[Record, ...]:
        """Every version, oldest first, or those written by ``as_of``, as they read then.

        ``memory_record_not_found``, also for a record not yet written at ``as_of``.
        """
        ...

    async def snapshot(self, memory_id: str) -> datetime:
        """An instant that no write is across (section 5.3).

        Every write that was acknowledged is at or before it and every later one after it, so that reading
        ``as_of`` it answers the same for ever, but for what is erased. It may be a moment ahead of the clock.
        """
        ...

    async def recall(self, memory_ids: Sequence[str], question: Question) -> Found:
        """Rank what exactly these memories hold (section 6).

        Nothing outside them takes part, in statistics neither. Filters restrict; alone they answer the
        newest first. ``why`` names the signals that really found a hit. A superseded version never
        outranks the current one.
        """
        ...

    @property
    def types(self) -> Sequence[RecordType]:
        """The types it has of its own; none without ``types`` in the capability document."""
        ...

    async def operate(self, memory_id: str, record_id: str, asked: Operate, stamp: Stamp) -> Operated:
        """Carry out an operation of an extension type (section 8).

        One that requires ``write`` is one new version, made under the record's lock: of two at once neither is
        lost. ``memory_record_not_found`` also for a record of another type; ``memory_invalid`` where the record
        would no longer satisfy the schema; ``memory_unsupported`` for an operation it has not; and as for revise.
        """
        ...

    async def count(self, memory_ids: Sequence[str]) -> Counts:
        """Active records by memory; one with none may be left out."""
        ...

    async def exist(self, records: Sequence[RecordAddress]) -> frozenset[RecordAddress]:
        """Those that can be read by id: written, and not erased."""
        ...

    async def prime(self, memory_id: str) -> tuple[Record, ...]:
        """What is always relevant, within a budget of the provider's own (section 9.1)."""
        ...

    async def purge(self, memory_id: str) -> None:
        """Remove everything a memory held. Safe to repeat."""
        ...


class Adapters(Protocol):
    """The connected memory systems."""

    def adapter(self, provider: str) -> ProviderAdapter:
        """The one of this id. ``memory_unavailable`` when it is not connected."""
        ...

    def documents(self) -> tuple[Capabilities, ...]:
        """Every one's capability document."""
        ...
