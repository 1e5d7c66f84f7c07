import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id

from protos.memory.v1 import memory_pb2
from protos.runner.v1 import runner_pb2
from service_kit.errors import GroveError
from tests.api.gateway.backends import Events, Script

pytestmark = pytest.mark.asyncio(loop_scope="module")


def of_trace(spans: InMemorySpanExporter, answer: httpx.Response) -> list[ReadableSpan]:
    """The finished spans of the trace an answer belongs to."""
    trace_id = answer.headers["traceparent"].split("-")[1]
    return [
        one
        for one in spans.get_finished_spans()
        if one.context is not None and format_trace_id(one.context.trace_id) == trace_id
    ]


def the_server(found: list[ReadableSpan]) -> ReadableSpan:
    (server,) = [one for one in found if one.kind is SpanKind.SERVER and one.name[0] in "DGOPH"]
    return server


async def test_a_request_is_one_server_span_and_a_client_span_for_each_call(
    alice: httpx.AsyncClient, script: Script, spans: InMemorySpanExporter
):
    script.answers["GetMemory"] = memory_pb2.Memory(id="hmem_1")
    found = of_trace(spans, await alice.get("/v1/memories/hmem_1?secret=content"))
    server = the_server(found)
    assert server.name == "GET /v1/memories/{memory_id}"
    assert dict(server.attributes or {}) == {
        "http.request.method": "GET",
        "url.path": "/v1/memories/hmem_1",
        "client.address": "127.0.0.1",
        "url.scheme": "http",
        "http.route": "/v1/memories/{memory_id}",
        "http.response.status_code": 200,
        "grove.principal.kind": "person",
    }
    clients = [one for one in found if one.kind is SpanKind.CLIENT]
    assert {one.name for one in clients} == {
        "grovekeeper.authz.v1.Authentication/Authenticate",
        "grovekeeper.memory.v1.Memories/GetMemory",
    }
    assert server.context is not None
    assert {one.parent.span_id for one in clients if one.parent} == {server.context.span_id}


async def test_a_refusal_is_recorded_by_its_code_and_is_no_fault_of_the_server(
    alice: httpx.AsyncClient, script: Script, spans: InMemorySpanExporter
):
    script.answers["GetMemory"] = GroveError("memory_not_found", "There is no such memory.")
    server = the_server(of_trace(spans, await alice.get("/v1/memories/hmem_1")))
    assert (server.attributes or {})["grove.error.code"] == "memory_not_found"
    assert server.status.status_code is not StatusCode.ERROR


async def test_a_failure_is_recorded_as_one(
    alice: httpx.AsyncClient, script: Script, spans: InMemorySpanExporter
):
    script.answers["GetMemory"] = RuntimeError("secret")
    server = the_server(of_trace(spans, await alice.get("/v1/memories/hmem_1")))
    assert (server.attributes or {})["error.type"] == "server_error"
    assert server.status.status_code is StatusCode.ERROR
    assert "secret" not in str(server.attributes)


async def test_an_unknown_address_makes_no_route_of_its_own(
    alice: httpx.AsyncClient, spans: InMemorySpanExporter
):
    server = the_server(of_trace(spans, await alice.get("/v1/nowhere/at/all")))
    assert server.name == "GET"
    assert "http.route" not in (server.attributes or {})


async def test_a_stream_that_came_to_its_end_was_not_cancelled(
    alice: httpx.AsyncClient, script: Script, spans: InMemorySpanExporter
):
    events = script.events["resp_1"] = Events()
    script.answers["CreateResponse"] = runner_pb2.Response(id="resp_1", status="in_progress", json=b"{}")
    await events.add("response.completed", terminal=True)
    found = of_trace(spans, await alice.post("/v1/responses", json={"input": "hi", "stream": True}))
    (follow,) = [one for one in found if one.name.endswith("/FollowResponse") and one.kind is SpanKind.CLIENT]
    assert (follow.attributes or {})["rpc.response.status_code"] == "OK"
    assert follow.status.status_code is not StatusCode.ERROR
