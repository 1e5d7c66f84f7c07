"""Clients we did not write, unchanged: the official one of the protocol, and the SDK whose surface tasks borrow."""

from collections.abc import Generator
from typing import Any

import pytest
import uhp as official  # pyright: ignore[reportMissingTypeStubs]
from openai import APIStatusError, NotFoundError, OpenAI

from tests.e2e.people import Person

uhp: Any = official  # half typed
OK = "Reply with exactly: ok"


@pytest.fixture
def client(alice: Person) -> Any:
    """The protocol's own client, as alice."""
    return uhp.connect(alice.url, alice.token)


@pytest.fixture
def sdk(alice: Person) -> Generator[OpenAI]:
    """The OpenAI SDK pointed at us, as alice."""
    with OpenAI(base_url=f"{alice.url}/v1", api_key=alice.token, max_retries=0) as made:
        yield made


@pytest.mark.requirement("SU-sessions-01")
def test_the_official_client_runs_continues_and_reads_a_task(client: Any, alice: Person):
    harness = alice.harness("Desk")
    first = client.run(OK, harness_id=harness)
    assert (first["status"], uhp.output_text(first)) == ("completed", "ok")
    second = client.continue_(first["id"], "Reply with exactly: two")
    assert second["previous_response_id"] == first["id"]
    assert second["metadata"]["session_id"] == first["metadata"]["session_id"]
    assert client.get_response(second["id"]) == second
    assert client.cancel(second["id"]) == second


def test_the_official_client_follows_a_stream_in_order(client: Any):
    events = list(client.stream(OK))
    assert uhp.check_sequence(events) == (True, [])
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    task = client.collect(OK)
    assert task.status == "completed"


def test_the_official_client_is_told_of_a_failure_in_its_own_terms(client: Any):
    with pytest.raises(uhp.UhpError) as refused:
        client.get_response("resp_unknown")
    assert (refused.value.status, refused.value.code) == (404, "response_not_found")
    assert not refused.value.retryable


def test_the_official_client_finds_its_way_from_discovery(alice: Person, client: Any):
    discovery = uhp.probe(alice.url)
    assert uhp.check_discovery(discovery) == (True, [])
    harness = client.harnesses()[0]
    assert client.harness(harness["id"]) == harness
    assert client.harness_models(harness["id"])["models"][0]["available"] is True
    assert "scripted" in client.models()["backends"]


def test_the_official_client_repeats_a_key_and_gets_the_first_answer(client: Any):
    key = uhp.idempotency_key()
    first = client.run("Reply with exactly: once", key=key)
    assert client.run("Reply with exactly: once", key=key) == first


def test_the_official_client_cancels_and_waits(client: Any):
    started = client.run("Count slowly from 1 to 500, one number per line.", background=True)
    client.cancel(started["id"])
    assert client.wait(started["id"], interval=0.1, timeout=30)["status"] == uhp.TaskStatus.CANCELLED
    assert client.cancel(started["id"])["status"] == uhp.TaskStatus.CANCELLED


def test_the_official_client_is_told_what_is_wrong(client: Any):
    with pytest.raises(uhp.UhpError) as refused:
        client.run("hi", harness_id="chrn_00000000000000000000000000000000")
    assert (refused.value.status, refused.value.code) == (404, "harness_not_found")
    assert not refused.value.retryable


def test_the_sdk_creates_and_retrieves_a_response(sdk: OpenAI):
    made = sdk.responses.create(model="scripted-1", input=OK)
    assert (made.status, made.output_text, made.model) == ("completed", "ok", "scripted-1")
    assert sdk.responses.retrieve(made.id).output_text == "ok"


def test_the_sdk_streams_a_response(sdk: OpenAI):
    text, kinds = "", list[str]()
    with sdk.responses.create(model="scripted-1", input=OK, stream=True) as events:
        for event in events:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
    assert text == "ok"
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


def test_the_sdk_continues_a_conversation_on_a_harness_of_ones_own(sdk: OpenAI, alice: Person):
    harness = alice.harness("Desk")
    first = sdk.responses.create(model="scripted-1", input=OK, metadata={"harness_id": harness})
    second = sdk.responses.create(model="scripted-1", input=OK, previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert (second.metadata or {})["harness_id"] == harness


def test_the_sdk_is_told_of_a_failure_in_its_own_terms(sdk: OpenAI):
    with pytest.raises(NotFoundError) as refused:
        sdk.responses.retrieve("resp_unknown")
    assert refused.value.code == "response_not_found"


def test_the_sdk_gathers_a_stream(sdk: OpenAI):
    with sdk.responses.stream(model="scripted-1", input="Reply with exactly: one two three") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "one two three"


def test_the_sdk_continues_and_cancels(sdk: OpenAI):
    first = sdk.responses.create(model="scripted-1", input="Reply with exactly: one")
    running = sdk.responses.create(
        model="scripted-1",
        input=[{"role": "user", "content": "Count slowly from 1 to 500, one number per line."}],
        previous_response_id=first.id,
        background=True,
    )
    assert running.status == "in_progress"
    assert running.previous_response_id == first.id
    sdk.responses.cancel(running.id)
    assert sdk.responses.retrieve(running.id).status == "cancelled"


def test_the_sdk_is_told_what_is_wrong(sdk: OpenAI):
    with pytest.raises(APIStatusError) as refused:
        sdk.responses.create(model="gpt-none", input="hi")
    assert refused.value.status_code == 422
    assert refused.value.code == "model_unavailable"
