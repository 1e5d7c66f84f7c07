"""The background work of every memory (``/v1/grovekeeper/jobs``). Ids and numbers, no contents."""

from datetime import datetime
from typing import Literal

import msgspec

from gateway.schemas.base import Answer, Ask, Whole

__all__ = ["BackgroundJob", "Backlog", "Jobs", "ListJobs"]


class ListJobs(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/grovekeeper/jobs``; ``status`` absent: all but completed and stopped ones."""

    status: list[str] = msgspec.field(default_factory=list[str])
    limit: Whole = 0
    cursor: str = ""


class BackgroundJob(Answer, kw_only=True, frozen=True):
    """A derivation or a consolidation run (``kind``); null where there is nothing to say.

    ``status`` of a derivation is ``pending``, ``completed`` or ``failed``; of a run as section 9.2 has it. ``runs`` counts
    its attempts since it was written or retried, ``quarantined_episodes`` the episodes it set aside; ``reason`` says in
    a sentence why it failed, what it waits for, or what a run had to leave.
    """

    id: str
    kind: str
    object: Literal["grovekeeper.job"] = "grovekeeper.job"
    memory_id: str
    status: str
    created_at: datetime
    pending_since: datetime | None
    finished_at: datetime | None
    runs: int
    quarantined_episodes: int
    reason: str | None


class Jobs(Answer, kw_only=True, frozen=True):
    """A page of jobs."""

    data: list[BackgroundJob]
    next_cursor: str | None


class Backlog(Answer, kw_only=True, frozen=True):
    """What is still to be derived in a memory; null where there is nothing to say.

    ``pending_jobs`` wait, the oldest since ``pending_since`` and for what ``reason`` says (null: its turn).
    ``quarantined_episodes`` were set aside, in all jobs that are kept; ``tokens_today`` is what deriving with a model
    has taken since midnight UTC.
    """

    object: Literal["grovekeeper.derivation"] = "grovekeeper.derivation"
    memory_id: str
    pending_jobs: int
    pending_since: datetime | None
    reason: str | None
    quarantined_episodes: int
    tokens_today: int
