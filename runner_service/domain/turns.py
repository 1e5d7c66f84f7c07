"""Running one turn: prepare, run the base, write what it says, end it exactly once.

The outcome is decided here. A budget ends a turn ``incomplete``, a cancel ``cancelled``, a failure of
the base ``failed`` with its reason, and whatever was produced before is kept.
"""

import asyncio
import logging
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from runner_service.domain import measures
from runner_service.domain.composer import Composer
from runner_service.domain.conversation import conversation, memories_told
from runner_service.domain.ending import end
from runner_service.domain.errors import BaseFailureError, GroveError, LeaseLostError
from runner_service.domain.event_log import EventLog
from runner_service.domain.inputs import read_input
from runner_service.domain.memory_seam import Seam
from runner_service.domain.model import (
    Budgets,
    Claim,
    Failure,
    Outcome,
    Priming,
    Reach,
    Response,
    Status,
    TurnRequest,
    Usage,
)
from runner_service.domain.ports import Base, Bases, Tools, TurnStore, Wakeups
from runner_service.domain.response_object import compose
from runner_service.domain.turn_events import Compacted, Stopped, Used
from service_kit.clock import Clock

__all__ = ["Stop", "StopReason", "Turns"]

_log: Final = logging.getLogger(__name__)
_STOP_S: Final = 5.0
_FINISH_TRIES: Final = 8


class StopReason(Enum):
    """Why a running turn is stopped from outside."""

    CANCELLED = "cancelled"
    LEASE_LOST = "lease_lost"
    SHUTDOWN = "shutdown"


class Stop:
    """Stops one turn. The first reason counts."""

    def __init__(self) -> None:
        self._event: asyncio.Event = asyncio.Event()
        self.reason: StopReason | None = None

    def set(self, reason: StopReason) -> None:
        """Stop it."""
        if self.reason is None:
            self.reason = reason
            self._event.set()

    async def wait(self) -> None:
        """Until somebody stops it."""
        await self._event.wait()


@dataclass
class _Run:
    """A turn under way."""

    claim: Claim
    composer: Composer
    log: EventLog
    measure: measures.TurnMeasure
    priming: Priming | None = None
    readable: frozenset[str] = frozenset()
    where: Reach = field(default_factory=lambda: Reach((), ""))
    problems: list[str] = field(default_factory=list[str])
    usage: Usage | None = None
    stopped: str = ""
    compacted: int = 0

    @property
    def response(self) -> Response:
        return self.claim.response


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Runs turns. ``limits`` bound every one of them, whatever it asked for."""

    store: TurnStore
    wakeups: Wakeups
    bases: Bases
    seam: Seam
    tools: Tools
    clock: Clock
    limits: Budgets

    async def run(self, claim: Claim, stop: Stop) -> None:
        """Run a claimed turn to its end. Never raises; a turn whose lease is lost is left to its new holder."""
        base = self.bases.get(claim.harness.base)
        with measures.turn(claim, "none" if base is None else base.provider) as measure:
            composer = Composer.restored(await self.store.log(claim.response.id))
            log = EventLog(self.store, self.wakeups, claim.lease, claim.response.id)
            writer = asyncio.create_task(log.write(), name=f"log of {claim.response.id}")
            run = _Run(claim, composer, log, measure, claim.session.priming)
            try:
                outcome = await self._outcome(run, base, stop)
                await self._end(run, outcome)
                measure.end(outcome)
            except LeaseLostError:
                _log.warning("turn was given up: its lease is lost", extra={"response_id": claim.response.id})
            finally:
                writer.cancel()
                await asyncio.wait({writer})

    async def _outcome(self, run: _Run, base: Base | None, stop: Stop) -> Outcome:
        budgets = run.response.asked.budgets.within(
            Budgets(
                max_step=run.claim.harness.configuration.max_step,
                timeout_seconds=run.claim.harness.configuration.timeout_seconds,
            )
        ).within(self.limits)
        if base is None:
            return _failed(run, "harness_error", "This server does not run the harness's base any more.")
        driving = asyncio.create_task(self._drive(run, base, budgets), name=f"turn {run.response.id}")
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait(
                {driving, stopping},
                timeout=budgets.timeout_seconds or None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopping.cancel()
            finished = driving.done()
            await _end_task(driving)
        if finished:
            return driving.result()
        if not driving.done():
            _log.error("the base does not stop", extra={"response_id": run.response.id, "base": base.name})
        return _stopped(run, stop.reason)

    async def _drive(self, run: _Run, base: Base, budgets: Budgets) -> Outcome:
        try:
            await self._work(run, base, budgets)
        except BaseFailureError as failure:
            return _failed(run, failure.code, failure.message)
        except (LeaseLostError, asyncio.CancelledError):
            raise
        except Exception:  # noqa: BLE001 - the edge between the runner and an agent runtime
            _log.exception("turn failed", extra={"response_id": run.response.id, "base": base.name})
            return _failed(run, "harness_error", "The harness failed.")
        if run.stopped:
            return Outcome(Status.INCOMPLETE, reason=run.stopped, usage=run.usage)
        if not run.composer.output:
            return _failed(run, "harness_error", "The harness ended without an answer.")
        return Outcome(Status.COMPLETED, usage=run.usage)

    async def _work(self, run: _Run, base: Base, budgets: Budgets) -> None:
        claim, response = run.claim, run.response
        started = compose(response, (), run.priming)
        await run.log.put([run.composer.lifecycle("response.in_progress", started)])
        past = await self.store.history(response)
        await self._remember(run, memories_told(past))
        disabled = frozenset(claim.harness.configuration.disabled_tools)
        told = tuple(one.id for one in run.priming.known) if run.priming else ()
        async with self.tools.open(claim.session, claim.attachments, run.where, disabled, told) as access:
            request = TurnRequest(
                response_id=response.id,
                session_id=response.session_id,
                harness_name=claim.harness.configuration.name,
                model=response.model,
                instructions=_instructions(claim, run.priming),
                history=conversation(past, run.readable),
                input=read_input(response.asked.input),
                budgets=budgets,
                tools=access if access.names else None,
                memories=run.priming.known if run.priming else (),
                disabled=claim.harness.configuration.disabled_tools,
            )
            async with aclosing(base.run(request)) as said:
                async for event in said:
                    match event:
                        case Used(input_tokens, output_tokens):
                            run.usage = Usage(input_tokens, output_tokens)
                        case Stopped(reason):
                            run.stopped = reason
                        case Compacted(turns):
                            run.compacted = turns
                            await self.store.prime(claim.lease, None)
                        case _:
                            run.measure.event(self.clock.now())
                            await run.log.put(run.composer.feed(event))

    async def _remember(self, run: _Run, told: frozenset[str]) -> None:
        """Where this turn's memory is, what of ``told`` may still be read, and what its agent is told of it: made once
        in a session, after each compaction, and when something of it may not be read any more. A memory service that
        does not answer costs the turn its memory, visibly, and not its life.
        """
        claim = run.claim
        run.where = Reach(
            claim.attachments, next((a.memory_id for a in claim.attachments if a.is_default), "")
        )
        try:
            run.where = await self.seam.reach(claim.session, claim.attachments)
            known = frozenset(one.id for one in run.priming.known) if run.priming else frozenset[str]()
            run.readable = await self.seam.readable(claim.session, claim.attachments, told | known)
            if run.priming is not None and not known <= run.readable:
                run.priming = None
                await self.store.prime(claim.lease, None)
            if run.priming is None and run.where.attachments:
                run.priming = await self.seam.prime(claim.session, claim.attachments, run.where)
                await self.store.prime(claim.lease, run.priming)
        except GroveError as error:
            # Nobody can say what of it may still be read.
            run.priming = None
            _log.warning(
                "a session could not be primed: %s", error.code, extra={"response_id": run.response.id}
            )
            run.problems.append(error.code)
            await run.log.put([run.composer.problem(error.code, error.message)])

    async def _end(self, run: _Run, outcome: Outcome) -> None:
        """Everything that is left, the terminal event, and the observe job, in one transaction."""
        await run.log.settle()
        ended, events = end(
            run.response,
            run.composer,
            replace(outcome, compacted=run.compacted),
            self.clock.now(),
            priming=run.priming,
            problems=run.problems,
        )
        observed = outcome.status in {Status.COMPLETED, Status.INCOMPLETE}
        observe = run.where.default if observed and run.where.default else None
        for attempt in range(_FINISH_TRIES):
            try:
                await self.store.finish(run.claim.lease, ended, events, observe)
                break
            except GroveError as error:
                if not error.retryable or attempt == _FINISH_TRIES - 1:
                    raise LeaseLostError(run.claim.lease.session_id) from error
                await asyncio.sleep(0.1 * 2**attempt)
        await self.wakeups.publish(run.response.id, events)


async def _end_task(task: asyncio.Task[Outcome]) -> None:
    """Cancel a task until it ends. (A library may swallow one cancellation.)"""
    until = time.monotonic() + _STOP_S
    while not task.done() and time.monotonic() < until:
        task.cancel()
        await asyncio.wait({task}, timeout=0.5)


def _failed(run: _Run, code: str, message: str) -> Outcome:
    return Outcome(Status.FAILED, Failure(code, message), usage=run.usage)


def _stopped(run: _Run, reason: StopReason | None) -> Outcome:
    match reason:
        case StopReason.CANCELLED:
            return Outcome(Status.CANCELLED, usage=run.usage)
        case StopReason.SHUTDOWN:
            return Outcome(Status.INCOMPLETE, reason="server_shutdown", usage=run.usage)
        case StopReason.LEASE_LOST:
            raise LeaseLostError(run.claim.lease.session_id)
        case None:
            return Outcome(Status.INCOMPLETE, reason="timeout_seconds", usage=run.usage)


def _instructions(claim: Claim, priming: Priming | None) -> str:
    """What never changes in a session first, the task's own last: so that a prompt cache holds."""
    parts = (
        claim.harness.configuration.system_prompt,
        priming.block if priming else "",
        claim.response.asked.instructions,
    )
    return "\n\n".join(part for part in parts if part.strip())
