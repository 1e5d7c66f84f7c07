import asyncio
import json
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.api.runner_service.cluster import Memories, Runner
from tests.api.runner_service.test_memory import attach, entry
from tests.fixtures.model_stub import Answer, ModelStub

SECRET = "the vault opens at dawn"


def id_of(span: ReadableSpan | trace.Span) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


async def until(spans: InMemorySpanExporter, name: str) -> Sequence[ReadableSpan]:
    """Everything so far, once a span of that name has ended."""
    async with asyncio.timeout(20):
        while True:
            found = spans.get_finished_spans()
            if any(one.name == name for one in found):
                return found
            await asyncio.sleep(0.05)


async def test_a_turn_is_one_trace_from_the_request_to_what_was_observed(
    product: tuple[Runner, Memories], stub: ModelStub, spans: InMemorySpanExporter
) -> None:
    runner, memories = product
    team = await memories.create("Team")
    harness = await runner.harness(name="Desk", base="loop")
    await attach(runner, harness.id, entry(team, "write", default=True))
    call = ("memory_remember", json.dumps({"content": SECRET}))
    stub.say(Answer(calls=[call]), Answer(f"I know that {SECRET}."))
    spans.clear()
    with trace.get_tracer(__name__).start_as_current_span("the request") as request:
        made = await runner.create(f"Remember that {SECRET}", harness_id=harness.id)
    await runner.events(made.id)
    found = await until(spans, "process runner.observe")
    here = request.get_span_context().trace_id
    ours = [one for one in found if one.context is not None and one.context.trace_id == here]
    by_id = {id_of(one): one for one in ours}

    def named(name: str) -> ReadableSpan:
        return next(one for one in ours if one.name == name)

    def within(span: ReadableSpan, ancestor: ReadableSpan) -> bool:
        while span.parent is not None and span.parent.span_id in by_id:
            span = by_id[span.parent.span_id]
            if span is ancestor:
                return True
        return False

    accepted = named("grovekeeper.runner.v1.Responses/CreateResponse")
    turn = named("invoke_agent Desk")
    assert accepted.parent is not None
    assert named("queue wait").parent == turn.parent
    assert {one.name for one in ours if within(one, turn)} >= {
        "chat stub-1",
        "execute_tool memory_remember",
        "tools/call memory_remember",
        "grovekeeper.authz.v1.Tokens/MintHarnessPassport",
        "grovekeeper.memory.v1.Memories/Prime",
        "grovekeeper.memory.v1.Records/Remember",
        "grovekeeper.provider.v1.Provider/Remember",
    }
    served = [one for one in ours if one.name == "tools/call memory_remember"]
    assert any(within(one, named("execute_tool memory_remember")) for one in served)
    remembered = [one for one in ours if one.name == "grovekeeper.memory.v1.Records/Remember"]
    assert all(any(within(one, tool) for tool in served) for one in remembered)
    assert within(named("grovekeeper.memory.v1.Records/Observe"), named("process runner.observe"))
    attributes = dict(turn.attributes or {})
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.conversation.id"] == made.session_id
    assert attributes["gen_ai.usage.output_tokens"] == 14
    said = " ".join(f"{one.name} {dict(one.attributes or {})}" for one in found)
    assert SECRET not in said
    assert "sk-of-the-endpoint" not in said
