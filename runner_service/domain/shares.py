"""Sharing a session (Sessions §5): a link that shows what was said in it to whoever has the link.

A link's id is a secret of 256 bits and opens this one view and nothing else. Only its hash is kept, and a nonce from which
this service, with its own token, makes the same id again for the owner. Should that token have changed, another link is
made, and the earlier ones open as before until the owner takes all of them back.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner_service.domain import errors
from runner_service.domain.responses import Responses
from runner_service.domain.session_ports import Overview, SessionStore, ShareStore
from runner_service.domain.sessions import Sessions, place
from runner_service.domain.transcript import shown_turn
from service_kit.identity import current_passport
from service_kit.paging import clamp_limit, encode_cursor

__all__ = ["Shares", "View"]

_PREFIX: Final = "hshare_"
_PURPOSE: Final = b"link of a shared session\0"
_NONCE_BYTES: Final = 32
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class View:
    """What a link shows: ``turns`` as JSON (:func:`runner_service.domain.transcript.shown_turn`), oldest first."""

    session: Overview
    turns: Sequence[bytes]
    next_cursor: str


class Shares:
    """The use cases of links. ``token`` is this service's own."""

    def __init__(
        self, stores: tuple[ShareStore, SessionStore], sessions: Sessions, responses: Responses, token: str
    ) -> None:
        self._store: ShareStore = stores[0]
        self._kept: SessionStore = stores[1]
        self._sessions: Sessions = sessions
        self._responses: Responses = responses
        self._token: bytes = token.encode()

    async def share(self, session_id: str) -> str:
        """The id of the link under which a session can be read from now on. ``session_not_found``."""
        await self._sessions.get(session_id)
        return await self._current(session_id) or await self._make(session_id)

    async def get(self, session_id: str) -> str:
        """The id of a shared session's link. ``session_not_found``; ``grovekeeper_not_found`` when it is not shared."""
        await self._sessions.get(session_id)
        if not await self._store.is_shared(session_id):
            raise errors.not_shared()
        return await self._current(session_id) or await self._make(session_id)

    async def revoke(self, session_id: str) -> None:
        """Takes back every link ever made for a session. ``session_not_found``."""
        await self._sessions.get(session_id)
        await self._store.remove_links(session_id)

    async def open(self, share_id: str, limit: int, cursor: str) -> View:
        """One page of what a link shows. It names no owner, no memory, and nothing that a tool was given or returned.
        ``grovekeeper_not_found`` for what is no link, is one no more, or never was one.
        """
        limit, after = clamp_limit(limit, default=_PAGE), place(cursor)
        session = await self._store.shared(_hash(share_id))
        if session is None:
            raise errors.nothing_here()
        found, more = await self._kept.turns(session.id, after, limit)
        turns = [shown_turn(one, (await self._responses.reading(one)).json) for one in found]
        return View(session, turns, encode_cursor(found[-1].id) if more else "")

    async def _current(self, session_id: str) -> str | None:
        """The newest link, if it can be made anew."""
        kept = await self._store.newest_link(session_id)
        if kept is None:
            return None
        nonce, link_sha256 = kept
        share_id = self._id(nonce)
        return share_id if _hash(share_id) == link_sha256 else None

    async def _make(self, session_id: str) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        share_id = self._id(nonce)
        if not await self._store.add_link(current_passport().principal, session_id, nonce, _hash(share_id)):
            raise errors.session_not_found()
        return share_id

    def _id(self, nonce: bytes) -> str:
        made = hmac.digest(self._token, _PURPOSE + nonce, "sha256")
        return _PREFIX + urlsafe_b64encode(made).decode().rstrip("=")


def _hash(share_id: str) -> bytes:
    return hashlib.sha256(share_id.encode()).digest()
