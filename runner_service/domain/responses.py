"""Reading and cancelling responses (Tasks, Sessions)."""

import time
from dataclasses import dataclass
from typing import Final

from runner_service.domain import errors
from runner_service.domain.composer import Composer
from runner_service.domain.ending import end
from runner_service.domain.model import Event, Outcome, Response, Status
from runner_service.domain.ports import ResponseStore, Wakeups
from runner_service.domain.response_object import compose, encode
from service_kit.clock import Clock
from service_kit.identity import current_passport

__all__ = ["Reading", "Responses"]

_CANCEL_WAIT_S: Final = 0.7
"""A cancel answers within a second; most turns are ended by then, and the answer says so."""
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """A response and its UHP object as it stands."""

    response: Response
    json: bytes


class Responses:
    """The use cases around a response that exists."""

    def __init__(self, store: ResponseStore, wakeups: Wakeups, clock: Clock) -> None:
        self._store: ResponseStore = store
        self._wakeups: Wakeups = wakeups
        self._clock: Clock = clock

    async def get(self, response_id: str) -> Reading:
        """One response. ``response_not_found``, also for somebody else's and for one that was not to be
        stored and has ended.
        """
        found = await self._store.response(current_passport().principal, response_id)
        if found is None:
            raise errors.response_not_found()
        return await self.reading(found)

    async def reading(self, response: Response) -> Reading:
        """The response's UHP object: as it ended, or with the items finished so far."""
        if response.final:
            return Reading(response, response.final)
        session = await self._store.session(response.owner, response.session_id)
        composer = Composer.restored(await self._log(response.id)) if not _waits(response) else Composer()
        composed = compose(response, composer.output, None if session is None else session.priming)
        return Reading(response, encode(composed))

    async def cancel(self, response_id: str) -> Reading:
        """Ends a task ``cancelled``, its output kept; a terminal one is answered as it is. Answers within
        a second: a turn that takes longer to stop is still ``in_progress`` in the answer.
        """
        owner = current_passport().principal
        found = await self._store.followable(owner, response_id)
        if found is None or (found.status.terminal and not found.asked.store):
            raise errors.response_not_found()
        return await self.reading(await self._cancelled(found))

    async def cancel_session(self, session_id: str) -> None:
        """Cancels what runs in a session, and waits for its end for a moment. ``session_not_found``."""
        owner = current_passport().principal
        if await self._store.session(owner, session_id) is None:
            raise errors.session_not_found()
        running = await self._store.running(session_id)
        found = None if running is None else await self._store.followable(owner, running)
        if found is not None:
            await self._cancelled(found)

    async def _cancelled(self, response: Response) -> Response:
        if response.status is Status.QUEUED:
            response = await self._cancel_queued(response)
        if response.status.terminal:
            return response
        deadline = time.monotonic() + _CANCEL_WAIT_S
        async with self._wakeups.follow(response.id) as following:
            await self._store.request_cancel(response.id)
            await self._wakeups.wake_cancel(response.id)
            while True:
                found = await self._store.followable(response.owner, response.id)
                left = deadline - time.monotonic()
                if found is None or found.status.terminal or left <= 0:
                    return found or response
                await following.next(min(left, 0.2))

    async def _cancel_queued(self, response: Response) -> Response:
        """Cancel it before it starts; the response as it is now when it has started meanwhile."""
        composer = Composer.restored(await self._log(response.id))
        session = await self._store.session(response.owner, response.session_id)
        ended, events = end(
            response,
            composer,
            Outcome(Status.CANCELLED),
            self._clock.now(),
            priming=None if session is None else session.priming,
        )
        if await self._store.cancel_queued(ended, events):
            await self._wakeups.publish(response.id, events)
            return ended
        return await self._store.followable(response.owner, response.id) or response

    async def _log(self, response_id: str) -> list[Event]:
        events = list(await self._store.events(response_id, -1, _PAGE))
        while len(events) % _PAGE == 0 and events:
            more = await self._store.events(response_id, events[-1].sequence_number, _PAGE)
            if not more:
                break
            events += more
        return events


def _waits(response: Response) -> bool:
    return response.status is Status.QUEUED
