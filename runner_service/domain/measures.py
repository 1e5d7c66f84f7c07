"""Spans and metrics of turns. OpenTelemetry's interface only: what becomes of them is the process's matter."""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final, Literal

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from runner_service.domain.model import Claim, Outcome, Status
from service_kit import semconv

__all__ = ["TurnMeasure", "ended", "model_called", "observe_queue", "sessions_removed", "turn"]

_tracer: Final = trace.get_tracer(__name__, schema_url=semconv.SCHEMA_URL)
_meter: Final = metrics.get_meter(__name__, schema_url=semconv.SCHEMA_URL)
_propagator: Final = TraceContextTextMapPropagator()

_turns: Final = _meter.create_counter(
    semconv.GROVE_TURNS, unit="{turn}", description="Turns that ended, by base and outcome."
)
_removed: Final = _meter.create_counter(
    semconv.GROVE_SESSIONS_REMOVED, unit="{session}", description="Sessions that are gone, by why."
)
_active: Final = _meter.create_up_down_counter(
    semconv.GROVE_TURNS_ACTIVE, unit="{turn}", description="Turns this process runs now."
)
_duration: Final = _meter.create_histogram(
    semconv.GROVE_TURN_DURATION,
    unit="s",
    description="From the start of a turn to its end.",
    explicit_bucket_boundaries_advisory=[*semconv.SECONDS, 300.0, 1800.0],
)
_first: Final = _meter.create_histogram(
    semconv.GROVE_TURN_FIRST_EVENT,
    unit="s",
    description="From accepting a task to the first event of its output.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)

_model_call: Final = _meter.create_histogram(
    semconv.GEN_AI_CLIENT_OPERATION_DURATION,
    unit="s",
    description="Duration of model calls.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)


def model_called(seconds: float, attributes: Mapping[str, str]) -> None:
    """A model was called, here or through the relay."""
    _model_call.record(seconds, attributes)


class TurnMeasure:
    """What is measured of one turn while it runs."""

    def __init__(self, claim: Claim, span: Span) -> None:
        self._accepted: datetime = claim.response.created_at
        self._base: str = claim.harness.base
        self._started: float = time.perf_counter()
        self._heard: bool = False
        self._span: Span = span

    def event(self, now: datetime) -> None:
        """An event of the output; the first one counts."""
        if not self._heard:
            self._heard = True
            _first.record(max(0.0, (now - self._accepted).total_seconds()), {semconv.GROVE_BASE: self._base})

    def end(self, outcome: Outcome) -> None:
        """The turn ended."""
        ended(self._base, outcome)
        attributes = {semconv.GROVE_BASE: self._base, semconv.GROVE_OUTCOME: outcome.status.value}
        _duration.record(time.perf_counter() - self._started, attributes)
        self._span.set_attribute(semconv.GROVE_OUTCOME, outcome.status.value)
        if outcome.reason:
            self._span.set_attribute(semconv.GROVE_STOP_REASON, outcome.reason)
        if outcome.usage is not None:
            self._span.set_attribute(semconv.GEN_AI_USAGE_INPUT_TOKENS, outcome.usage.input_tokens)
            self._span.set_attribute(semconv.GEN_AI_USAGE_OUTPUT_TOKENS, outcome.usage.output_tokens)
        if outcome.status is Status.FAILED and outcome.failure is not None:
            self._span.set_attribute(semconv.ERROR_TYPE, outcome.failure.code)
            self._span.set_status(StatusCode.ERROR)


def ended(base: str, outcome: Outcome) -> None:
    """Count a turn that ended, here or in a runner that is gone."""
    _turns.add(1, {semconv.GROVE_BASE: base, semconv.GROVE_OUTCOME: outcome.status.value})


@contextmanager
def turn(claim: Claim, provider: str) -> Generator[TurnMeasure]:
    """The span of a turn, in the trace of the request that asked for it, after one for its wait."""
    response = claim.response
    parent = _propagator.extract(dict(response.trace), context=otel_context.Context())
    waited = _tracer.start_span(
        "queue wait", context=parent, start_time=int(response.created_at.timestamp() * 1e9)
    )
    waited.set_attribute(semconv.GROVE_RESPONSE_ID, response.id)
    waited.end()
    attributes = {
        semconv.GEN_AI_OPERATION_NAME: semconv.INVOKE_AGENT,
        semconv.GEN_AI_PROVIDER_NAME: provider,
        semconv.GEN_AI_AGENT_ID: claim.harness.id,
        semconv.GEN_AI_AGENT_NAME: claim.harness.configuration.name,
        semconv.GEN_AI_CONVERSATION_ID: response.session_id,
        semconv.GEN_AI_REQUEST_MODEL: response.model,
        semconv.GROVE_RESPONSE_ID: response.id,
        semconv.GROVE_BASE: claim.harness.base,
    }
    _active.add(1, {semconv.GROVE_BASE: claim.harness.base})
    try:
        with _tracer.start_as_current_span(
            f"{semconv.INVOKE_AGENT} {claim.harness.configuration.name}",
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield TurnMeasure(claim, span)
    finally:
        _active.add(-1, {semconv.GROVE_BASE: claim.harness.base})


class _Depth:
    value: int = 0


_depth: Final = _Depth()


def _read_depth(_: CallbackOptions) -> list[Observation]:
    return [Observation(_depth.value)]


_meter.create_observable_gauge(
    semconv.GROVE_QUEUE_DEPTH, [_read_depth], unit="{task}", description="Tasks that wait to be started."
)


def observe_queue(depth: int) -> None:
    """How many tasks waited when somebody last looked."""
    _depth.value = depth


def sessions_removed(count: int, why: Literal["deleted", "expired"]) -> None:
    """So many sessions are gone."""
    if count:
        _removed.add(count, {semconv.GROVE_SESSION_REMOVAL: why})
