"""The relay as an agent meets it: an HTTP endpoint and a token, in front of a model's endpoint."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from runner_service.domain.model import Budgets, Failure, ModelCalls, Usage
from runner_service.loopback.server import listening
from runner_service.relay.apis import APIS
from runner_service.relay.server import RelayServer
from runner_service.relay.upstream import Upstream
from tests.api.runner_service.relaying import KEY, KINDS, PATHS, asking, opened, post, upstreams
from tests.fixtures.model_stub import Answer, ModelStub

ANSWER = Answer(
    "Hello, world.", calls=[("look", '{"for":"it"}')], reasoning="Let me see.", usage=(20, 9), cached=3
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_passes_byte_for_byte_and_is_counted(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str, stream: bool
) -> None:
    stub.say(ANSWER)
    direct_url = (stub.root if kind == "anthropic" else stub.url) + PATHS[kind]
    direct = await http.post(direct_url, content=asking(stream=stream))
    stub.say(ANSWER)
    async with opened(relay) as access:
        answer = await post(http, access, kind, asking(stream=stream))
        assert answer.status_code == 200
        assert answer.content == direct.content
        assert answer.headers["content-type"] == direct.headers["content-type"]
        assert stub.bodies == [asking(stream=stream)]
    assert access.usage() == Usage(23, 9)
    assert access.failure() is None
    assert access.calls() == ModelCalls(made=1)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_calls_of_a_turn_are_added_up_and_none_of_another(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    stub.say(Answer("One.", usage=(1, 2)))
    async with opened(relay, "resp_1") as one, opened(relay, "resp_2") as two:
        await asyncio.gather(
            *(post(http, one, kind, asking()) for _ in range(3)),
            *(post(http, two, kind, asking(stream=False)) for _ in range(5)),
        )
    assert one.usage() == Usage(3, 6)
    assert two.usage() == Usage(5, 10)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_an_endpoint_does_not_count_is_not_known(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    stub.say(Answer("One."), Answer("Two.", usage=None))
    async with opened(relay) as access:
        assert access.usage() is None
        await post(http, access, kind, asking())
        assert access.usage() == Usage(11, 7)
        await post(http, access, kind, asking())
    assert access.usage() is None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_is_good_for_its_turn_alone(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    async with opened(relay) as access:
        for name, value in (("authorization", "Bearer gr_guess"), ("x-api-key", KEY), ("x-other", "")):
            url = access.url(kind) + PATHS[kind]
            assert (await http.post(url, content=asking(), headers={name: value})).status_code == 401
        shown = {"x-api-key": access.token}
        assert (await http.post(url, content=asking(), headers=shown)).status_code == 200
    stub.say(Answer("No."))
    late = await post(http, access, kind, asking())
    assert late.status_code == 401
    error = late.json()["error"]
    if kind == "anthropic":
        assert late.json()["type"] == "error"
        assert error["type"] == "authentication_error"
    else:
        assert error["code"] == "invalid_api_key"
    assert stub.requests == []


async def test_the_key_is_the_servers_and_stays_with_it(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stub.say(
        Answer("Hi.", headers={"set-cookie": "a=b", "openai-organization": "org-1", "request-id": "req_1"})
    )
    async with opened(relay) as access:
        for kind in KINDS:
            headers = {
                "Authorization": f"Bearer {access.token}",
                "x-api-key": access.token,
                "Cookie": "a=b",
                "Connection": "keep-alive, x-hop",
                "X-Hop": "1",
                "OpenAI-Organization": "org-of-the-agent",
                "X-Forwarded-For": "10.0.0.1",
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "anthropic-version": "2023-06-01",
                "accept-encoding": "gzip",
            }
            answer = await http.post(access.url(kind) + PATHS[kind], content=asking(), headers=headers)
            assert answer.headers["request-id"] == "req_1"
            assert not {"set-cookie", "openai-organization"} & answer.headers.keys()
            assert KEY not in answer.text + str(answer.headers)
    for kind, sent in zip(KINDS, stub.headers, strict=True):
        assert sent.get("x-api-key" if kind == "anthropic" else "authorization", "").endswith(KEY)
        assert access.token not in str(sent)
        hidden = {"cookie", "x-hop", "openai-organization", "x-forwarded-for", "traceparent"}
        assert not hidden & sent.keys()
        assert ("authorization" in sent) == (kind != "anthropic")
        assert sent["anthropic-version"] == "2023-06-01"
        assert sent["accept-encoding"] == "identity"
    assert KEY not in caplog.text
    assert access.token not in caplog.text
    assert KEY not in repr(access) + repr(upstreams(stub))
    assert access.token not in repr(access)


ELSEWHERE = (
    "/v1/files",
    "/v1/messages/../files",
    "/v1/models/../files",
    "/v1/models/%2e%2e/files",
    "/v1/responses/resp_1",
    "/",
    "//x/",
)


@pytest.mark.parametrize("kind", KINDS)
async def test_no_other_path_is_reached(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    stub.say(Answer("No."))
    async with opened(relay) as access:
        for path in ELSEWHERE:
            url = httpx.URL(access.url(kind)).copy_with(raw_path=f"/relay/{kind}{path}".encode())
            for method in ("POST", "GET", "DELETE"):
                headers = {"x-api-key": access.token}
                answer = await http.request(method, url, headers=headers)
                assert answer.status_code == 404
                assert answer.json()["error"]["message"] == "The relay does not offer this."
    assert stub.headers == []


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_reaches_the_agent_as_it_is_and_its_reason_the_turn(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    words = {
        "error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": f"key {KEY[:5]}…"}
    }
    stub.say(Answer(status=429, error=words, headers={"retry-after": "7"}), Answer("Better."))
    async with opened(relay) as access:
        answer = await post(http, access, kind, asking())
        assert answer.status_code == 429
        assert answer.json() == words
        assert answer.headers["retry-after"] == "7"
        assert access.calls() == ModelCalls(made=1, failed=1, rate_limited=1)
        code = "rate_limit_error" if kind == "anthropic" else "rate_limit_exceeded"
        sentence = (
            f"The model's endpoint refused the request: its rate limit was reached (status 429, {code})."
        )
        assert access.failure() == Failure("provider_error", sentence)
        await post(http, access, kind, asking())
    assert access.calls() == ModelCalls(made=2, failed=1, rate_limited=1, retried=1)
    assert access.failure() is None
    assert access.usage() == Usage(11, 7)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_endpoint_that_is_not_there_is_said_in_the_apis_own_words(
    http: httpx.AsyncClient, kind: str
) -> None:
    gone = RelayServer([Upstream(APIS[kind], "http://127.0.0.1:9/base", KEY)], idle_s=5)
    async with listening("127.0.0.1:0") as loopback, gone.serving(loopback):
        assert gone.kinds() == {kind}
        async with opened(gone) as access:
            answer = await post(http, access, kind, asking())
            other = access.url(kind).replace(f"/relay/{kind}", "/relay/else")
            assert (await http.get(f"{other}/v1/models")).status_code == 404
    assert answer.status_code == 502
    assert "127.0.0.1" not in answer.text
    assert answer.json()["error"]["message"] == "The model's endpoint could not be reached, or broke off."
    assert answer.json().get("type") == ("error" if kind == "anthropic" else None)
    assert access.failure() == Failure(
        "provider_error", "The model's endpoint could not be reached, or broke off."
    )
    assert access.usage() is None


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_breaks_off_breaks_off_for_the_agent_too(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    stub.say(Answer("Hello.", broken=True))
    async with opened(relay) as access:
        with pytest.raises(httpx.RemoteProtocolError):
            await post(http, access, kind, asking())
    assert access.failure() == Failure(
        "provider_error", "The model's endpoint could not be reached, or broke off."
    )
    assert access.usage() is None


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_within_a_stream_is_a_failure(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    stub.say(Answer("Hello.", trouble="overloaded_error"))
    async with opened(relay) as access:
        assert (await post(http, access, kind, asking())).status_code == 200
    failure = access.failure()
    assert failure is not None
    assert failure.message.startswith("The model's endpoint is not available now (")
    assert access.calls().failed == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_an_endpoint_that_falls_silent_is_not_waited_for(
    http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    hasty = RelayServer(upstreams(stub), idle_s=0.2)
    stub.say(Answer("Hello.", hold=asyncio.Event()))
    async with listening("127.0.0.1:0") as loopback, hasty.serving(loopback):
        async with opened(hasty) as access:
            with pytest.raises(httpx.RemoteProtocolError):
                await post(http, access, kind, asking())
        assert access.failure() == Failure("provider_error", "The model's endpoint did not answer in time.")


@pytest.mark.parametrize("kind", KINDS)
async def test_the_end_of_a_turn_cuts_off_its_calls(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    stub.say(Answer("Hello.", hold=asyncio.Event()))
    async with AsyncExitStack() as stack:
        access = await stack.enter_async_context(opened(relay))
        headers = {"x-api-key": access.token}
        url = access.url(kind) + PATHS[kind]
        async with http.stream("POST", url, content=asking(), headers=headers) as answer:
            pieces = answer.aiter_raw()
            await anext(pieces)
            await stack.aclose()
            with pytest.raises(httpx.RemoteProtocolError):
                await asyncio.wait_for(rest(pieces), 2)
        await asyncio.wait_for(stub.left.wait(), 2)
    assert access.usage() is None


async def rest(pieces: AsyncIterator[bytes]) -> int:
    return sum([len(piece) async for piece in pieces])


async def test_nobody_pays_for_what_nobody_reads(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub
) -> None:
    stub.say(Answer("Hello.", hold=asyncio.Event()))
    async with opened(relay) as access:
        headers = {"x-api-key": access.token}
        url = access.url("anthropic") + PATHS["anthropic"]
        async with http.stream("POST", url, content=asking(), headers=headers) as answer:
            async for _ in answer.aiter_raw():
                break
        await asyncio.wait_for(stub.left.wait(), 5)


@pytest.mark.parametrize("kind", KINDS)
async def test_beyond_a_budget_no_call_is_made(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub, kind: str
) -> None:
    async with opened(relay) as access:
        access.limit(Budgets(max_output_tokens=10))
        for _ in range(2):
            assert (await post(http, access, kind, asking())).status_code == 200
        assert access.stopped() == ""
        answer = await post(http, access, kind, asking())
        assert answer.status_code == 400
        assert "max_output_tokens" in answer.json()["error"]["message"]
        assert access.stopped() == "max_output_tokens"
        assert access.failure() is None
        assert len(stub.requests) == 2
    async with opened(relay) as access:
        access.limit(Budgets(max_step=1))
        assert (await post(http, access, kind, asking())).status_code == 200
        assert (await post(http, access, kind, asking())).status_code == 400
        assert access.stopped() == "max_step"


async def test_only_named_models_and_the_turns_own_are_called(
    http: httpx.AsyncClient, stub: ModelStub
) -> None:
    named = RelayServer(upstreams(stub, "stub-2", "stub-3"), idle_s=5)
    async with listening("127.0.0.1:0") as loopback, named.serving(loopback):
        assert named.models("chat") == ("stub-2", "stub-3")
        async with opened(named) as access:
            for kind in KINDS:
                for model, status in (("stub-1", 200), ("stub-3", 200), ("stub-9", 404)):
                    answer = await post(http, access, kind, asking(model=model))
                    assert answer.status_code == status
                headers = {"x-api-key": access.token}
                root = access.url(kind).removesuffix("/v1")
                listed = (await http.get(f"{root}/v1/models", headers=headers)).json()
                assert [one["id"] for one in listed["data"]] == ["stub-2", "stub-3"]
                assert ("has_more" in listed) == (kind == "anthropic")


async def test_what_costs_nothing_passes_uncounted(
    relay: RelayServer, http: httpx.AsyncClient, stub: ModelStub
) -> None:
    async with opened(relay) as access:
        counted = await post(http, access, "anthropic", asking(), "/v1/messages/count_tokens?beta=true")
        assert counted.json() == {"input_tokens": 11}
        headers = {"x-api-key": access.token}
        listed = await http.get(f"{access.url('chat')}/models?limit=2", headers=headers)
        assert [one["id"] for one in listed.json()["data"]] == ["stub-1", "stub-2"]
    assert access.usage() is None
    assert access.calls() == ModelCalls()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"[1]", {}, 400),
        (b'{"model":', {}, 400),
        (b'{"model":"\xff"}', {}, 400),
        (b"{}", {"content-encoding": "gzip"}, 415),
        (b'{"model":"m","x":"' + b"a" * (33 * 1024 * 1024) + b'"}', {}, 413),
    ],
    ids=["a list", "half", "no text", "packed", "too large"],
)
async def test_what_cannot_be_passed_on_is_told(
    relay: RelayServer,
    http: httpx.AsyncClient,
    stub: ModelStub,
    body: bytes,
    headers: dict[str, str],
    status: int,
) -> None:
    stub.say(Answer("No."))
    async with opened(relay) as access:
        shown = {"x-api-key": access.token, **headers}
        answer = await http.post(access.url("anthropic") + "/v1/messages", content=body, headers=shown)
    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert json.loads(answer.content)["error"]["message"]
    assert stub.requests == []
