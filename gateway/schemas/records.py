"""Records, observing, recalling and erasing (Memories, sections 4 to 6)."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from gateway.schemas.base import UNSET, Answer, Ask, Instant, Raw, Text, UnsetType, Whole
from gateway.schemas.content import Content, Part, Role, WireContent, WirePart
from gateway.schemas.filters import Filter
from gateway.schemas.memories import Place

__all__ = [
    "Episode",
    "Erase",
    "Erased",
    "Found",
    "History",
    "Include",
    "Job",
    "JobAnswer",
    "JobBrief",
    "ListRecords",
    "NewReference",
    "Observe",
    "Observed",
    "ObservedAnswer",
    "ReadAt",
    "Recall",
    "RecallAnswer",
    "Recalled",
    "Record",
    "RecordAnswer",
    "RecordPage",
    "Records",
    "Reference",
    "Remember",
    "Result",
    "Revise",
    "Times",
    "Valid",
    "Writer",
]

Include: TypeAlias = Literal["active", "superseded", "forgotten", "all"]


class Valid(Ask, kw_only=True, frozen=True):
    """When it was true in the world. ``null`` on a revision removes a bound."""

    valid_from: Instant | UnsetType | None = UNSET
    valid_to: Instant | UnsetType | None = UNSET


class NewReference(Ask, kw_only=True, frozen=True):
    """A pointer a writer states; its target is not looked at (section 4.2)."""

    memory_id: Text
    record_id: Text
    rel: str | None = None


class Remember(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/records``: one record as stated."""

    type: Text
    content: Content | UnsetType = UNSET
    attributes: Raw | UnsetType = UNSET
    time: Valid | None = None
    references: list[NewReference] | None = None
    supersedes: str | None = None


class Revise(Ask, kw_only=True, frozen=True):
    """Body of ``PATCH …/records/{rid}``: what changes."""

    content: Content | UnsetType = UNSET
    attributes: Raw | UnsetType = UNSET
    time: Valid | UnsetType = UNSET
    references: list[NewReference] | UnsetType = UNSET
    expected_version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class Forget(Ask, kw_only=True, frozen=True):
    """Body (optional) and query of ``DELETE …/records/{rid}``."""

    expected_version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class Episode(Ask, kw_only=True, frozen=True):
    """One piece of raw experience. ``role`` is whose the content is, where its parts do not say."""

    content: Content
    role: Role | None = None
    attributes: Raw | UnsetType = UNSET
    time: Valid | None = None
    references: list[NewReference] | None = None


class Observe(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/observe``."""

    episodes: Annotated[list[Episode], Meta(min_length=1, max_length=500)]


class ReadAt(Ask, kw_only=True, frozen=True):
    """Query of a read: the memory as it stood at ``as_of``."""

    as_of: Instant | None = None


class ListRecords(Ask, kw_only=True, frozen=True):
    """Query of ``GET …/records``. ``types`` may be repeated or separated by commas; ``filters`` is JSON."""

    types: list[str] = msgspec.field(default_factory=list[str])
    include: Include | None = None
    as_of: Instant | None = None
    filters: str = ""
    limit: Whole = 0
    cursor: str = ""


class Recall(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/recall`` (section 6.2)."""

    query: str | None = None
    text: str | None = None
    filters: Filter | None = None
    types: list[str] | None = None
    as_of: Instant | None = None
    include: Include | None = None
    limit: Whole | None = None
    depth: Whole | None = None
    explain: bool = False


class Erase(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/erase``."""

    record_ids: Annotated[list[Text], Meta(min_length=1, max_length=1000)]


class Times(Answer, kw_only=True, frozen=True):
    """When it was true in the world, and when the memory held it."""

    valid_from: datetime | None
    valid_to: datetime | None
    written_at: datetime | None
    invalidated_at: datetime | None


class Writer(Answer, kw_only=True, frozen=True):
    """Who wrote a version, stamped by the server."""

    kind: str
    id: str


class Reference(Answer, kw_only=True, frozen=True):
    """A pointer as its reader may see it: what cannot be followed says so and nothing else."""

    rel: str | UnsetType = UNSET
    memory_id: str
    record_id: str
    available: Literal[False] | UnsetType = UNSET


class Record(Answer, kw_only=True, frozen=True):
    """One version of a record inside the gateway; a revision makes a :class:`RecordAnswer` of it."""

    id: str
    memory_id: str
    type: str
    content: list[Part]
    attributes: bytes
    version: int
    status: str
    supersedes: str
    time: Times
    written_by: Writer
    references: list[Reference]


class RecordAnswer(Answer, kw_only=True, frozen=True):
    """A record as it is read (section 4)."""

    id: str
    object: Literal["memory.record"] = "memory.record"
    memory_id: str
    type: str
    content: WireContent
    parts: list[WirePart] | UnsetType = UNSET
    attributes: Raw
    version: int
    status: str
    supersedes: str | UnsetType = UNSET
    time: Times
    written_by: Writer
    references: list[Reference]
    trust: Literal["untrusted"] = "untrusted"


class RecordPage(Answer, kw_only=True, frozen=True):
    """A page of records inside the gateway."""

    records: list[Record]
    next_cursor: str | None
    degraded: list[str]


class Records(Answer, kw_only=True, frozen=True):
    """A page of records. ``degraded`` is there when part of the request was not done."""

    data: list[RecordAnswer]
    next_cursor: str | None
    degraded: list[str] | UnsetType = UNSET


class History(Answer, kw_only=True, frozen=True):
    """Every version, oldest first."""

    data: list[RecordAnswer]


class Job(Answer, kw_only=True, frozen=True):
    """Background work inside the gateway."""

    id: str
    status: str
    records: list[Record]
    created_at: datetime | None
    finished_at: datetime | None
    error: str


class JobBrief(Answer, kw_only=True, frozen=True):
    """A job as an observe names it."""

    id: str
    status: str


class JobAnswer(Answer, kw_only=True, frozen=True):
    """A job and what it wrote so far."""

    id: str
    object: Literal["memory.job"] = "memory.job"
    memory_id: str
    status: str
    records: list[RecordAnswer]
    created_at: datetime | UnsetType = UNSET
    finished_at: datetime | UnsetType = UNSET
    error: str | UnsetType = UNSET


class Observed(Answer, kw_only=True, frozen=True):
    """What an observe came to, inside the gateway."""

    job: Job | None
    records: list[Record]


class ObservedAnswer(Answer, kw_only=True, frozen=True):
    """200 with records, or 202 with a job that will have some (section 5.1)."""

    job: JobBrief | UnsetType = UNSET
    records: list[RecordAnswer]


class Erased(Answer, kw_only=True, frozen=True):
    """What was removed, and derived copies that could not be (section 5.2)."""

    erased: list[str]
    unreachable: list[str]


class Found(Answer, kw_only=True, frozen=True):
    """One record a recall found, inside the gateway."""

    record: Record
    score: float
    why: list[str]
    memory: Place | None
    signals: dict[str, float] = msgspec.field(default_factory=dict[str, float])


class Evidence(Answer, kw_only=True, frozen=True):
    """What an answer was judged by, both 0 to 1: below the threshold it abstains."""

    score: float
    threshold: float


class Recalled(Answer, kw_only=True, frozen=True):
    """A recall's answer inside the gateway."""

    results: list[Found]
    parent: Place | None
    children: list[Place]
    degraded: list[str]
    abstain: bool
    abstain_reason: str = ""
    evidence: Evidence | None = None


class Holder(Answer, kw_only=True, frozen=True):
    """The memory that holds a result."""

    id: str
    name: str


class Result(Answer, kw_only=True, frozen=True):
    """One result of a recall; ``why`` names the signals that produced it. That of a query has no score."""

    record: RecordAnswer
    score: float | UnsetType = UNSET
    why: list[str]
    memory: Holder | UnsetType = UNSET
    signals: dict[str, float] | UnsetType = UNSET


class RecallAnswer(Answer, kw_only=True, frozen=True):
    """What was found, and where to go from here (section 6.3). With ``explain``, results have ``signals`` and the
    answer the ``evidence`` it was judged by.
    """

    results: list[Result]
    parent: Place | UnsetType = UNSET
    children: list[Place]
    degraded: list[str]
    abstain: bool
    abstain_reason: str | UnsetType = UNSET
    evidence: Evidence | UnsetType = UNSET
