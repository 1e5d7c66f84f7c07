"""The things a provider speaks of (Memories, sections 4 to 6 and 10.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from provider_workers.domain.filters import Filter


class Status(StrEnum):
    """Where a version stands in its life (section 4)."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"


class Include(StrEnum):
    """Which versions a read covers (section 6.2)."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class File:
    """A file that a part names (section 7)."""

    id: str = ""
    name: str = ""
    media_type: str = ""
    bytes: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a record's content. ``raw`` is an extension part whole, UTF-8 JSON as written."""

    type: str
    text: str = ""
    role: str = ""
    file: File | None = None
    text_source: str = ""
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote a version; stamped from the authenticated caller."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer to a record of any memory of any provider (section 4.2)."""

    rel: str
    memory_id: str
    record_id: str


@dataclass(frozen=True, slots=True)
class Record:
    """One version of one record, as it reads now or as it stood at an instant (section 4).

    ``attributes`` is a UTF-8 JSON object, byte for byte as written; empty means ``{}``.
    """

    id: str
    memory_id: str
    type: str
    content: tuple[Part, ...]
    attributes: bytes
    version: int
    status: Status
    supersedes: str
    valid_from: datetime | None
    valid_to: datetime | None
    written_at: datetime
    invalidated_at: datetime | None
    written_by: Writer
    references: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What a writer states of a record (section 5.1); an episode is a draft of type ``episode``.

    ``projection``: the words a record of a registered type is found by beside its content (section 8).
    """

    type: str
    content: tuple[Part, ...] = ()
    attributes: bytes = b""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    references: tuple[Reference, ...] = ()
    supersedes: str = ""
    projection: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a revision changes; None keeps, a name in ``clear`` (``valid_from``, ``valid_to``) removes."""

    content: tuple[Part, ...] | None = None
    attributes: bytes | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    clear: frozenset[str] = frozenset()
    references: tuple[Reference, ...] | None = None
    projection: str | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the server adds to a write: who, and under which idempotency key ("" for none)."""

    writer: Writer
    key: str = ""
    request_sha256: bytes = b""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a type (section 8). ``definition`` is empty for one that is built in; see
    :mod:`service_kit.attributes` for the others. JSON is UTF-8.
    """

    name: str
    description: str
    input: bytes
    requires: str
    definition: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of record a provider has of its own (section 8).

    ``text`` says in words what the projection is made of, ``projection`` are its paths, in order.
    """

    type: str
    description: str
    schema: bytes
    text: str
    projection: tuple[str, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Operate:
    """An operation asked for on a record, with what its type says. ``expected_version`` 0 expects nothing."""

    type: str
    operation: Operation
    input: bytes
    schema: bytes
    projection: tuple[str, ...]
    expected_version: int = 0


@dataclass(frozen=True, slots=True)
class Operated:
    """The record as it reads after an operation, and what that found out (UTF-8 JSON; empty: nothing)."""

    record: Record
    result: bytes = b""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records a read covers. ``as_of`` None is now; no ``types`` is every type."""

    types: tuple[str, ...] = ()
    filter: Filter | None = None
    include: Include = Include.ACTIVE
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """At most ``limit`` items (0: the default) after ``cursor`` ("": from the start)."""

    limit: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One page; ``next_cursor`` is empty on the last one."""

    records: tuple[Record, ...]
    next_cursor: str
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """Background work: of an observe, ``pending``, ``completed`` or ``failed``. Listed with those of all memories, a
    consolidation run too (``kind``), which has the statuses of section 9.2.
    """

    id: str
    status: str
    records: tuple[Record, ...]
    created_at: datetime
    finished_at: datetime | None = None
    error: str = ""
    # Only where jobs of several memories are listed.
    memory_id: str = ""
    runs: int = 0
    quarantined: int = 0
    pending_since: datetime | None = None
    kind: str = "derivation"


@dataclass(frozen=True, slots=True)
class Backlog:
    """What derivation has still to do in one memory. ``reason``: what the oldest pending job waits for ("": its turn);
    ``quarantined`` episodes of all jobs that are kept; ``tokens_today`` on this UTC day.
    """

    pending: int
    pending_since: datetime | None
    reason: str
    quarantined: int
    tokens_today: int


JobKey = tuple[datetime, str]
"""Where a job stands in a listing: when it was made, and its id."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs; ``next_cursor`` is empty on the last one."""

    jobs: tuple[Job, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What an observe answered: records, or a job that will have some."""

    job: Job | None
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erase removed, and derived copies it could not (section 5.2). ``elsewhere`` is where those of them
    are that lie in other memories.
    """

    erased: tuple[str, ...]
    unreachable: tuple[str, ...] = ()
    elsewhere: tuple["RecordAddress", ...] = ()
    file_ids: tuple[str, ...] = ()
    """Files that nothing in the memory names any more, whose bytes are gone."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which bytes of a record's content: of ``version`` (0: the latest), of the file that the part at ``index`` names
    (-1: the first file), from ``offset`` (below 0: that many from the end on), ``length`` of them (0: to the end).
    """

    version: int = 0
    index: int = -1
    offset: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """What a recall asks (section 6.2). At least one of ``query``, ``text`` and ``selection.filter``."""

    selection: Selection
    query: str = ""
    text: str = ""
    limit: int = 8
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A record a recall found; ``score`` is 0 to 1 and comparable within one answer only. ``signals`` is what it was
    made of, by the provider's own names, where that was asked.
    """

    record: Record
    score: float
    why: tuple[str, ...]
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Found:
    """A recall's answer (section 6.3). ``evidence``, 0 to 1, is what ``abstain`` was decided by: below ``threshold``;
    both 0 when nothing was asked by meaning. ``reason`` is why it abstains: ``nothing_stored``,
    ``below_confidence``, ``subject_mismatch``, ``outside_time`` or a word of the provider's own.
    """

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...] = ()
    abstain: bool = False
    evidence: float = 0.0
    threshold: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capability document (section 10.2): what it declares is done, what it does not is refused."""

    id: str
    isolation: str
    derivation: str
    observe_keeps_episodes: bool
    observe_answers: str
    recall_signals: tuple[str, ...]
    recall_abstain: bool
    recall_max_depth: int
    history_content: str
    history_structure: str
    revise: str
    forget: str
    erase_unreachable: str
    prime: bool
    consolidate: str
    types: bool
    files: bool
    named_query_languages: tuple[str, ...] = ()
    free_query_languages: tuple[str, ...] = ()
    free_query_write: bool = False
    snapshots: bool = False
    content_media: tuple[str, ...] = ()
    content_bytes: str = ""
    content_describes: bool = False
    outside: bool = False
    query_schema: str = ""


Counts = Mapping[str, int]
"""Active records by memory id."""
RecordAddress = tuple[str, str]
"""A memory id and a record id."""
