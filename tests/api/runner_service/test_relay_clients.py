"""The relay with real clients, slow readers and endpoints that send elsewhere, and what of it is seen in traces."""

import asyncio
import logging
from typing import Any

import httpx
import openai
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from runner_service.domain.model import Failure, Usage
from runner_service.relay.server import RelayServer
from tests.api.runner_service.relaying import KEY, KINDS, PATHS, asking, opened, post
from tests.fixtures.model_stub import Answer, ModelStub, model_stub

SECRET = "the vault opens at dawn"


async def test_openais_client_streams_a_response(relay: RelayServer, stub: ModelStub) -> None:
    stub.say(Answer("Hello, world.", calls=[("look", '{"for":"it"}')], reasoning="Hm.", usage=(5, 6)))
    async with opened(relay) as access:
        client = openai.AsyncOpenAI(base_url=access.url("responses"), api_key=access.token, max_retries=0)
        async with client, await client.responses.create(model="stub-1", input="Hi", stream=True) as events:
            told = [event async for event in events]
        text = "".join(event.delta for event in told if event.type == "response.output_text.delta")
        assert text == "Hello, world."
        done = told[-1]
        assert done.type == "response.completed"
        assert done.response.usage is not None
        assert [item.type for item in done.response.output] == ["reasoning", "message", "function_call"]
    assert access.usage() == Usage(5, 6)


async def test_openais_client_streams_a_completion_and_lists_models(
    relay: RelayServer, stub: ModelStub
) -> None:
    async with opened(relay) as access:
        client = openai.AsyncOpenAI(base_url=access.url("chat"), api_key=access.token, max_retries=0)
        async with client:
            asked: Any = [{"role": "user", "content": "Hi"}]
            chunks = await client.chat.completions.create(model="stub-1", messages=asked, stream=True)
            said = [chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices]
            assert "".join(said) == "Hello."
            assert [one.id async for one in client.models.list()] == ["stub-1", "stub-2"]
            whole = await client.chat.completions.create(model="stub-1", messages=asked)
            assert whole.choices[0].message.content == "Hello."
    assert access.usage() == Usage(22, 14)


async def test_openais_client_meets_the_errors_it_knows(relay: RelayServer, stub: ModelStub) -> None:
    stub.say(Answer(status=429, headers={"retry-after": "0.01"}), Answer("Hello."))
    async with opened(relay) as access:
        client = openai.AsyncOpenAI(base_url=access.url("responses"), api_key=access.token, max_retries=1)
        answer = await client.responses.create(model="stub-1", input="Hi")
        assert answer.output_text == "Hello."
        assert access.calls().retried == access.calls().rate_limited == 1
    with pytest.raises(openai.AuthenticationError) as refused:
        await client.responses.create(model="stub-1", input="Hi")
    assert refused.value.code == "invalid_api_key"
    await client.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_is_sent_elsewhere(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    async with model_stub() as other, opened(relay) as access:
        place = (other.root if kind == "anthropic" else other.url) + PATHS[kind]
        stub.say(Answer(status=307, headers={"location": place}))
        answer = await post(http, access, kind, asking())
        assert other.requests == []
    assert answer.status_code == 502
    assert "location" not in answer.headers
    assert answer.json()["error"]["message"]
    sentence = "The model's endpoint answered something that cannot be used (status 307)."
    assert access.failure() == Failure("provider_error", sentence)


async def test_whoever_reads_slowly_is_waited_for(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub
) -> None:
    """Nothing piles up between: the endpoint stands still while its reader does."""
    text = "x" * 64 * 1024 * 1024
    stub.say(Answer(text, size=64 * 1024))
    stub.sent = 0
    async with opened(relay) as access:
        headers = {"x-api-key": access.token}
        url = access.url("anthropic") + PATHS["anthropic"]
        async with http.stream("POST", url, content=asking(), headers=headers) as answer:
            pieces = answer.aiter_raw()
            got = len(await anext(pieces))
            before = -1
            while before != stub.sent:
                before = stub.sent
                await asyncio.sleep(0.3)
            assert stub.sent < 24 * 1024 * 1024  # what the system's own buffers hold of four sockets
            async for piece in pieces:
                got += len(piece)
        assert got > len(text)
    assert access.usage() == Usage(11, 7)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_is_a_span_of_its_turn_and_tells_nothing_that_was_said(
    relay: RelayServer,
    http: httpx.AsyncClient,
    stub: ModelStub,
    spans: InMemorySpanExporter,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    words = {"error": {"type": SECRET, "code": SECRET, "message": f"{SECRET} {KEY}"}}
    stub.say(Answer(SECRET, reasoning=SECRET, usage=(3, 4)), Answer(status=500, error=words))
    spans.clear()
    with trace.get_tracer(__name__).start_as_current_span("the turn") as turn:
        async with opened(relay) as access:
            await post(http, access, kind, asking(model="small-1"))
            await post(http, access, kind, asking(model="small-1", stream=False))
    good, bad = (one for one in spans.get_finished_spans() if one.name == "chat small-1")
    for span in (good, bad):
        assert span.parent is not None
        assert span.parent.span_id == turn.get_span_context().span_id
    attributes = dict(good.attributes or {})
    assert attributes["gen_ai.provider.name"] == ("anthropic" if kind == "anthropic" else "openai")
    assert attributes["gen_ai.request.model"] == "small-1"
    assert attributes["gen_ai.response.model"] == "stub-1"
    assert attributes["gen_ai.usage.input_tokens"] == 3
    assert attributes["gen_ai.usage.output_tokens"] == 4
    assert attributes["gen_ai.conversation.id"] == "hsess_1"
    assert dict(bad.attributes or {})["error.type"] == "500"
    assert not bad.status.is_ok
    failure = access.failure()
    assert failure == Failure("provider_error", "The model's endpoint failed (status 500).")
    seen = f"{[one.to_json() for one in spans.get_finished_spans()]}{caplog.text}"
    for hidden in (SECRET, KEY, access.token):
        assert hidden not in seen
