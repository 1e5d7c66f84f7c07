"""What a dead runner left: its turns end ``failed`` with their output kept, their sessions go on."""

import asyncio
import logging
from typing import Final

from runner_service.domain import measures
from runner_service.domain.composer import Composer
from runner_service.domain.ending import end
from runner_service.domain.errors import GroveError, LeaseLostError
from runner_service.domain.model import Claim, Failure, Outcome, Status
from runner_service.domain.ports import TurnStore, Wakeups
from service_kit.clock import Clock
from service_kit.ids import new_id
from service_kit.tasks import let_cancellation_pass

__all__ = ["Reconciler"]

_log: Final = logging.getLogger(__name__)
_BATCH: Final = 20
_PURGE_EVERY: Final = 120


class Reconciler:
    """Ends abandoned turns, at the start of a process and ever after. A turn that was cancelled before
    its runner died ends ``cancelled``.
    """

    def __init__(self, store: TurnStore, wakeups: Wakeups, clock: Clock, every_s: float) -> None:
        self._store: TurnStore = store
        self._wakeups: Wakeups = wakeups
        self._clock: Clock = clock
        self._every_s: float = every_s
        self._name: str = new_id("reconciler")

    async def run(self) -> None:
        """Reconcile until cancelled."""
        passes = 0
        while True:
            try:
                while await self.once():
                    pass
                if passes % _PURGE_EVERY == 0:
                    measures.sessions_removed(await self._store.purge(), "expired")
                passes += 1
            except GroveError as error:
                _log.warning("abandoned turns could not be looked for: %s", error.code)
            let_cancellation_pass()
            await asyncio.sleep(self._every_s)

    async def once(self) -> int:
        """End what is abandoned now, at most a batch; answers how many turns."""
        claims = await self._store.abandoned(self._name, _BATCH)
        for claim in claims:
            try:
                await self._end(claim)
            except LeaseLostError:
                _log.info("an abandoned turn was ended elsewhere", extra={"response_id": claim.response.id})
            except (LookupError, ValueError, TypeError):
                # One log that cannot be read keeps one session busy, not all of them.
                _log.exception("an abandoned turn cannot be ended", extra={"response_id": claim.response.id})
        return len(claims)

    async def _end(self, claim: Claim) -> None:
        response = claim.response
        composer = Composer.restored(await self._store.log(response.id))
        outcome = Outcome(
            Status.FAILED,
            Failure("server_error", "The runner of this task stopped; what it had produced is kept."),
        )
        if response.cancel_requested:
            outcome = Outcome(Status.CANCELLED)
        ended, events = end(response, composer, outcome, self._clock.now(), priming=claim.session.priming)
        await self._store.finish(claim.lease, ended, events, None)
        await self._wakeups.publish(response.id, events)
        measures.ended(claim.harness.base, outcome)
        _log.warning(
            "ended an abandoned turn", extra={"response_id": response.id, "status": outcome.status.value}
        )
