"""One server span and one duration for each request, by route template, by the current conventions."""

import time
from typing import Final, cast

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.util.types import AttributeValue
from starlette.types import Scope

from gateway.schemas.shares import LINK
from service_kit import semconv, telemetry
from service_kit.errors import GroveError
from service_kit.identity import Passport

__all__ = ["Observation", "is_link"]

_tracer: Final = telemetry.tracer(__name__)
_durations: Final = telemetry.meter(__name__).create_histogram(
    semconv.HTTP_SERVER_REQUEST_DURATION,
    unit="s",
    description="Duration of HTTP requests served.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SERVER_FAULT: Final = 500
_CUT_SHORT: Final = 499
"""What is recorded when the client left before it was answered; nobody is sent it."""


def is_link(path: str) -> bool:
    """Whether this is the address of a shared session: a secret, which no span may hold."""
    return path.startswith(LINK) and "/" not in path[len(LINK) :]


class Observation:
    """A request being served: its span, and what is measured when it ends."""

    def __init__(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        self._method: str = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        self._started: float = time.perf_counter()
        self._code: str | None = None
        parent = {
            name: value.decode("latin-1")
            for name in ("traceparent", "tracestate")
            if (value := headers.get(name.encode()))
        }
        self.span: trace.Span = _tracer.start_span(
            self._method,
            context=telemetry.context_from(parent),
            kind=SpanKind.SERVER,
            attributes={semconv.HTTP_REQUEST_METHOD: self._method},
        )
        if self.span.is_recording():
            path = cast("str", scope["path"])
            self.span.set_attribute(semconv.URL_PATH, f"{LINK}…" if path.startswith(LINK) else path)
            self.span.set_attribute(semconv.URL_SCHEME, cast("str", scope.get("scheme", "http")))

    @property
    def traceparent(self) -> bytes:
        """The request's place in its trace, as a W3C header."""
        context = self.span.get_span_context()
        return b"00-%032x-%016x-%02x" % (context.trace_id, context.span_id, context.trace_flags)

    def came_from(self, source: str) -> None:
        """The client's address."""
        if source and self.span.is_recording():
            self.span.set_attribute(semconv.CLIENT_ADDRESS, source)

    def known(self, passport: Passport) -> None:
        """Who asks, by kind only."""
        self.span.set_attribute(semconv.GROVE_PRINCIPAL_KIND, passport.kind)

    def refused(self, error: GroveError) -> None:
        """The error it is answered with."""
        self._code = error.code

    def end(self, status: int, scope: Scope) -> None:
        """End it. ``status`` 0: nobody was there to be answered."""
        status = status or _CUT_SHORT
        route = cast("str", getattr(scope.get("route"), "path", ""))
        measured: dict[str, AttributeValue] = {
            semconv.HTTP_REQUEST_METHOD: self._method,
            semconv.HTTP_RESPONSE_STATUS_CODE: status,
        }
        if route:
            measured[semconv.HTTP_ROUTE] = route
        if status >= _SERVER_FAULT:
            measured[semconv.ERROR_TYPE] = self._code or str(status)
            self.span.set_status(StatusCode.ERROR)
        if self.span.is_recording():
            self.span.update_name(f"{self._method} {route}" if route else self._method)
            self.span.set_attributes(measured)
            if self._code is not None:
                self.span.set_attribute(semconv.GROVE_ERROR_CODE, self._code)
        self.span.end()
        _durations.record(time.perf_counter() - self._started, measured)
