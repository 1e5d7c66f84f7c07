"""What was changed in who may reach what, and what was refused (``/v1/grovekeeper/audit``)."""

from datetime import datetime
from typing import Literal

from gateway.schemas.base import Answer, Ask, Instant, Raw, Whole

__all__ = ["Audit", "AuditRecord", "ListAudit"]


class ListAudit(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/grovekeeper/audit``; what is absent does not narrow."""

    order: Literal["newest", "oldest"] = "newest"
    actor: str = ""
    memory: str = ""
    action: str = ""
    outcome: Literal["allowed", "refused"] | None = None
    since: Instant | None = None
    until: Instant | None = None
    limit: Whole = 0
    cursor: str = ""


class AuditRecord(Answer, kw_only=True, frozen=True):
    """One record; null where there is nothing to say."""

    id: str
    object: Literal["grovekeeper.audit_record"] = "grovekeeper.audit_record"
    at: datetime
    actor: str | None
    token_id: str | None
    action: str
    outcome: str
    code: str | None
    memory_id: str | None
    principal: str | None
    source: str | None
    trace_id: str | None
    detail: Raw


class Audit(Answer, kw_only=True, frozen=True):
    """A page of records."""

    data: list[AuditRecord]
    next_cursor: str | None
