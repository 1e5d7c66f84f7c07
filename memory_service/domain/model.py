"""The things the memory service speaks of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from service_kit.idempotency import Idempotency


class Privilege(StrEnum):
    """What a grant permits (Memories, section 3.1)."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Node:
    """A place in the tree as the caller sees it; what it may not see is absent."""

    id: str
    parent_id: str
    ancestors: tuple[str, ...]
    restricted: bool
    privileges: tuple[Privilege, ...]
    children_count: int

    def permits(self, privilege: Privilege) -> bool:
        """Whether the caller holds this privilege here."""
        return privilege in self.privileges


@dataclass(frozen=True, slots=True)
class Description:
    """What this service keeps of a memory."""

    id: str
    name: str
    description: str
    provider: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as one caller sees it (section 2)."""

    node: Node
    description: Description
    records_count: int


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere a caller can walk to (section 6.1)."""

    id: str
    name: str
    description: str
    records_count: int


@dataclass(frozen=True, slots=True)
class Page:
    """Which page is asked for: at most ``limit`` items (0: the default) after ``cursor`` ("" : from the start)."""

    limit: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class NodePage:
    """One page of nodes; ``next_cursor`` is empty on the last one."""

    nodes: tuple[Node, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """One page of memories; ``next_cursor`` is empty on the last one."""

    memories: tuple[Memory, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Address:
    """One memory as its provider keeps it."""

    provider: str
    memory_id: str


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes; stamped from the passport (section 13)."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the server adds to every write: who, and under which key."""

    writer: Writer
    idempotency: Idempotency


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer to a record anywhere (section 4.2). ``available`` is None until it is resolved."""

    rel: str
    memory_id: str
    record_id: str
    available: bool | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One version of a record. ``payload`` is the provider's own answer, carried and never looked into.

    ``withheld``: who is answered may not read it, and learns nothing of what it says.
    """

    id: str
    memory_id: str
    references: tuple[Reference, ...]
    payload: object
    withheld: bool = False
    type: str = ""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a writer states (a draft, a revision, episodes), carried to the provider and never looked into.

    ``files`` are the ids of the files that its content names, ``vouched`` those of them that its provider was just
    given and keeps; what a writer says of a file beyond its id is not carried. ``type`` is a draft's, ``attributes``
    are what is stated of them (None: nothing); ``projection`` is what the server adds: the words a record is found by.
    """

    payload: object
    files: tuple[str, ...] = ()
    vouched: Mapping[str, "File"] = field(default_factory=dict["str", "File"])
    type: str = ""
    attributes: bytes | None = None
    projection: str | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file as a record names it (section 7). ``version`` is the provider's: the same for the same bytes."""

    id: str
    name: str
    media_type: str
    bytes: int
    version: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it was sent, which is its sender's until a record names it."""

    id: str
    principal: str
    name: str
    created_at: datetime
    media_type: str = ""
    bytes: int = 0
    sha256: str = ""
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """Which bytes of a record's content: of ``version`` (0: the latest), of the file that the part at ``index`` names
    (-1: the first file), from ``offset`` (below 0: that many from the end on), ``length`` of them (0: to the end).
    """

    version: int = 0
    index: int = -1
    offset: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One page of records; ``next_cursor`` is empty on the last one."""

    records: tuple[Record, ...]
    next_cursor: str
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """Background work an observe began. ``payload`` is the provider's own answer without its records."""

    payload: object
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs; ``next_cursor`` is empty on the last one."""

    jobs: tuple[Job, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What an observe answered: records, or a job that will have some."""

    job: Job | None
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """What one principal may have in uploads: ``files`` of them, of ``bytes`` together."""

    files: int = 10_000
    bytes: int = 8 * 1024**3


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erase removed and what it could not reach (section 5.2). ``elsewhere`` is where (memory id, record id)
    those of the latter are that lie in other memories; it is for following them and is told to nobody.
    """

    erased: tuple[str, ...]
    unreachable: tuple[str, ...]
    elsewhere: tuple[tuple[str, str], ...] = ()
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One record a recall found; ``score`` is 0 to 1, ``why`` the signals that produced it."""

    record: Record
    score: float
    why: tuple[str, ...]
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an answer was judged by, 0 to 1; below the threshold it abstains."""

    score: float
    threshold: float


@dataclass(frozen=True, slots=True)
class Found:
    """A provider's answer to a recall. ``reason`` is why it abstains; ``evidence`` is set where that was asked."""

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...]
    abstain: bool
    reason: str = ""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What a recall asks. ``payload`` is for the provider; ``limit`` is how many results are wanted; ``past`` is
    whether it looks at an instant (``as_of``).
    """

    payload: object
    limit: int
    asks_something: bool
    past: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """A recall's answer, with where the caller can go from here (section 6.3)."""

    hits: tuple[Hit, ...]
    memories: Mapping[str, Place]
    parent: Place | None
    children: tuple[Place, ...]
    degraded: tuple[str, ...]
    abstain: bool
    reason: str = ""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What of a provider's capability document the rules here depend on.

    ``structure`` is whether it keeps how the tree was; ``payload`` is the whole document.
    """

    id: str
    max_depth: int
    files: bool
    erase: bool
    payload: object
    types: bool = False
    snapshots: bool = False
    structure: bool = False
    named_query_languages: tuple[str, ...] = ()
    free_query_languages: tuple[str, ...] = ()
    outside: bool = False
    query_schema: str = ""
    consolidate: str = ""


@dataclass(frozen=True, slots=True)
class Primed:
    """What a session start places for one memory (section 9.1)."""

    memory: Memory
    children: tuple[Place, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """What an update changes; None leaves a field as it is."""

    name: str | None = None
    description: str | None = None
    restricted: bool | None = None
    parent_id: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """How a node is to lie in the tree; None leaves a thing as it is, ``parent_id`` "" asks for a root."""

    parent_id: str | None = None
    restricted: bool | None = None


@dataclass(frozen=True, slots=True)
class Purge:
    """Memories whose records are to be removed, all of one provider."""

    provider: str
    memory_ids: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A name for an instant of a memory (section 5.3). It copies nothing."""

    id: str
    memory_id: str
    name: str
    message: str
    at: datetime
    writer: Writer


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """One page of snapshots; ``next_cursor`` is empty on the last one."""

    snapshots: tuple[Snapshot, ...]
    next_cursor: str
