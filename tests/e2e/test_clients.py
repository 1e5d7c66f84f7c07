"""Other people's clients, unchanged, in what they do besides running a task (``test_official_clients``):
gathering a stream, continuing in the background, cancelling, repeating a key, being refused."""

from collections.abc import Generator
from typing import Any

import pytest
import uhp as official  # pyright: ignore[reportMissingTypeStubs]
from openai import APIStatusError, OpenAI

from tests.fixtures.stack import Stack

uhp: Any = official  # half typed


@pytest.fixture
def openai(stack: Stack) -> Generator[OpenAI]:
    with OpenAI(base_url=f"{stack.url}/v1", api_key=stack.token(person="olga"), max_retries=0) as client:
        yield client


@pytest.fixture
def client(stack: Stack) -> Any:
    return uhp.connect(stack.url, stack.token(person="uma"))


# -- openai ------------------------------------------------------------------------------------------------


def test_the_openai_sdk_gathers_a_stream(openai: OpenAI) -> None:
    with openai.responses.stream(model="scripted-1", input="Reply with exactly: one two three") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "one two three"


def test_the_openai_sdk_continues_and_cancels(openai: OpenAI) -> None:
    first = openai.responses.create(model="scripted-1", input="Reply with exactly: one")
    running = openai.responses.create(
        model="scripted-1",
        input=[{"role": "user", "content": "Count slowly from 1 to 500, one number per line."}],
        previous_response_id=first.id,
        background=True,
    )
    assert running.status == "in_progress"
    assert running.previous_response_id == first.id
    openai.responses.cancel(running.id)
    assert openai.responses.retrieve(running.id).status == "cancelled"


def test_the_openai_sdk_is_told_what_is_wrong(openai: OpenAI) -> None:
    with pytest.raises(APIStatusError) as refused:
        openai.responses.create(model="gpt-none", input="hi")
    assert refused.value.status_code == 422
    assert refused.value.code == "model_unavailable"


# -- uhp ---------------------------------------------------------------------------------------------------


def test_the_uhp_client_finds_its_way_from_discovery(stack: Stack, client: Any) -> None:
    discovery = uhp.probe(stack.url)
    assert uhp.check_discovery(discovery) == (True, [])
    harness = client.harnesses()[0]
    assert client.harness(harness["id"]) == harness
    assert client.harness_models(harness["id"])["models"][0]["available"] is True
    assert "scripted" in client.models()["backends"]


def test_the_uhp_client_repeats_a_key_and_gets_the_first_answer(client: Any) -> None:
    key = uhp.idempotency_key()
    first = client.run("Reply with exactly: once", key=key)
    assert client.run("Reply with exactly: once", key=key) == first


def test_the_uhp_client_cancels_and_waits(client: Any) -> None:
    started = client.run("Count slowly from 1 to 500, one number per line.", background=True)
    client.cancel(started["id"])
    assert client.wait(started["id"], interval=0.1, timeout=30)["status"] == uhp.TaskStatus.CANCELLED
    assert client.cancel(started["id"])["status"] == uhp.TaskStatus.CANCELLED


def test_the_uhp_client_is_told_what_is_wrong(client: Any) -> None:
    with pytest.raises(uhp.UhpError) as refused:
        client.run("hi", harness_id="chrn_00000000000000000000000000000000")
    assert (refused.value.status, refused.value.code) == (404, "harness_not_found")
    assert not refused.value.retryable
