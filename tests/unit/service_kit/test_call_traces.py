"""The spans and durations of calls: one trace, right parents, current names, no content."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from service_kit import semconv, telemetry
from service_kit.errors import GroveError
from service_kit.identity import PassportSigner, use_passport
from service_kit.rpc.client import channel, streaming
from tests.unit.service_kit.echo import SERVICE, Served


async def ended(spans: InMemorySpanExporter, number: int) -> Sequence[ReadableSpan]:
    """The spans, once there are so many: a server's ends a moment after its answer arrived."""
    async with asyncio.timeout(5):
        while len(spans.get_finished_spans()) < number:  # noqa: ASYNC110 - the exporter tells nobody
            await asyncio.sleep(0.005)
    return spans.get_finished_spans()


def of_kind(spans: Sequence[ReadableSpan], kind: SpanKind) -> ReadableSpan:
    (found,) = [span for span in spans if span.kind is kind]
    return found


def attribute(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(name)


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


async def test_a_call_is_one_trace_from_caller_to_handler(
    echo: Served, signer: PassportSigner, spans: InMemorySpanExporter
):
    async with echo.client() as stub:
        with (
            use_passport(signer.sign("person:alice")),
            telemetry.tracer("test").start_as_current_span("root") as root,
        ):
            seen = await stub.unary(b"trace")
    whole = await ended(spans, 3)
    client, server = of_kind(whole, SpanKind.CLIENT), of_kind(whole, SpanKind.SERVER)
    assert parent(client) == root.get_span_context().span_id
    assert client.context
    assert parent(server) == client.context.span_id
    assert seen.decode() == trace.format_trace_id(root.get_span_context().trace_id)
    for span in (client, server):
        assert span.name == f"{SERVICE}/Unary"
        assert attribute(span, semconv.RPC_SYSTEM_NAME) == "grpc"
        assert attribute(span, semconv.RPC_METHOD) == f"{SERVICE}/Unary"
        assert attribute(span, semconv.RPC_RESPONSE_STATUS_CODE) == "OK"
        assert span.status.status_code is StatusCode.UNSET


async def test_a_streams_span_ends_with_the_stream_and_is_current_in_it(
    echo: Served, signer: PassportSigner, spans: InMemorySpanExporter
):
    async with echo.client() as stub:
        with (
            use_passport(signer.sign("person:alice")),
            telemetry.tracer("test").start_as_current_span("root") as root,
        ):
            items = [item async for item in stub.stream(b"")]
            assert any(span.kind is SpanKind.CLIENT for span in spans.get_finished_spans())
    assert items[-1].decode() == trace.format_trace_id(root.get_span_context().trace_id)
    whole = await ended(spans, 3)
    assert attribute(of_kind(whole, SpanKind.SERVER), semconv.RPC_RESPONSE_STATUS_CODE) == "OK"


async def test_a_stream_left_early_ends_cancelled_on_both_sides(
    echo: Served, signer: PassportSigner, spans: InMemorySpanExporter
):
    async with echo.client() as stub:
        with use_passport(signer.sign("person:alice")):
            async with streaming(stub.stream(b"wait", timeout=60)) as items:
                await anext(items)
    whole = await ended(spans, 2)
    for kind in (SpanKind.CLIENT, SpanKind.SERVER):
        assert attribute(of_kind(whole, kind), semconv.RPC_RESPONSE_STATUS_CODE) == "CANCELLED"


@pytest.mark.parametrize(
    ("request_bytes", "status", "server_status"),
    [(b"refuse", "PERMISSION_DENIED", StatusCode.UNSET), (b"break", "INTERNAL", StatusCode.ERROR)],
)
async def test_only_a_servers_own_fault_marks_its_span(
    echo: Served,
    signer: PassportSigner,
    spans: InMemorySpanExporter,
    request_bytes: bytes,
    status: str,
    server_status: StatusCode,
):
    async with echo.client() as stub:
        with use_passport(signer.sign("person:alice")), pytest.raises(GroveError):
            await stub.unary(request_bytes)
    whole = await ended(spans, 2)
    client, server = of_kind(whole, SpanKind.CLIENT), of_kind(whole, SpanKind.SERVER)
    assert attribute(server, semconv.RPC_RESPONSE_STATUS_CODE) == status
    assert attribute(client, semconv.RPC_RESPONSE_STATUS_CODE) == status
    assert server.status.status_code is server_status
    assert client.status.status_code is StatusCode.ERROR


async def test_no_span_holds_content_or_credentials(
    echo: Served, signer: PassportSigner, spans: InMemorySpanExporter
):
    passport = signer.sign("person:alice")
    async with echo.client() as stub:
        with use_passport(passport):
            await stub.unary(b"my secret wish")
            with pytest.raises(GroveError):
                await stub.unary(b"break")
    for span in await ended(spans, 4):
        told = span.to_json()
        assert "secret wish" not in told
        assert "hunter2" not in told
        assert passport.token not in told


async def test_a_probe_is_no_trace_of_its_own(echo: Served, spans: InMemorySpanExporter):
    async with channel(echo.address, echo.settings) as opened:
        health = cast("Any", health_pb2_grpc).HealthStub(opened)
        answer = await health.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert not spans.get_finished_spans()
