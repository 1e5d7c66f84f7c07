"""Accepting a task (Tasks): everything that can refuse it does so before it exists; then it is durable."""

from dataclasses import dataclass
from typing import Final

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from runner_service.domain import errors
from runner_service.domain.composer import Composer
from runner_service.domain.harnesses import Harnesses
from runner_service.domain.inputs import MAX_INSTRUCTIONS, read_input
from runner_service.domain.memory_seam import Seam
from runner_service.domain.model import Asked, Harness, Idempotency, Message, Response, Session, Status
from runner_service.domain.ports import Bases, HarnessStore, ResponseStore, Wakeups
from runner_service.domain.response_object import compose
from runner_service.domain.transcript import title
from service_kit.clock import Clock
from service_kit.identity import current_passport
from service_kit.ids import new_id

__all__ = ["Accept", "Gate"]

MAX_BUDGET: Final = 2**31 - 1
_propagator: Final = TraceContextTextMapPropagator()


@dataclass
class Gate:
    """Whether this process takes tasks, and how many may wait."""

    queue_limit: int
    open: bool = True


@dataclass(frozen=True, kw_only=True)
class Accept:
    """The use case of ``POST /v1/responses``."""

    harnesses: Harnesses
    harness_store: HarnessStore
    store: ResponseStore
    bases: Bases
    seam: Seam
    wakeups: Wakeups
    clock: Clock
    gate: Gate

    async def accept(self, asked: Asked, idempotency: Idempotency) -> Response:
        """The response, queued; or the first one under a repeated key, as it stands. Refusals are listed
        in protos/runner/v1.
        """
        owner = current_passport().principal
        repeated = await self.store.repeated_response(owner, idempotency)
        if repeated is not None:
            return repeated
        messages = _checked(asked)
        known, harness = await self._place(owner, asked)
        model = await self._model(harness, asked.model)
        now = self.clock.now()
        session = known or Session(new_id("hsess"), owner, harness.id, asked.memory_id, now)
        if asked.memory_id:
            await self._check_named(asked, session)
        await self._admit()
        trace: dict[str, str] = {}
        _propagator.inject(trace)
        response = Response(
            id=new_id("resp"),
            owner=owner,
            session_id=session.id,
            harness_id=harness.id,
            asked=asked,
            model=model,
            status=Status.QUEUED,
            created_at=now,
            trace=trace,
            title=title(messages),
        )
        created = Composer().lifecycle("response.created", compose(response, (), session.priming))
        accepted = await self.store.accept(session, response, created, idempotency)
        if accepted.id == response.id:
            await self.wakeups.wake_workers()
        return accepted

    async def _place(self, owner: str, asked: Asked) -> tuple[Session | None, Harness]:
        """The session a task continues (None: a new one) and its harness."""
        if not asked.previous_response_id:
            if asked.harness_id:
                return None, await self.harnesses.get(asked.harness_id, "metadata.harness_id")
            return None, await self.harnesses.default()
        previous = await self.store.response(owner, asked.previous_response_id)
        if previous is None:
            if await self.store.expired(owner, asked.previous_response_id):
                raise errors.session_expired("previous_response_id")
            raise errors.response_not_found("previous_response_id")
        if asked.harness_id and asked.harness_id != previous.harness_id:
            await self.harnesses.get(asked.harness_id, "metadata.harness_id")
            raise errors.harness_mismatch()
        session = await self.store.session(owner, previous.session_id)
        if session is None:
            raise errors.response_not_found("previous_response_id")
        harness = await self.harnesses.get(previous.harness_id, "previous_response_id")
        if await self.store.running(session.id) is not None:
            raise errors.session_busy()
        return session, harness

    async def _model(self, harness: Harness, asked: str) -> str:
        base = self.bases.get(harness.base)
        if base is None:
            raise errors.harness_unavailable(f"This server does not run the base {harness.base!r} now.")
        model = asked or harness.configuration.default_model or base.default_model
        if not await base.serves(model):
            raise errors.model_unavailable(model)
        return model

    async def _check_named(self, asked: Asked, session: Session) -> None:
        """Checks ``metadata.memory`` against the harness (§9). It is chosen by the task that starts a
        session; one that continues it may only repeat it.
        """
        if asked.memory_id != session.memory_id:
            raise errors.invalid(
                "A session keeps the memory its first task named; start a new session for another.",
                "metadata.memory",
            )
        attachments = await self.harness_store.attachments(session.harness_id)
        await self.seam.check_named(session, attachments)

    async def _admit(self) -> None:
        if not self.gate.open:
            raise errors.harness_unavailable("The runner is stopping; try again.")
        if await self.store.queued() >= self.gate.queue_limit:
            raise errors.harness_unavailable("Too many tasks are waiting; try again later.")


def _checked(asked: Asked) -> tuple[Message, ...]:
    messages = read_input(asked.input)
    if len(asked.instructions) > MAX_INSTRUCTIONS:
        raise errors.invalid(
            f"The instructions are longer than {MAX_INSTRUCTIONS} characters.", "instructions"
        )
    for field in ("max_output_tokens", "max_step", "timeout_seconds"):
        if not 0 <= getattr(asked.budgets, field) <= MAX_BUDGET:
            raise errors.invalid(f"{field} is out of range.", field)
    return messages
