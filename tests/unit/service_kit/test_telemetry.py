"""Log lines, and trace contexts that are carried about."""

import json
import logging
import sys

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service_kit import telemetry
from service_kit.telemetry import JsonFormatter, attached, carrier, trace_id


def formatted(message: str, *arguments: object, **extra: object) -> dict[str, object]:
    record = logging.getLogger("test").makeRecord(
        "a.module", logging.WARNING, "f.py", 1, message, arguments, None
    )
    record.__dict__.update(extra)
    return json.loads(JsonFormatter("things").format(record))


def test_a_line_is_one_json_object_whatever_is_in_it():
    line = JsonFormatter("things").format(
        logging.makeLogRecord({"msg": 'two\nlines "quoted" é', "levelname": "INFO", "odd": object()})
    )
    assert "\n" not in line
    told = json.loads(line)
    assert told["message"] == 'two\nlines "quoted" é'
    assert (told["service"], told["level"]) == ("things", "INFO")
    assert told["odd"].startswith("<object")


def test_a_line_carries_its_extra_fields_and_cannot_have_its_own_replaced():
    told = formatted("%s jobs", 3, queue="things.purge", service="forged")
    assert (told["message"], told["queue"], told["service"]) == ("3 jobs", "things.purge", "things")


def test_a_line_in_a_span_names_its_trace(spans: InMemorySpanExporter):
    assert "trace_id" not in formatted("outside")
    with telemetry.tracer("test").start_as_current_span("a"):
        assert formatted("inside")["trace_id"] == trace_id()


def test_an_exception_is_a_field_of_its_line():
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    told = json.loads(JsonFormatter("things").format(record))
    assert told["exception"].endswith("ValueError: why\n")


def test_a_trace_goes_on_where_its_carrier_is_attached(spans: InMemorySpanExporter):
    with telemetry.tracer("test").start_as_current_span("here"):
        sent, here = carrier(), trace_id()
    assert int(trace_id(), 16) == 0
    with attached(sent), telemetry.tracer("test").start_as_current_span("there"):
        assert trace_id() == here
    with attached({"traceparent": "nonsense"}):
        assert int(trace_id(), 16) == 0
