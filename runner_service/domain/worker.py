"""The workers of one process: they take turns from the queue, keep their leases, and stop in order."""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from runner_service.domain import measures
from runner_service.domain.accept import Gate
from runner_service.domain.errors import GroveError
from runner_service.domain.model import Claim, Lease
from runner_service.domain.ports import TurnStore
from runner_service.domain.turns import Stop, StopReason, Turns
from service_kit.ids import new_id
from service_kit.tasks import let_cancellation_pass

__all__ = ["Pace", "Worker"]

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many turns at a time, and how often (seconds) to look for work, to beat, and how long a lease
    holds without a beat.
    """

    concurrency: int
    poll_s: float
    heartbeat_s: float
    lease_s: float


@dataclass
class _Running:
    lease: Lease
    stop: Stop
    held_at: float


class Worker:
    """Runs turns of this process. ``run`` and ``beat`` are background work; ``wake`` and ``cancel`` are hints."""

    def __init__(self, store: TurnStore, turns: Turns, pace: Pace, gate: Gate) -> None:
        self.name: str = new_id("runner")
        self._store: TurnStore = store
        self._turns: Turns = turns
        self._pace: Pace = pace
        self._gate: Gate = gate
        self._woken: asyncio.Event = asyncio.Event()
        self._running: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """There may be work."""
        self._woken.set()

    def cancel(self, response_id: str) -> None:
        """Stop this turn, if it runs here."""
        running = self._running.get(response_id)
        if running is not None:
            running.stop.set(StopReason.CANCELLED)

    async def run(self) -> None:
        """Take turns while there is room for them, until cancelled; then everything is stopped."""
        try:
            while True:
                let_cancellation_pass()
                self._woken.clear()
                if not (self._has_room() and await self._take()):
                    await self._rest()
        finally:
            for running in self._running.values():
                running.stop.set(StopReason.SHUTDOWN)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._pace.lease_s)

    async def beat(self) -> None:
        """Keep the leases of running turns, and look for cancels whose hint was lost."""
        counted = 0.0
        while True:
            let_cancellation_pass()
            await asyncio.sleep(min(1.0, self._pace.heartbeat_s))
            running = dict(self._running)
            try:
                if running:
                    for response_id in await self._store.cancels(list(running)):
                        self.cancel(response_id)
                await self._prolong(running)
                if time.monotonic() - counted >= self._pace.heartbeat_s:
                    measures.observe_queue(await self._store.queue_depth())
                    counted = time.monotonic()
            except GroveError as error:
                _log.warning("leases could not be kept: %s", error.code)
                self._give_up_late()

    async def drain(self, timeout_s: float) -> None:
        """Take no more turns, let those that run finish; after ``timeout_s`` stop them where they are."""
        self._gate.open = False
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for running in self._running.values():
            running.stop.set(StopReason.SHUTDOWN)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._pace.lease_s)

    def _has_room(self) -> bool:
        return self._gate.open and len(self._tasks) < self._pace.concurrency

    async def _take(self) -> bool:
        """Start the next turn, if there is one."""
        try:
            claim = await self._store.claim(self.name)
        except GroveError as error:
            _log.warning("the queue could not be read: %s", error.code)
            return False
        if claim is None:
            return False
        self._start(claim)
        return True

    def _start(self, claim: Claim) -> None:
        response_id, stop = claim.response.id, Stop()
        self._running[response_id] = _Running(claim.lease, stop, time.monotonic())
        task = asyncio.create_task(self._turns.run(claim, stop), name=f"turn {response_id}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(response_id, done))

    def _ended(self, response_id: str, task: asyncio.Task[None]) -> None:
        self._running.pop(response_id, None)
        self._tasks.discard(task)
        self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # Its lease runs out, and the reconciler ends it from its log.
            _log.error("turn broke off", exc_info=error, extra={"response_id": response_id})

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._pace.poll_s):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _prolong(self, running: dict[str, _Running]) -> None:
        now = time.monotonic()
        due = {
            response_id: one
            for response_id, one in running.items()
            if now - one.held_at >= self._pace.heartbeat_s
        }
        if not due:
            return
        held = await self._store.beat(self.name, [one.lease for one in due.values()])
        for one in due.values():
            if one.lease.session_id in held:
                one.held_at = now
            else:
                one.stop.set(StopReason.LEASE_LOST)

    def _give_up_late(self) -> None:
        """A lease nobody confirmed for its whole length belongs to somebody else by now."""
        for one in self._running.values():
            if time.monotonic() - one.held_at > self._pace.lease_s:
                one.stop.set(StopReason.LEASE_LOST)
