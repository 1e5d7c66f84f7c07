"""Traces, metrics and logs of one process.

``setup`` is called once, in ``main``. With no OTLP endpoint nobody reads spans, and none are made; yet trace
ids exist and go along, because every error carries one. Metrics are always readable at
``/metrics`` and are pushed over OTLP where an endpoint is set. Logs are JSON lines on stderr.
"""

import json
import logging
import sys
import traceback
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from uuid import uuid4

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service_kit import semconv, unread
from service_kit.settings import Settings

__all__ = [
    "Telemetry",
    "attached",
    "carrier",
    "configure_logging",
    "context_from",
    "meter",
    "setup",
    "trace_id",
    "tracer",
]

_PROPAGATOR: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The providers of this process, to be shut down (and so flushed) last."""

    tracer_provider: TracerProvider | None
    meter_provider: MeterProvider

    def shutdown(self) -> None:
        """Send what is queued and stop. Blocks for at most a few seconds."""
        if self.tracer_provider is not None:
            self.tracer_provider.shutdown()
        self.meter_provider.shutdown(timeout_millis=5_000)


def setup(service_name: str, settings: Settings, *, processors: Iterable[SpanProcessor] = ()) -> Telemetry:
    """Install logging, tracing and metrics for this process; once. ``processors`` are extra ones."""
    configure_logging(service_name, settings.log_level)
    resource = _resource(service_name)
    tracer_provider = _tracer_provider(resource, settings, tuple(processors))
    meter_provider = MeterProvider(_readers(settings), resource=resource)
    trace.set_tracer_provider(tracer_provider or unread.TracerProvider())
    metrics.set_meter_provider(meter_provider)
    return Telemetry(tracer_provider, meter_provider)


def _resource(service_name: str) -> Resource:
    try:
        release = version("grovekeeper")
    except PackageNotFoundError:
        release = "unknown"
    own = {
        semconv.SERVICE_NAME: service_name,
        semconv.SERVICE_NAMESPACE: "grovekeeper",
        semconv.SERVICE_VERSION: release,
        semconv.SERVICE_INSTANCE_ID: str(uuid4()),
    }
    return Resource.create(own, semconv.SCHEMA_URL)


def _tracer_provider(
    resource: Resource, settings: Settings, processors: tuple[SpanProcessor, ...]
) -> TracerProvider | None:
    """None when nobody would read a span."""
    exporting = bool(settings.otlp_endpoint or settings.otlp_traces_endpoint)
    if not exporting and not processors:
        return None
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    if exporting:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _readers(settings: Settings) -> list[MetricReader]:
    readers: list[MetricReader] = [PrometheusMetricReader()]
    if settings.otlp_endpoint or settings.otlp_metrics_endpoint:
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    return readers


def tracer(name: str) -> trace.Tracer:
    """The tracer of a module; ``name`` is the module's."""
    return trace.get_tracer(name, schema_url=semconv.SCHEMA_URL)


def meter(name: str) -> metrics.Meter:
    """The meter of a module; ``name`` is the module's."""
    return metrics.get_meter(name, schema_url=semconv.SCHEMA_URL)


def trace_id() -> str:
    """The current trace id, 32 hex digits; all zeros outside any span."""
    return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)


def carrier(span: trace.Span | None = None) -> dict[str, str]:
    """The trace context of ``span`` (else the current one) as W3C headers, to send along."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers, None if span is None else trace.set_span_in_context(span))
    return headers


def context_from(headers: Mapping[str, str]) -> otel_context.Context:
    """The trace context in W3C headers that came along; an empty one when there is none."""
    return _PROPAGATOR.extract(dict(headers), context=otel_context.Context())


@contextmanager
def attached(headers: Mapping[str, str]) -> Generator[None]:
    """Continue the trace in ``headers`` (as :func:`carrier` made them) inside the block."""
    token = otel_context.attach(context_from(headers))
    try:
        yield
    finally:
        otel_context.detach(token)


_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, service, trace ids, ``extra`` fields, exception."""

    def __init__(self, service_name: str) -> None:
        super().__init__()
        self._service: str = service_name

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "service": self._service,
        }
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            line["trace_id"] = trace.format_trace_id(span.trace_id)
            line["span_id"] = trace.format_span_id(span.span_id)
        for key, value in record.__dict__.items():
            if key not in _STANDARD and key not in line:
                line[key] = value
        if record.exc_info is not None and record.exc_info[1] is not None:
            line["exception"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(service_name: str, level: str = "INFO") -> None:
    """Make the root logger write JSON lines to stderr, and nothing else."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service_name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Libraries that tell of each request or job are heard from WARNING on.
    for noisy in ("httpx", "httpcore", "procrastinate", "psycopg.pool", "asyncio", "uvicorn.access"):
        logging.getLogger(noisy).setLevel("DEBUG" if level == "DEBUG" else "WARNING")
    logging.captureWarnings(capture=True)
