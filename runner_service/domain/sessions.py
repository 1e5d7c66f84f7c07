"""Listing and reading sessions, and what can be done to the responses in them (Sessions)."""

from collections.abc import Sequence

from runner_service.domain import errors, measures
from runner_service.domain.inputs import input_items
from runner_service.domain.ports import Wakeups
from runner_service.domain.responses import Responses
from runner_service.domain.session_ports import Overview, SessionStore
from runner_service.domain.transcript import turn
from service_kit.identity import current_passport
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

__all__ = ["Sessions", "place"]


class Sessions:
    """The use cases around a session that exists."""

    def __init__(self, store: SessionStore, responses: Responses, wakeups: Wakeups) -> None:
        self._store: SessionStore = store
        self._responses: Responses = responses
        self._wakeups: Wakeups = wakeups

    async def list(self, harness_id: str, limit: int, cursor: str) -> tuple[Sequence[Overview], str]:
        """One page of the caller's sessions, newest first, and the cursor of the next one ("" on the last). Of a harness
        that is not the caller's, or is gone, they are those that ran on it: none, or what is left.
        """
        limit, owner = clamp_limit(limit), current_passport().principal
        found = await self._store.overviews(owner, harness_id, place(cursor), limit + 1)
        shown = found[:limit]
        return shown, encode_cursor(shown[-1].id) if len(found) > limit else ""

    async def get(self, session_id: str) -> Overview:
        """One session. ``session_not_found``, also for somebody else's."""
        found = await self._store.overview(current_passport().principal, session_id)
        if found is None:
            raise errors.session_not_found()
        return found

    async def turns(self, session_id: str, limit: int, cursor: str) -> tuple[Sequence[bytes], str]:
        """One page of a session's turns as JSON (:func:`runner_service.domain.transcript.turn`), oldest first, and the
        cursor of the next one. ``session_not_found``.
        """
        limit, after = clamp_limit(limit, default=200), place(cursor)
        await self.get(session_id)
        found, more = await self._store.turns(session_id, after, limit)
        turns = [turn(one, (await self._responses.reading(one)).json) for one in found]
        return turns, encode_cursor(found[-1].id) if more else ""

    async def input_items(self, response_id: str) -> bytes:
        """What a task was asked, as a JSON list of items. ``response_not_found``."""
        reading = await self._responses.get(response_id)
        return input_items(reading.response.asked.input)

    async def delete_response(self, response_id: str) -> None:
        """Deletes a response that has ended. ``response_not_found``; ``session_busy`` for one that has not."""
        status = await self._store.delete_response(current_passport().principal, response_id)
        if status is None:
            raise errors.response_not_found()
        if not status.terminal:
            raise errors.session_busy("This task is still running; cancel it or wait for its end.")

    async def cancel(self, session_id: str) -> str:
        """Cancels what runs in a session; the status of its newest turn after that. ``session_not_found``."""
        await self._responses.cancel_session(session_id)
        status = await self._store.last_status(session_id)
        if status is None:
            raise errors.session_not_found()
        return status.wire

    async def delete(self, session_id: str) -> None:
        """Deletes a session with everything of it, after what runs in it was cancelled. ``session_not_found``.

        A turn that does not end at once has lost its lease with the session: wherever it runs, it writes nothing more.
        """
        await self._responses.cancel_session(session_id)
        running = await self._store.delete_session(current_passport().principal, session_id)
        if running is None:
            raise errors.session_not_found()
        for response_id in running:
            await self._wakeups.wake_cancel(response_id)
        measures.sessions_removed(1, "deleted")


def place(cursor: str) -> str:
    """The id in the cursor of a page; "" without one. ``invalid_input``."""
    if not cursor:
        return ""
    (last,) = decode_cursor(cursor, 1)
    if not isinstance(last, str):
        raise errors.invalid("The cursor is not one this server gave out.", "cursor")
    return last
