"""Sessions (UHP Sessions)."""

from typing import Any, Literal

import msgspec

from gateway.schemas.base import UNSET, Answer, Ask, Raw, UnsetType, Whole

__all__ = [
    "DeletedSession",
    "ListSessions",
    "ListTurns",
    "Session",
    "Sessions",
    "ToolCall",
    "Turn",
    "Turns",
    "turns",
]


class ListSessions(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/sessions``; with ``harness`` those on that one."""

    harness: str = ""
    limit: Whole = 0
    cursor: str = ""


class ListTurns(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/sessions/{id}/turns``."""

    limit: Whole = 0
    cursor: str = ""


class Session(Answer, kw_only=True, frozen=True):
    """A chain of responses. ``status`` is its newest turn's, ``title`` what was asked first, on one line; times are
    unix seconds, ``updated_at`` when a turn last began or ended.
    """

    id: str
    object: Literal["session"] = "session"
    harness_id: str
    title: str
    status: str
    created_at: int
    updated_at: int


class Sessions(Answer, kw_only=True, frozen=True):
    """A page of sessions."""

    sessions: list[Session]
    next_cursor: str | None


class DeletedSession(Answer, kw_only=True, frozen=True):
    """A session that is gone."""

    id: str
    object: Literal["session"] = "session"
    deleted: bool = True


class ToolCall(Answer, kw_only=True, frozen=True):
    """A call of a tool; ``arguments`` is a JSON text, ``output`` is there once it was answered."""

    call_id: str
    name: str
    arguments: str
    output: str | UnsetType = UNSET


class Turn(Answer, kw_only=True, frozen=True):
    """One task as a person reads it: composed by the runner, described here, and handed on byte for byte."""

    id: str
    status: Literal["in_progress", "completed", "failed", "incomplete", "cancelled"]
    created_at: int
    completed_at: int | UnsetType = UNSET
    user: str
    assistant: str
    tools: list[ToolCall]
    files: list[dict[str, Any]]


class Turns(Answer, kw_only=True, frozen=True):
    """A page of turns, oldest first."""

    turns: list[Turn]
    next_cursor: str | None


class _Turns(Answer, kw_only=True, frozen=True):
    turns: list[Raw]
    next_cursor: str | None


def turns(composed: list[bytes], next_cursor: str | None) -> bytes:
    """The JSON of :class:`Turns`, of turns that were composed elsewhere."""
    return msgspec.json.encode(_Turns(turns=[Raw(one) for one in composed], next_cursor=next_cursor))
