"""One span and one duration for each call, on either side, by the current conventions. No content."""

import time
from typing import Final

import grpc
from opentelemetry import trace
from opentelemetry.context import Context, attach
from opentelemetry.trace import SpanKind, StatusCode

from service_kit import semconv, telemetry
from service_kit.errors import GroveError
from service_kit.rpc.health import EXEMPT
from service_kit.rpc.status import status_of

__all__ = ["Observation", "client", "make_current", "server"]

_tracer: Final = telemetry.tracer(__name__)
_meter: Final = telemetry.meter(__name__)
_durations: Final = {
    SpanKind.SERVER: _meter.create_histogram(
        semconv.RPC_SERVER_CALL_DURATION,
        unit="s",
        description="Duration of calls served.",
        explicit_bucket_boundaries_advisory=semconv.SECONDS,
    ),
    SpanKind.CLIENT: _meter.create_histogram(
        semconv.RPC_CLIENT_CALL_DURATION,
        unit="s",
        description="Duration of calls made.",
        explicit_bucket_boundaries_advisory=semconv.SECONDS,
    ),
}

_OK: Final = grpc.StatusCode.OK.name
_CANCELLED: Final = grpc.StatusCode.CANCELLED.name
# A server's span is in error only for what is the server's fault.
_SERVER_FAULTS: Final = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)


class Observation:
    """A call under way: end it once, with how it went."""

    def __init__(self, method: str, kind: SpanKind, context: Context | None) -> None:
        self._kind: SpanKind = kind
        self._method: str = method.removeprefix("/")
        self._started: float = time.perf_counter()
        self._ended: bool = False
        # A probe is nobody's request: it would be a trace of its own every few seconds.
        self.span: trace.Span = (
            trace.INVALID_SPAN
            if method.startswith(EXEMPT)
            else _tracer.start_span(
                self._method,
                context=context,
                kind=kind,
                attributes={
                    semconv.RPC_SYSTEM_NAME: semconv.RPC_SYSTEM_GRPC,
                    semconv.RPC_METHOD: self._method,
                },
            )
        )

    def fail(self, error: GroveError) -> None:
        """End it with the status of ``error``."""
        self.span.set_attribute(semconv.GROVE_ERROR_CODE, error.code)
        self.end(status_of(error).name)

    def cancel(self) -> None:
        """End it as cancelled."""
        self.end(_CANCELLED)

    def end(self, status: str = _OK) -> None:
        """End it with a status; only the first end counts."""
        if self._ended:
            return
        self._ended = True
        attributes = {
            semconv.RPC_SYSTEM_NAME: semconv.RPC_SYSTEM_GRPC,
            semconv.RPC_METHOD: self._method,
            semconv.RPC_RESPONSE_STATUS_CODE: status,
        }
        self.span.set_attribute(semconv.RPC_RESPONSE_STATUS_CODE, status)
        if status != _OK and (self._kind is SpanKind.CLIENT or status in _SERVER_FAULTS):
            attributes[semconv.ERROR_TYPE] = status
            self.span.set_attribute(semconv.ERROR_TYPE, status)
            self.span.set_status(StatusCode.ERROR)
        self.span.end()
        _durations[self._kind].record(time.perf_counter() - self._started, attributes)


def server(method: str, metadata: dict[str, str]) -> Observation:
    """A call being served, continuing the caller's trace."""
    return Observation(method, SpanKind.SERVER, telemetry.context_from(metadata))


def client(method: str) -> Observation:
    """A call being made, inside the current span."""
    return Observation(method, SpanKind.CLIENT, None)


def make_current(observation: Observation) -> None:
    """Make the call's span current for the rest of this context (an RPC has a context of its own)."""
    attach(trace.set_span_in_context(observation.span))
