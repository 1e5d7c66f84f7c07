"""One trace: a turn is followed from the request through every process to the facts it leaves behind.

Every service is its own process and exports to a receiver in this one; nothing is looked at from inside.
"""

import re
import secrets
from collections.abc import Generator
from dataclasses import dataclass

import pytest

from service_kit import semconv
from tests.e2e.caller import Caller, Refused, Streamed, text_of
from tests.fixtures.otlp import Receiver, Span, Trace, receiver, traceparent
from tests.fixtures.parts import short_directory
from tests.fixtures.stack import Stack, running

SERVICES = {"gateway", "authz", "memory", "provider", "runner"}
RPC = "grovekeeper."

# Words that are said nowhere else: whatever a span says, it does not say these.
KNOWN = "The walrus Ottokar renews his berth in Vellmar harbour each Candlemas"
ASKED = "When does the walrus Ottokar renew his berth?"
STATED = "The new harbour warden of Vellmar is Philippa Strandgaard"
MEMORY = "Quaysidebook"
DESCRIPTION = "Berths and wardens of Vellmar."
CONTENT = re.compile(
    r"walrus|ottokar|berth|vellmar|candlemas|warden|philippa|strandgaard|quaysidebook", re.IGNORECASE
)


@dataclass
class Turn:
    """A streamed turn and its trace, whole."""

    streamed: Streamed
    trace: Trace


@dataclass
class Watched:
    """A product whose every process exports to a receiver here, and two turns that were run on it."""

    stack: Stack
    received: Receiver
    alice: Caller
    memory: str
    harness: str
    recalled: Turn
    remembered: Turn


def is_whole(trace: Trace) -> bool:
    """Everything has come: the request's end, and the end of the work it leaves behind."""
    return (
        bool(trace.named("POST /v1/responses"))
        and bool(trace.named("process provider.derive"))
        and not trace.orphans()
        and all(
            any(one.kind == "server" for one in trace.children(span))
            for span in trace.spans
            if span.kind == "client" and span.name.startswith(RPC)
        )
    )


def trace_id(streamed: Streamed) -> str:
    return streamed.headers["traceparent"].split("-")[1]


@pytest.fixture(scope="module")
def watched() -> Generator[Watched]:
    with (
        receiver() as received,
        short_directory() as directory,
        running(directory / "home", received.environment()) as stack,
        Caller(stack.url, stack.token(person="alice")) as alice,
    ):
        memory = alice.plant(MEMORY, description=DESCRIPTION)
        alice.remember(memory, KNOWN, attributes={"warden": "Philippa"})
        harness = alice.harness("Desk", {"memory_id": memory, "access": "write", "default": True})

        def turn(text: str, previous: str | None = None) -> Turn:
            streamed = alice.stream(text, harness, previous)
            assert streamed.events[-1]["type"] == "response.completed"
            return Turn(streamed, received.wait(trace_id(streamed), is_whole, "the whole turn"))

        recalled = turn(f"Recall: {ASKED}")
        assert KNOWN in text_of(recalled.streamed.response)
        remembered = turn(f"Remember: {STATED}", recalled.streamed.response["id"])
        assert STATED in alice.found(memory, "Who is the harbour warden?", limit=3)
        yield Watched(stack, received, alice, memory, harness, recalled, remembered)


def attributes(span: Span, *names: str) -> dict[str, object]:
    return {name: span.attributes[name] for name in names}


def path(trace: Trace, span: Span) -> list[str]:
    """From the root down to a span: service and name of each."""
    return [f"{one.service} {one.name}" for one in [*trace.above(span)[::-1], span]]


def test_a_turn_is_one_trace_across_all_five_processes(watched: Watched):
    for turn in (watched.recalled, watched.remembered):
        assert turn.trace.services == SERVICES
        (root,) = turn.trace.roots
        assert (root.service, root.name, root.kind) == ("gateway", "POST /v1/responses", "server")
        assert not turn.trace.orphans()
        instances = {str(span.resource[semconv.SERVICE_INSTANCE_ID]) for span in turn.trace.spans}
        assert len(instances) == len(SERVICES)


def test_the_answer_says_which_trace_it_was(watched: Watched):
    root = watched.recalled.trace.roots[0]
    assert watched.recalled.streamed.headers["traceparent"].startswith(f"00-{root.trace_id}-{root.id}-")


def test_a_turn_is_an_agent_that_calls_a_model_and_executes_a_tool(watched: Watched):
    response, trace = watched.recalled.streamed.response, watched.recalled.trace
    agent = trace.one(semconv.INVOKE_AGENT)
    assert agent.name == "invoke_agent Desk"
    assert attributes(
        agent,
        semconv.GEN_AI_OPERATION_NAME,
        semconv.GEN_AI_AGENT_ID,
        semconv.GEN_AI_AGENT_NAME,
        semconv.GEN_AI_CONVERSATION_ID,
        semconv.GEN_AI_REQUEST_MODEL,
        semconv.GROVE_RESPONSE_ID,
        semconv.GROVE_OUTCOME,
    ) == {
        semconv.GEN_AI_OPERATION_NAME: "invoke_agent",
        semconv.GEN_AI_AGENT_ID: watched.harness,
        semconv.GEN_AI_AGENT_NAME: "Desk",
        semconv.GEN_AI_CONVERSATION_ID: response["metadata"]["session_id"],
        semconv.GEN_AI_REQUEST_MODEL: response["model"],
        semconv.GROVE_RESPONSE_ID: response["id"],
        semconv.GROVE_OUTCOME: "completed",
    }
    assert agent.attributes[semconv.GEN_AI_PROVIDER_NAME]
    assert [span.name for span in trace.named(semconv.CHAT)] == [f"chat {response['model']}"] * 2
    tool = trace.one(semconv.EXECUTE_TOOL)
    (call,) = [item for item in response["output"] if item["type"] == "function_call"]
    assert tool.name == f"execute_tool {call['name']}" == "execute_tool memory_recall"
    assert attributes(tool, semconv.GEN_AI_TOOL_NAME, semconv.GEN_AI_TOOL_CALL_ID) == {
        semconv.GEN_AI_TOOL_NAME: "memory_recall",
        semconv.GEN_AI_TOOL_CALL_ID: call["call_id"],
    }
    for span in (*trace.named(semconv.CHAT), tool):
        assert agent in trace.above(span)
    # Nobody counted tokens: none are claimed.
    assert semconv.GEN_AI_USAGE_INPUT_TOKENS not in agent.attributes
    assert trace.one("queue wait").attributes[semconv.GROVE_RESPONSE_ID] == response["id"]


@pytest.mark.parametrize(
    ("tool", "memory_call", "provider_call"),
    [
        ("memory_recall", "memory.v1.Records/Recall", "provider.v1.Provider/Recall"),
        ("memory_remember", "memory.v1.Records/Remember", "provider.v1.Provider/Remember"),
    ],
)
def test_a_tool_call_is_followed_over_mcp_into_the_database(
    watched: Watched, tool: str, memory_call: str, provider_call: str
):
    trace = (watched.recalled if tool == "memory_recall" else watched.remembered).trace
    executed = trace.one(semconv.EXECUTE_TOOL)
    assert executed.name == f"execute_tool {tool}"
    (mcp,) = [
        span for span in trace.below(executed) if span.kind == "server" and span.name == f"tools/call {tool}"
    ]
    assert mcp.attributes[semconv.MCP_METHOD_NAME] == "tools/call"
    assert mcp.attributes[semconv.GEN_AI_TOOL_NAME] == tool
    (kept,) = [
        span for span in trace.named(RPC + provider_call, service="provider") if mcp in trace.above(span)
    ]
    way = path(trace, kept)
    places = [
        way.index(f"runner execute_tool {tool}"),
        way.index(f"memory {RPC}{memory_call}"),
        way.index(f"provider {RPC}{provider_call}"),
    ]
    assert places == sorted(places)
    statements = [span for span in trace.children(kept) if semconv.DB_SYSTEM_NAME in span.attributes]
    assert statements
    decisions = [
        span
        for span in trace.named(f"{RPC}authz.v1.Access/Check", service="authz")
        if mcp in trace.above(span)
    ]
    assert decisions


def test_every_call_names_itself_and_how_it_went(watched: Watched):
    for span in watched.remembered.trace.spans:
        if not span.name.startswith(RPC):
            continue
        assert span.kind in ("client", "server")
        assert span.attributes[semconv.RPC_SYSTEM_NAME] == "grpc"
        assert span.attributes[semconv.RPC_METHOD] == span.name
        assert span.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == "OK", span
        if span.kind == "server":
            (caller,) = watched.remembered.trace.above(span)[:1]
            assert (caller.kind, caller.name) == ("client", span.name)
            assert caller.service != span.service


def test_every_store_that_took_part_shows_its_statements(watched: Watched):
    statements = [
        span
        for span in watched.remembered.trace.spans
        if span.attributes.get(semconv.DB_SYSTEM_NAME) == "postgresql"
    ]
    assert {span.service for span in statements} == SERVICES - {"gateway"}
    for span in statements:
        assert span.kind == "client"
        assert span.attributes[semconv.DB_NAMESPACE] == span.service
        assert span.name == span.attributes[semconv.DB_QUERY_SUMMARY]
        assert str(span.attributes[semconv.DB_OPERATION_NAME]) == span.name.split()[0]


def test_the_work_a_turn_leaves_behind_is_in_its_trace(watched: Watched):
    trace = watched.remembered.trace
    observe = trace.one("process runner.observe")
    derive = trace.one("process provider.derive")
    agent = trace.one(semconv.INVOKE_AGENT)
    assert agent in trace.above(observe)
    assert observe in trace.above(derive)
    for job, queue in ((observe, "runner.observe"), (derive, "provider.derive")):
        (sent,) = trace.named(f"send {queue}")
        assert (sent.kind, job.kind) == ("producer", "consumer")
        assert job.parent == sent.id
        assert job.links == ((trace.id, sent.id),)
        assert job.attributes[semconv.MESSAGING_SYSTEM] == "procrastinate"
        assert job.attributes[semconv.MESSAGING_DESTINATION_NAME] == queue
    assert [span for span in trace.children(derive) if span.name.startswith("INSERT")]


def test_a_turn_that_went_well_shows_no_failure(watched: Watched):
    for turn in (watched.recalled, watched.remembered):
        assert [f"{span.service} {span.name}" for span in turn.trace.spans if span.failed] == []


def test_every_span_of_ours_is_written_in_one_schema(watched: Watched):
    for span in watched.remembered.trace.spans:
        ours = span.name.startswith(RPC) or semconv.DB_SYSTEM_NAME in span.attributes
        if ours or span.name.split()[0] in (semconv.INVOKE_AGENT, semconv.CHAT, semconv.EXECUTE_TOOL):
            assert span.schema_url == semconv.SCHEMA_URL
        assert span.resource[semconv.SERVICE_NAMESPACE] == "grovekeeper"
        assert span.end >= span.start


def test_no_span_says_what_anybody_said(watched: Watched):
    # What the turns were made of is found in what was said to the agent, so it would be found here.
    assert CONTENT.search(ASKED)
    assert CONTENT.search(KNOWN)
    assert CONTENT.search(STATED)
    told = [
        f"{span.service} {span.name}: {text}"
        for trace in watched.received.traces()
        for span, text in trace.said()
        if CONTENT.search(text) or watched.alice.token in text or watched.stack.admin_token in text
    ]
    assert not told


def test_no_log_says_what_anybody_said(watched: Watched):
    for service in SERVICES:
        assert not CONTENT.search(watched.stack.log(service)), service


def test_a_callers_own_trace_is_continued(watched: Watched):
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    asked = {"traceparent": traceparent(trace, span)}
    streamed = watched.alice.stream("Reply with exactly: ok", watched.harness, headers=asked)
    assert trace_id(streamed) == trace
    found = watched.received.wait(
        trace,
        lambda seen: bool(seen.named("POST /v1/responses")) and not seen.orphans(span),
        "the request under the caller's span",
    )
    (root,) = found.named("POST /v1/responses")
    assert root.parent == span
    assert not found.roots


@pytest.mark.requirement("SU-requests-10")
def test_an_error_names_its_trace(watched: Watched):
    trace = secrets.token_hex(16)
    answer = watched.alice.send(
        "GET",
        "/v1/memories/hmem_" + "0" * 32,
        headers={"traceparent": traceparent(trace, secrets.token_hex(8))},
    )
    assert answer.status_code == 404
    assert answer.json()["error"]["detail"]["trace_id"] == trace
    assert answer.headers["traceparent"].split("-")[1] == trace
    found = watched.received.wait(
        trace,
        lambda seen: bool(seen.named("GET /v1/memories/{memory_id}")),
        "the refused request",
    )
    (server,) = found.named("GET /v1/memories/{memory_id}")
    assert server.attributes[semconv.GROVE_ERROR_CODE] == "memory_not_found"
    assert server.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 404
    assert not server.failed


def test_each_request_is_a_trace_of_its_own(watched: Watched):
    found: list[str] = []
    for _ in range(2):
        with pytest.raises(Refused) as refusal:
            watched.alice.get("/v1/responses/resp_unknown")
        found.append(refusal.value.error["detail"]["trace_id"])
    assert found[0] != found[1]
    assert all(re.fullmatch(r"(?!0{32})[0-9a-f]{32}", one) for one in found)


def test_nothing_but_requests_and_clocks_begins_a_trace(watched: Watched):
    begun = {span.name for trace in watched.received.traces() for span in trace.roots}
    clocks = {name for name in begun if name.startswith("process ")}
    requests = {name for name in begun if re.match(r"(GET|POST|PUT|PATCH|DELETE) /v1/", name)}
    # Before it serves, a service writes to the object store and deletes what it wrote.
    assert begun == clocks | requests | {"put object", "delete object"}
    assert clocks <= {
        "process memory.consolidate",
        "process memory.reconcile",
        "process memory.uploads",
        "process provider.embed",
        "process provider.files",
        "process provider.tidy",
    }


def test_every_process_pushes_its_metrics_too(watched: Watched):
    def complete() -> bool:
        return watched.received.metrics().keys() >= SERVICES

    assert watched.received.wait_for(complete), watched.received.metrics()
    sent = watched.received.metrics()
    assert semconv.HTTP_SERVER_REQUEST_DURATION in sent["gateway"]
    assert semconv.GROVE_TURN_DURATION in sent["runner"]
    for service in SERVICES - {"gateway"}:
        assert semconv.RPC_SERVER_CALL_DURATION in sent[service]
        assert semconv.DB_CLIENT_OPERATION_DURATION in sent[service]
