"""Following a response (Streaming): the log from any number on, then live, nothing twice, nothing left out.

The log is the truth. Live batches only save looking into it: one that does not join on to what was
sent, or that never comes, is made up for from the log.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from runner_service.domain import errors
from runner_service.domain.model import Event
from runner_service.domain.ports import Following, ResponseStore, Wakeups
from service_kit.identity import current_passport

__all__ = ["Follow"]

_PAGE: Final = 500
_LOOK_S: Final = (0.15, 2.0)
"""Without a live event the log is looked into after the first, and after twice as long each time, up to the last."""


class Follow:
    """The use case of a response's event stream, for any number of followers on any runner."""

    def __init__(self, store: ResponseStore, wakeups: Wakeups) -> None:
        self._store: ResponseStore = store
        self._wakeups: Wakeups = wakeups
        self._closing: bool = False

    def close(self) -> None:
        """End every stream soon: this process stops. Whoever follows comes back elsewhere."""
        self._closing = True

    def check_open(self) -> None:
        """``grovekeeper_unavailable`` once this process stops."""
        if self._closing:
            raise errors.GroveError("grovekeeper_unavailable", "The runner is stopping; follow again.")

    async def follow(self, response_id: str, after: int) -> AsyncGenerator[Sequence[Event]]:
        """Batches of events numbered above ``after``, up to and with the terminal one.
        ``response_not_found``, also once it is deleted; ``grovekeeper_unavailable`` when this process stops first.
        """
        response = await self._store.followable(current_passport().principal, response_id)
        if response is None:
            raise errors.response_not_found()
        place = _Place(after)
        if response.status.terminal:
            # All of it is in the log.
            while batch := await self._store.events(response_id, place.last, _PAGE):
                yield batch
                place.move(batch)
            return
        async with self._wakeups.follow(response_id) as following:
            while not place.ended:
                batch = await self._next(response_id, place, following)
                if batch:
                    yield batch
                    place.move(batch)

    async def _next(self, response_id: str, place: "_Place", following: Following) -> Sequence[Event]:
        """What comes next, from the log while behind, else live; empty when nothing came in time."""
        if place.behind:
            batch = await self._store.events(response_id, place.last, _PAGE)
            place.behind = len(batch) == _PAGE
            if batch:
                return batch
            if (
                place.quiet
                and await self._store.followable(current_passport().principal, response_id) is None
            ):
                raise errors.response_not_found()
        self.check_open()
        fresh = _joined(await following.next(place.pause) or (), place.last)
        if fresh is None:
            place.behind = place.quiet = True
            place.pause = min(place.pause * 2, _LOOK_S[1])
        return fresh or ()


@dataclass
class _Place:
    """Where a follower is: the last number it was given, whether the log may hold more, and whether nothing came since."""

    last: int
    behind: bool = True
    quiet: bool = False
    ended: bool = False
    pause: float = _LOOK_S[0]

    def move(self, batch: Sequence[Event]) -> None:
        self.last, self.ended, self.pause = batch[-1].sequence_number, batch[-1].terminal, _LOOK_S[0]
        self.quiet = False


def _joined(live: Sequence[Event], last: int) -> Sequence[Event] | None:
    """What of a live batch is new; None when there is none or it does not join on: the log must be asked."""
    if not live:
        return None
    fresh = [one for one in live if one.sequence_number > last]
    if fresh and fresh[0].sequence_number != last + 1:
        return None
    return fresh
