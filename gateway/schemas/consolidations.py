"""Consolidation runs (Memories, section 9.2)."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from gateway.schemas.base import UNSET, Answer, Ask, UnsetType, Whole
from gateway.schemas.records import RecordAnswer, Writer

__all__ = [
    "Budget",
    "ChangeCounts",
    "LeftRecord",
    "ListChanges",
    "ListRuns",
    "Reversal",
    "Run",
    "RunBudget",
    "RunChange",
    "RunChanges",
    "RunRead",
    "RunUsage",
    "Runs",
    "StartRun",
]


class Budget(Ask, kw_only=True, frozen=True):
    """How much a run may do: tokens, or records that it reads, 1 to 1,000,000,000; or seconds, 1 to 86,400."""

    limit: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    unit: Literal["tokens", "records", "seconds"]


class StartRun(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/consolidations``, which may be left out; without a budget the provider's own."""

    budget: Budget | None = None


class ListRuns(Ask, kw_only=True, frozen=True):
    """Query of ``GET …/consolidations``."""

    limit: Whole = 0
    cursor: str = ""


class ListChanges(Ask, kw_only=True, frozen=True):
    """Query of ``GET …/consolidations/{run}/changes``."""

    limit: Whole = 0
    cursor: str = ""


class RunRead(Answer, kw_only=True, frozen=True):
    """What a run has read: so many episodes, and all that was written ``through`` then. Null: nothing yet."""

    episodes: int
    through: datetime | None


class ChangeCounts(Answer, kw_only=True, frozen=True):
    """How many records a run created, superseded and forgot."""

    created: int
    superseded: int
    forgotten: int


class RunUsage(Answer, kw_only=True, frozen=True):
    """Tokens of a model; none without one."""

    input_tokens: int
    output_tokens: int


class RunBudget(Answer, kw_only=True, frozen=True):
    """The budget of a run, and whether it ran out."""

    limit: int
    unit: str
    exhausted: bool


class LeftRecord(Answer, kw_only=True, frozen=True):
    """A record that a reversal left as it is; ``reason`` is how it is not as the run left it: ``revised``,
    ``forgotten``, ``superseded`` or ``stated_again``.
    """

    record_id: str
    reason: str


class Reversal(Answer, kw_only=True, frozen=True):
    """What undoing a run did, and when in Unix seconds. ``left`` are the first 100 of ``left_count``."""

    at: int
    by: Writer
    restored: int
    forgotten: int
    left_count: int
    left: list[LeftRecord]


class Run(Answer, kw_only=True, frozen=True):
    """One pass over a memory. Times are Unix seconds; ``degraded`` only of one that had to leave something to a later one,
    ``reversal`` only of one that was reverted.
    """

    id: str
    object: Literal["memory.consolidation"] = "memory.consolidation"
    memory_id: str
    status: str
    trigger: str
    started_at: int | None
    finished_at: int | None
    read: RunRead
    changes: ChangeCounts
    usage: RunUsage
    budget: RunBudget
    written_by: Writer
    error: str
    degraded: list[str] | UnsetType = UNSET
    reversal: Reversal | UnsetType = UNSET


class Runs(Answer, kw_only=True, frozen=True):
    """A page of runs, newest first."""

    data: list[Run]
    next_cursor: str | None


class RunChange(Answer, kw_only=True, frozen=True):
    """A record that a run ``created``, ``superseded`` or ``forgotten``, as the run left it, and why: ``duplicate``,
    ``similar``, ``changed``, ``expired`` or ``summary``. ``replaced_by`` is the record of the same memory that it was
    merged into or replaced by. Once the run was reverted: whether this was, or why it was ``left``.
    """

    object: Literal["memory.consolidation.change"] = "memory.consolidation.change"
    change: str
    reason: str
    record: RecordAnswer
    replaced_by: str | None
    reverted: bool
    left: str | None


class RunChanges(Answer, kw_only=True, frozen=True):
    """A page of changes, in the order they were made."""

    data: list[RunChange]
    next_cursor: str | None
