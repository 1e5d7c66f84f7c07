"""Spans and metrics of relayed calls. Never what was said."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry.trace import Span, SpanKind, StatusCode

from runner_service.domain import measures
from runner_service.relay.apis import Api
from runner_service.relay.ledger import Called
from service_kit import semconv, telemetry

__all__ = ["CallMeasure", "answered", "call"]

_tracer: Final = telemetry.tracer(__name__)
_meter: Final = telemetry.meter(__name__)
_calls: Final = _meter.create_counter(
    semconv.GROVE_RELAY_CALLS,
    unit="{call}",
    description="Requests of agents that were answered, by API and status.",
)
_first_byte: Final = _meter.create_histogram(
    semconv.GROVE_RELAY_FIRST_BYTE,
    unit="s",
    description="From an agent's call to the first byte of its answer.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)


def answered(api: Api, status: int) -> None:
    """An agent's request was answered, by an endpoint or here."""
    _calls.add(1, {semconv.GROVE_RELAY_API: api.kind, semconv.HTTP_RESPONSE_STATUS_CODE: status})


class CallMeasure:
    """What is measured of one call while it runs."""

    def __init__(self, api: Api, span: Span) -> None:
        self._api: Api = api
        self._span: Span = span
        self._started: float = time.perf_counter()
        self._heard: bool = False
        self.error: str = ""

    def heard(self) -> None:
        """Bytes of an answer; the first ones count."""
        if not self._heard:
            self._heard = True
            _first_byte.record(time.perf_counter() - self._started, {semconv.GROVE_RELAY_API: self._api.kind})

    def status(self, status: int) -> None:
        """The endpoint answered with this status."""
        self._span.set_attribute(semconv.HTTP_RESPONSE_STATUS_CODE, status)

    def ended(self, called: Called) -> None:
        """The call is over: what its answer said of itself, and what went wrong."""
        reading, usage = called.reading, called.usage
        if reading is not None and reading.model:
            self._span.set_attribute(semconv.GEN_AI_RESPONSE_MODEL, reading.model[:256])
        if reading is not None and reading.finish:
            self._span.set_attribute(semconv.GEN_AI_RESPONSE_FINISH_REASONS, [reading.finish[:64]])
        if usage is not None:
            self._span.set_attribute(semconv.GEN_AI_USAGE_INPUT_TOKENS, usage.input_tokens)
            self._span.set_attribute(semconv.GEN_AI_USAGE_OUTPUT_TOKENS, usage.output_tokens)
        if called.failure is not None:
            self.error = str(called.status) if called.status >= 300 else called.failure.code


@contextmanager
def call(
    api: Api, model: str, turn: tuple[str, str], context: otel_context.Context, *, streamed: bool
) -> Generator[CallMeasure]:
    """The span of one call, in its turn's trace. ``turn``: session and response."""
    attributes = {
        semconv.GEN_AI_OPERATION_NAME: semconv.CHAT,
        semconv.GEN_AI_PROVIDER_NAME: api.provider,
        semconv.GEN_AI_REQUEST_MODEL: model,
    }
    started = time.perf_counter()
    with _tracer.start_as_current_span(
        f"{semconv.CHAT} {model}".strip(),
        context=context,
        kind=SpanKind.CLIENT,
        attributes={
            **attributes,
            semconv.GEN_AI_REQUEST_STREAM: streamed,
            semconv.GEN_AI_CONVERSATION_ID: turn[0],
            semconv.GROVE_RESPONSE_ID: turn[1],
        },
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        measure = CallMeasure(api, span)
        try:
            yield measure
        except BaseException as error:
            measure.error = measure.error or type(error).__name__
            raise
        finally:
            if measure.error:
                attributes[semconv.ERROR_TYPE] = measure.error
                span.set_attribute(semconv.ERROR_TYPE, measure.error)
                span.set_status(StatusCode.ERROR)
            measures.model_called(time.perf_counter() - started, attributes)
