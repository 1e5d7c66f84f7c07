"""What operators see of a model: a span and a duration for each call, and no text."""

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from opentelemetry.trace import SpanKind, Status, StatusCode

from service_kit import semconv, telemetry
from service_kit.errors import GroveError

__all__ = ["observed"]

_tracer: Final = telemetry.tracer(__name__)
_duration: Final = telemetry.meter(__name__).create_histogram(
    semconv.GEN_AI_CLIENT_OPERATION_DURATION,
    unit="s",
    description="Duration of a call to a model.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)


@contextmanager
def observed(operation: str, provider: str, model: str, dimension: int | None = None) -> Generator[None]:
    """Around one call of a model; ``operation`` and ``provider`` are the convention's ``gen_ai.operation.name`` and
    ``gen_ai.provider.name``, ``dimension`` is the length of its vectors, where it makes some.
    """
    attributes: dict[str, str] = {
        semconv.GEN_AI_OPERATION_NAME: operation,
        semconv.GEN_AI_PROVIDER_NAME: provider,
        semconv.GEN_AI_REQUEST_MODEL: model,
    }
    sized = {} if dimension is None else {semconv.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: dimension}
    start = perf_counter()
    # An in-process model is no client call, but it is what the caller waits for.
    kind = SpanKind.CLIENT if provider == "openai" else SpanKind.INTERNAL
    with _tracer.start_as_current_span(
        f"{operation} {model}",
        kind=kind,
        attributes={**attributes, **sized},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except GroveError as error:
            attributes[semconv.ERROR_TYPE] = error.code
            span.set_attribute(semconv.ERROR_TYPE, error.code)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            _duration.record(perf_counter() - start, attributes)
