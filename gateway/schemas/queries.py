"""Named and free queries (Memories, sections 6.4 and 6.5)."""

from datetime import datetime
from typing import Literal

from gateway.schemas.base import UNSET, Answer, Ask, Raw, Text, UnsetType, Whole
from gateway.schemas.memories import Place
from gateway.schemas.records import Record, Result, Writer

__all__ = [
    "FreeQuery",
    "ListQueries",
    "NamedQueries",
    "NamedQuery",
    "PutQuery",
    "Queried",
    "QueryAnswer",
]


class PutQuery(Ask, kw_only=True, frozen=True):
    """Body of ``PUT …/queries/{name}``. ``params`` is a JSON Schema; absent, any object is taken."""

    description: str
    params: Raw | UnsetType = UNSET
    requires: Literal["read", "write"] = "read"
    language: Text
    body: Text


class FreeQuery(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/query``."""

    language: Text
    statement: Text
    params: Raw | UnsetType = UNSET


class ListQueries(Ask, kw_only=True, frozen=True):
    """Query of ``GET …/queries``."""

    limit: Whole = 0
    cursor: str = ""


class NamedQuery(Answer, kw_only=True, frozen=True):
    """A named query as it was defined, and by whom."""

    name: str
    object: Literal["memory.query"] = "memory.query"
    memory_id: str
    description: str
    params: Raw
    requires: str
    language: str
    body: str
    updated_at: datetime
    written_by: Writer


class NamedQueries(Answer, kw_only=True, frozen=True):
    """Named queries, by name."""

    data: list[NamedQuery]
    next_cursor: str | None


class Queried(Answer, kw_only=True, frozen=True):
    """What a query answered, inside the gateway: records, or rows."""

    records: list[Record] | None
    columns: list[str]
    rows: list[Raw]
    degraded: list[str]
    parent: Place | None
    children: list[Place]


class QueryAnswer(Answer, kw_only=True, frozen=True):
    """Where the result is records: ``results`` in its order, without a score, and where to go from here
    (section 6.3). Else ``columns`` and ``rows``.
    """

    results: list[Result] | UnsetType = UNSET
    parent: Place | UnsetType = UNSET
    children: list[Place] | UnsetType = UNSET
    abstain: bool | UnsetType = UNSET
    columns: list[str] | UnsetType = UNSET
    rows: list[Raw] | UnsetType = UNSET
    degraded: list[str]
