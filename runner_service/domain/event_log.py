"""Writing one turn's events: to the log first, in batches, then to whoever follows live.

A batch is what came while the one before was being written. Nothing is published that is not durable,
so nothing a follower saw can be lost, whatever dies.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from runner_service.domain.errors import GroveError, LeaseLostError
from runner_service.domain.model import Event, Lease
from runner_service.domain.ports import TurnStore, Wakeups

__all__ = ["EventLog"]

MAX_WAITING: Final = 2000
"""Events that may wait for the database; a base that says more waits too."""
_BATCH: Final = 500
_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = (0.05, 2.0)


class EventLog:
    """The log of one turn. ``put`` in order; ``settle`` waits until all of it is durable.

    When the log can no longer be written (the lease is lost, the database stays away), ``put`` and
    ``settle`` raise ``LeaseLostError``: whoever takes the session next ends the turn from what is there.
    """

    def __init__(self, store: TurnStore, wakeups: Wakeups, lease: Lease, response_id: str) -> None:
        self._store: TurnStore = store
        self._wakeups: Wakeups = wakeups
        self._lease: Lease = lease
        self._response_id: str = response_id
        self._waiting: list[Event] = []
        self._changed: asyncio.Condition = asyncio.Condition()
        self._busy: bool = False
        self._lost: bool = False

    async def put(self, events: Sequence[Event]) -> None:
        """Queue events; waits while too many are queued."""
        if not events:
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._lost or len(self._waiting) < MAX_WAITING)
            self._check()
            self._waiting.extend(events)
            self._changed.notify_all()

    async def settle(self) -> None:
        """Wait until everything put so far is in the log."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._lost or not (self._waiting or self._busy))
            self._check()

    async def write(self) -> None:
        """Write batches until cancelled, or until nothing can be written any more."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._waiting))
                batch, self._waiting[:_BATCH] = self._waiting[:_BATCH], []
                self._busy = True
                self._changed.notify_all()
            try:
                await self._append(batch)
            except LeaseLostError:
                async with self._changed:
                    self._lost = True
                    self._changed.notify_all()
                return
            await self._wakeups.publish(self._response_id, batch)
            async with self._changed:
                self._busy = False
                self._changed.notify_all()

    async def _append(self, batch: Sequence[Event]) -> None:
        """One durable batch. A database that is away for a moment is waited for."""
        until, pause = time.monotonic() + _PATIENCE_S, _PAUSE_S[0]
        while True:
            try:
                return await self._store.append(self._lease, self._response_id, batch)
            except GroveError as error:
                if not error.retryable or time.monotonic() > until:
                    raise LeaseLostError(self._lease.session_id) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_S[1])

    def _check(self) -> None:
        if self._lost:
            raise LeaseLostError(self._lease.session_id)
