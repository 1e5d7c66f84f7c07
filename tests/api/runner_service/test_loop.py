import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from protos.runner.v1 import runner_pb2 as wire
from tests.api.runner_service.cluster import Keys, Runner, runner, runner_settings
from tests.fixtures.model_stub import Answer, ModelStub
from tests.unit.runner_service.test_composer import check_rules

Json = dict[str, Any]


def said(final: Json) -> str:
    return "".join(
        part["text"] for item in final["output"] if item["type"] == "message" for part in item["content"]
    )


@pytest.mark.requirement("SU-tasks-05")
async def test_a_models_answer_is_streamed_and_its_usage_counted(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer("The answer is forty-two.", usage=(120, 9)))
    made = await looped.create("What is it?")
    events = await looped.events(made.id)
    check_rules(events)
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert len(deltas) > 2
    assert "".join(deltas) == "The answer is forty-two."
    final = events[-1]["response"]
    assert final["model"] == "stub-1"
    assert final["usage"] == {"input_tokens": 120, "output_tokens": 9, "total_tokens": 129}
    assert stub.keys[-1] == "Bearer sk-secret-of-the-endpoint"


async def test_an_endpoint_that_does_not_count_leaves_usage_null(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer("Hello.", usage=None))
    assert (await looped.run("hi"))["usage"] is None


async def test_reasoning_is_an_item_of_its_own(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer("Yes.", reasoning="They want a yes."))
    made = await looped.create("hi")
    events = await looped.events(made.id)
    check_rules(events)
    reasoning, message = events[-1]["response"]["output"]
    assert (reasoning["type"], reasoning["summary"][0]["text"]) == ("reasoning", "They want a yes.")
    assert message["type"] == "message"


async def test_a_conversation_is_given_to_the_model(looped: Runner, stub: ModelStub) -> None:
    harness = await looped.harness(base="loop", system_prompt="You are kind.")
    stub.say(Answer("First answer."))
    first = await looped.run("First question", harness_id=harness.id)
    stub.say(Answer("Second answer."))
    asked = [
        {"role": "developer", "content": "Say it in one word."},
        {"role": "user", "content": [{"type": "input_text", "text": "Second question"}]},
    ]
    await looped.run(asked, previous_response_id=first["id"], instructions="Be brief.")
    messages = [(one["role"], one["content"]) for one in stub.requests[0]["messages"]]
    assert messages == [
        ("system", "You are kind.\n\nBe brief."),
        ("user", "First question"),
        ("assistant", "First answer."),
        ("system", "Say it in one word."),
        ("user", "Second question"),
    ]


async def test_what_was_kept_of_a_cancelled_turn_is_part_of_the_conversation(
    looped: Runner, stub: ModelStub
) -> None:
    stub.say(Answer("I was about to", hold=asyncio.Event()))
    made = await looped.create("First")
    async for event in looped.follow(made.id):
        if event["type"] == "response.output_text.delta":
            break
    assert (await looped.cancel(made.id))["status"] == "cancelled"
    stub.say(Answer("Go on."))
    await looped.run("Second", previous_response_id=made.id)
    assert [one["content"] for one in stub.requests[0]["messages"]] == ["First", "I was ", "Second"]


async def test_a_cancel_stops_a_model_in_the_middle_of_a_word(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer("This will never end", hold=asyncio.Event()))
    made = await looped.create("hi")
    async for event in looped.follow(made.id):
        if event["type"] == "response.output_text.delta":
            break
    began = time.monotonic()
    answer = await looped.cancel(made.id)
    assert time.monotonic() - began < 1.0
    assert answer["status"] == "cancelled"
    assert said(answer) == "This w"


async def test_the_token_budget_reaches_the_model_and_ends_incomplete(
    looped: Runner, stub: ModelStub
) -> None:
    stub.say(Answer("cut o", finish="length", usage=(5, 5)))
    final = await looped.run("hi", max_output_tokens=5)
    assert stub.requests[0]["max_tokens"] == 5
    assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert said(final) == "cut o"
    assert final["usage"]["output_tokens"] == 5


async def test_the_step_budget_ends_incomplete(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer(calls=[("nothing", "{}")], usage=(5, 5)))
    final = await looped.run("hi", max_step=2)
    assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": "max_step"})
    assert len(stub.requests) == 2
    assert [item["type"] for item in final["output"]] == ["function_call", "function_call_output"] * 2
    assert final["usage"]["input_tokens"] == 10


async def test_a_tool_that_is_not_there_is_an_error_the_model_reads(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer(calls=[("memory_recall", '{"query":"x"}')]), Answer("I cannot."))
    final = await looped.run("hi")
    assert final["status"] == "completed"
    assert "memory_recall" in final["output"][1]["output"]
    assert said(final) == "I cannot."


@pytest.mark.parametrize(
    "arguments", ['{"b": 1.10, "a":  12345678901234567890123, "e": 1e400, "a":2}', '{"query": "cut o', "[1]"]
)
async def test_a_calls_arguments_are_shown_as_the_model_wrote_them(
    looped: Runner, stub: ModelStub, arguments: str
) -> None:
    stub.say(Answer(calls=[("memory_recall", arguments)]), Answer("I cannot."))
    events = await looped.events((await looped.create("hi")).id)
    deltas = [one["delta"] for one in events if one["type"] == "response.function_call_arguments.delta"]
    assert "".join(deltas) == arguments
    assert events[-1]["response"]["output"][0]["arguments"] == arguments


@pytest.mark.requirement("SU-errors-11", "SU-tasks-04")
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(status=401), "did not accept the server's credential (status 401, nothing)"),
        (Answer(status=404), "does not know this model (status 404, nothing)"),
        (Answer(status=400), "rejected the request (status 400, nothing)"),
        (
            Answer(status=400, error={"error": {"message": "key sk-secret-of-the-endpoint at http://host/"}}),
            "(status 400)",
        ),
    ],
)
async def test_a_failing_endpoint_fails_the_turn_with_a_true_reason(
    looped: Runner, stub: ModelStub, answer: Answer, sentence: str
) -> None:
    stub.say(answer)
    made = await looped.create("hi")
    events = await looped.events(made.id)
    check_rules(events)
    final = events[-1]["response"]
    assert (final["status"], final["error"]["code"]) == ("failed", "provider_error")
    assert (final["error"]["type"], final["error"]["param"]) == ("harness_error", None)
    assert sentence in final["error"]["message"]
    assert "sk-secret" not in json.dumps(events)
    assert "http" not in final["error"]["message"]


async def test_an_answer_that_breaks_off_fails_and_is_kept(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer("Half of", broken=True))
    final = await looped.run("hi")
    assert (final["status"], final["error"]["code"]) == ("failed", "provider_error")
    assert said(final) == "Half of"
    assert final["output"][0]["status"] == "incomplete"


async def test_an_empty_answer_is_not_called_complete(looped: Runner, stub: ModelStub) -> None:
    stub.say(Answer(""))
    final = await looped.run("hi")
    assert final["status"] == "failed"
    assert final["error"]["code"] in ("provider_error", "harness_error")


async def test_an_endpoint_that_is_away_fails_the_turn_and_says_so_in_its_models(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    settings = runner_settings(
        service_database("runner"),
        clean_redis,
        keys,
        model_base_url="http://127.0.0.1:9/v1",
        model_name="far-1",
    )

    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            backends = (await made.harnesses.ListModels(wire.ListModelsRequest())).backends
            (loop,) = [one for one in backends if one.name == "loop"]
            assert [(one.id, one.available) for one in loop.models] == [("far-1", False)]
            final = await made.run("hi")
            assert final["error"]["code"] == "provider_error"
            assert "could not be reached" in final["error"]["message"]


async def test_the_endpoints_key_is_written_nowhere(
    looped: Runner,
    stub: ModelStub,
    service_database: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        stub.say(Answer("Hello."))
        await looped.run("hi")
        stub.say(Answer(status=401, error={"error": {"message": "bad key sk-secret-of-the-endpoint"}}))
        await looped.run("hi")
    with psycopg.connect(service_database("runner"), autocommit=True) as connection:
        (kept,) = connection.execute(
            "select coalesce((select string_agg(convert_from(json, 'utf8'), '') from event), '')"
            " || coalesce((select string_agg(response::text || convert_from(final, 'utf8'), '') from response), '')"
        ).fetchone() or ("",)
    assert "Hello." in kept
    assert "sk-secret" not in kept
    assert "sk-secret" not in caplog.text
