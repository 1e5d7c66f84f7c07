"""The live feed of a harness (Streaming): the events of every response on it, whichever runner works on them.

Who begins to follow is given the responses that run, each from its first event, and those that begin later. Which ones
there are is looked for; each is then followed by itself, so that none of its events is left out or comes twice.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runner_service.domain.errors import GroveError
from runner_service.domain.follow import Follow
from runner_service.domain.harnesses import Harnesses
from runner_service.domain.model import Event
from runner_service.domain.session_ports import Active, SessionStore
from service_kit.clock import Clock
from service_kit.identity import current_passport

__all__ = ["Fed", "Feed", "TakenUp"]

_LOOK_S: Final = 0.5
_APART: Final = timedelta(seconds=10)
"""How far the clocks of two runners may be apart, and a commit behind the time it was begun."""
_AT_A_TIME: Final = 50
"""Responses followed at once; further ones wait until one has ended."""
_AHEAD: Final = 16
"""Batches read before the follower took them; a slow one slows the reading, not the work."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A feed that broke off: the first and the last ``at`` it told, and the last number seen of each response."""

    began: datetime
    since: datetime
    positions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Fed:
    """Events of one response; none, and no response, where only time went on. ``at``: everything that ended before was
    looked for, and a feed can be taken up from there.
    """

    at: datetime
    response_id: str = ""
    session_id: str = ""
    events: Sequence[Event] = ()


class Feed:
    """The use case of a harness's events."""

    def __init__(self, store: SessionStore, harnesses: Harnesses, follow: Follow, clock: Clock) -> None:
        self._store: SessionStore = store
        self._harnesses: Harnesses = harnesses
        self._follow: Follow = follow
        self._clock: Clock = clock

    async def follow(self, harness_id: str, before: TakenUp | None) -> AsyncGenerator[Fed]:
        """Without end; from where one broke off ``before``, if it did.
        ``harness_not_found``, also once it is deleted; ``grovekeeper_unavailable`` when this process stops.
        """
        await self._harnesses.get(harness_id)
        now = self._clock.now()
        running = _Running(before or TakenUp(now, now, {}))
        looking = asyncio.create_task(self._look(harness_id, running), name=f"feed of {harness_id}")
        try:
            while True:
                fed = await running.ready.get()
                if isinstance(fed, GroveError):
                    raise fed
                yield fed
        finally:
            tasks = {looking, *running.tasks}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, harness_id: str, running: "_Running") -> None:
        owner = current_passport().principal
        try:
            while True:
                self._follow.check_open()
                await self._harnesses.get(harness_id)
                at = self._clock.now()
                found = await self._store.active(owner, harness_id, running.at - _APART)
                for one in found:
                    if one.response_id not in running.known and running.tells(one):
                        await running.room.acquire()
                        running.begin(self._one(one.response_id, one.session_id, running))
                # What is not found any more ended long ago, and will not be found again.
                running.known = {one.response_id for one in found}
                running.at = at
                await running.ready.put(Fed(at))
                await asyncio.sleep(_LOOK_S)
        except GroveError as error:
            await running.ready.put(error)

    async def _one(self, response_id: str, session_id: str, running: "_Running") -> None:
        """Hand on the events of one response, to its end."""
        try:
            after = running.positions.get(response_id, -1)
            async with aclosing(self._follow.follow(response_id, after)) as batches:
                async for events in batches:
                    await running.ready.put(Fed(running.at, response_id, session_id, events))
        except GroveError as error:
            # One that was deleted is over.
            if error.code != "response_not_found":
                await running.ready.put(error)
        finally:
            running.room.release()


class _Running:
    """A feed under way."""

    def __init__(self, before: TakenUp) -> None:
        self.at: datetime = before.since
        self.positions: Mapping[str, int] = before.positions
        self._began: datetime = before.began
        self.known: set[str] = set()
        self.room: asyncio.Semaphore = asyncio.Semaphore(_AT_A_TIME)
        self.ready: asyncio.Queue[Fed | GroveError] = asyncio.Queue(_AHEAD)
        self.tasks: set[asyncio.Task[None]] = set()

    def tells(self, one: Active) -> bool:
        """Whether it did not end before the feed began."""
        return one.ended_at is None or one.ended_at > self._began

    def begin(self, following: Coroutine[None, None, None]) -> None:
        """Follow one more response."""
        task = asyncio.create_task(following)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
