"""What the use cases around sessions need from outside. Each docstring is the contract, errors included."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from runner_service.domain.model import Response, Status

__all__ = ["Active", "Overview", "SessionStore", "ShareStore"]


@dataclass(frozen=True, slots=True)
class Overview:
    """A session as it is listed. ``status`` is its newest turn's, ``title`` its oldest's; ``updated_at`` is when a turn
    last began or ended.
    """

    id: str
    harness_id: str
    title: str
    status: Status
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Active:
    """A response that runs (``ended_at`` None), or ended lately."""

    response_id: str
    session_id: str
    ended_at: datetime | None


class SessionStore(Protocol):
    """Sessions as wholes, for their owner. One is there while a response of it is kept or not ended."""

    async def overviews(self, owner: str, harness_id: str, before: str, limit: int) -> tuple[Overview, ...]:
        """At most ``limit`` of an owner's with a lower id than ``before`` (empty: any), newest first; with
        ``harness_id`` those on that harness.
        """
        ...

    async def overview(self, owner: str, session_id: str) -> Overview | None:
        """One session, unless it is somebody else's."""
        ...

    async def known(self, session_ids: Sequence[str]) -> frozenset[str]:
        """Which of these sessions there are, whoever's."""
        ...

    async def turns(self, session_id: str, after: str, limit: int) -> tuple[tuple[Response, ...], bool]:
        """Kept responses with a higher id than ``after``, oldest first: at most ``limit``, fewer (but one) where they
        are large; and whether there are more.
        """
        ...

    async def active(self, owner: str, harness_id: str, since: datetime) -> tuple[Active, ...]:
        """Responses of an owner on a harness that have not ended, or ended after ``since``; in the order they began."""
        ...

    async def last_status(self, session_id: str) -> Status | None:
        """Of the newest response, kept or not."""
        ...

    async def delete_response(self, owner: str, response_id: str) -> Status | None:
        """Deletes a kept response that has ended, with its events, and its session with the last one; what continued it
        continues what it continued. Answers its status: nothing was changed where that is not terminal, or None.
        """
        ...

    async def delete_session(self, owner: str, session_id: str) -> tuple[str, ...] | None:
        """Deletes a session with everything of it, in one transaction: whoever runs a turn of it has lost its lease.
        Answers the ids of its responses that had not ended; None when there is no such session.
        """
        ...


class ShareStore(Protocol):
    """Links of shared sessions. They go with their session."""

    async def is_shared(self, session_id: str) -> bool:
        """Whether it has a link."""
        ...

    async def newest_link(self, session_id: str) -> tuple[bytes, bytes] | None:
        """Nonce and hash of the link made last."""
        ...

    async def add_link(self, owner: str, session_id: str, nonce: bytes, link_sha256: bytes) -> bool:
        """Keeps another link; False when there is no such session any more."""
        ...

    async def remove_links(self, session_id: str) -> None:
        """Removes every link of a session."""
        ...

    async def shared(self, link_sha256: bytes) -> Overview | None:
        """The session a link shows; one statement, whatever there is."""
        ...
