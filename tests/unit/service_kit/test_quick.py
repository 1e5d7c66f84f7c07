"""Statements without a cursor, and spans nobody reads."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service_kit import telemetry
from service_kit.db.pool import Database
from service_kit.errors import GroveError
from service_kit.unread import TracerProvider


async def test_a_row_is_answered_as_postgres_writes_it(database: Database):
    async with database.read() as tx:
        one = await tx.quick("select $1::int + 1, null, array[1, 2]", 5.0)
        other = await tx.quick("select upper($1)", 5.0)
        assert await one.fetch("41") == ["42", "", "{1,2}"]
        assert await other.fetch("né") == ["NÉ"]
        assert await one.fetch("1") == ["2", "", "{1,2}"]
        assert await tx.fetch_value("select 7") == 7  # the connection serves others between


async def test_a_connection_that_is_used_again_may_be_asked_the_same(database: Database):
    for _ in range(3):
        async with database.read() as tx:
            assert await (await tx.quick("select 1", 5.0)).fetch() == ["1"]


@pytest.mark.parametrize(
    ("query", "parameters"),
    [("select 1 / $1::int", ["0"]), ("select $1::int", ["no number"]), ("select $1::int", ["1", "2"])],
)
async def test_whatever_fails_is_a_want_of_a_database(database: Database, query: str, parameters: list[str]):
    with pytest.raises(GroveError) as raised:
        async with database.read() as tx:
            await (await tx.quick(query, 5.0)).fetch(*parameters)  # pyright: ignore[reportArgumentType]
    assert raised.value.code == "grovekeeper_unavailable"
    assert await database.ping()


async def test_a_statement_that_takes_too_long_is_given_up_with_its_connection(database: Database):
    async with asyncio.timeout(5):
        with pytest.raises(GroveError) as raised:
            async with database.read() as tx:
                await (await tx.quick("select pg_sleep(60)", 0.05)).fetch()
    assert raised.value.code == "grovekeeper_unavailable"
    assert await database.ping()


async def test_only_a_traced_statement_is_a_span(database: Database, spans: InMemorySpanExporter):
    async with database.read() as tx:
        quick = await tx.quick("select count(*) from thing", 5.0)
        await quick.fetch()
        assert not spans.get_finished_spans()
        with telemetry.tracer("test").start_as_current_span("asking"):
            await quick.fetch()
    assert [span.name for span in spans.get_finished_spans()] == ["SELECT thing", "asking"]


def test_spans_nobody_reads_have_their_place_in_a_trace():
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("root") as root:
        above = root.get_span_context()
        assert above.is_valid
        assert not root.is_recording()
        assert telemetry.trace_id() == trace.format_trace_id(above.trace_id)
        child = tracer.start_span("child").get_span_context()
        assert (child.trace_id, child.is_remote) == (above.trace_id, False)
        assert child.span_id != above.span_id
    assert tracer.start_span("another").get_span_context().trace_id != above.trace_id


def test_a_trace_that_came_along_goes_on_unread_and_says_so():
    sent = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
    }
    span = TracerProvider().get_tracer("test").start_span("served", telemetry.context_from(sent))
    passed = telemetry.carrier(span)
    assert passed["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert passed["traceparent"].endswith("-00")
    assert passed["tracestate"] == "vendor=1"
