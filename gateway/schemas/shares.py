"""Shared sessions (UHP Sessions, section 5)."""

from typing import Any, Final, Literal

import msgspec

from gateway.schemas.base import UNSET, Answer, Ask, Raw, UnsetType, Whole

__all__ = ["LINK", "DeletedShare", "OpenShare", "Share", "SharedTool", "SharedTurn", "SharedView", "View"]

LINK: Final = "/v1/shared/"
"""What the path of every link begins with; the rest is the secret."""


class Share(Answer, kw_only=True, frozen=True):
    """Where a session can be read without a credential. ``url`` is relative to the base URL, and a secret."""

    id: str
    object: Literal["session.share"] = "session.share"
    session_id: str
    url: str


class DeletedShare(Answer, kw_only=True, frozen=True):
    """A session that nobody reads by a link any more."""

    object: Literal["session.share"] = "session.share"
    session_id: str
    deleted: bool = True


class OpenShare(Ask, kw_only=True, frozen=True):
    """Query of a link."""

    limit: Whole = 0
    cursor: str = ""


class SharedTool(Answer, kw_only=True, frozen=True):
    """A tool that was called: its name alone."""

    name: str


class SharedTurn(Answer, kw_only=True, frozen=True):
    """One turn as whoever has a link may read it: composed by the runner, and handed on byte for byte."""

    status: Literal["in_progress", "completed", "failed", "incomplete", "cancelled"]
    created_at: int
    completed_at: int | UnsetType = UNSET
    user: str
    assistant: str
    tools: list[SharedTool]
    files: list[dict[str, Any]]


class SharedView(Answer, kw_only=True, frozen=True):
    """What a link shows: a page of the session's turns, oldest first. Times are unix seconds."""

    object: Literal["session.view"] = "session.view"
    title: str
    created_at: int
    updated_at: int
    turns: list[SharedTurn]
    next_cursor: str | None


class _RawView(Answer, kw_only=True, frozen=True):
    object: Literal["session.view"] = "session.view"
    title: str
    created_at: int
    updated_at: int
    turns: list[Raw]
    next_cursor: str | None


class View(msgspec.Struct, kw_only=True, frozen=True):
    """A page of a shared session as it came from the runner."""

    title: str
    created_at: int
    updated_at: int
    turns: list[bytes]
    next_cursor: str | None

    @property
    def json(self) -> bytes:
        """The JSON of :class:`SharedView`."""
        return msgspec.json.encode(
            _RawView(
                title=self.title,
                created_at=self.created_at,
                updated_at=self.updated_at,
                turns=[Raw(one) for one in self.turns],
                next_cursor=self.next_cursor,
            )
        )

    @property
    def read(self) -> list[SharedTurn]:
        """Its turns, decoded."""
        return [_turn.decode(one) for one in self.turns]


_turn: Final = msgspec.json.Decoder(SharedTurn)
