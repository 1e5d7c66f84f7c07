import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from protos.runner.v1 import runner_pb2
from service_kit.errors import GroveError
from tests.api.gateway.backends import ALICE, Events, Script
from tests.api.gateway.conftest import gateway_on
from tests.api.gateway.test_every_request import fault

pytestmark = pytest.mark.asyncio(loop_scope="module")

RESPONSE = "resp_1"
DONE = b'{"id":"resp_1","object":"response","status":"completed","usage":null,"price":1.10}'
ENDED = b'{"type":"response.completed","sequence_number":1,"response":%b}' % DONE


def stands(status: str, json: bytes = b'{"id":"resp_1","status":"in_progress"}') -> runner_pb2.Response:
    return runner_pb2.Response(id=RESPONSE, session_id="hsess_1", status=status, json=json)


@pytest.fixture
def events(script: Script) -> Events:
    """The events of a task that a test adds to; the task is accepted and in progress."""
    script.events[RESPONSE] = Events()
    script.answers["CreateResponse"] = stands("in_progress")
    script.answers["GetResponse"] = stands("in_progress")
    return script.events[RESPONSE]


async def lines_of(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, object]]]:
    """The events of a stream as (id, data); comments are left out."""
    number = ""
    async for line in answer.aiter_lines():
        if line.startswith("id: "):
            number = line.removeprefix("id: ")
        elif line.startswith("data: "):
            yield number, json.loads(line.removeprefix("data: "))


@pytest.mark.requirement("SU-streaming-06")
async def test_a_stream_passes_each_event_on_as_it_comes(alice: httpx.AsyncClient, events: Events):
    body = {"input": "hi", "stream": True}
    async with alice.stream("POST", "/v1/responses", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["uhp-version"] == "2026-10-04"
        assert answer.headers["traceparent"]
        read = lines_of(answer)
        for number, kind in enumerate(("response.created", "response.in_progress", "response.completed")):
            # The next event is only made once the one before has arrived.
            await events.add(kind, terminal=kind == "response.completed")
            assert await anext(read) == (str(number), {"type": kind, "sequence_number": number})
        with pytest.raises(StopAsyncIteration):
            await anext(read)
    await events.until(followers=0)


async def test_events_pass_through_byte_for_byte(alice: httpx.AsyncClient, events: Events):
    raw = '{"type":"response.completed", "n":1e400,\n "text":"é\\n😀"}'.encode()
    await events.add("response.completed", terminal=True, json=raw)
    answer = await alice.post("/v1/responses", json={"input": "hi", "stream": True})
    assert answer.content == b"id: 0\ndata: " + raw.replace(b"\n", b" ") + b"\n\n"


@pytest.mark.requirement("SU-streaming-05")
async def test_a_silent_stream_is_kept_alive_by_comments(alice: httpx.AsyncClient, events: Events):
    async with alice.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as answer:
        chunks = answer.aiter_text()
        assert await anext(chunks) == ": keep-alive\n\n"
        assert await anext(chunks) == ": keep-alive\n\n"
        await events.add("response.completed", terminal=True)
        assert "response.completed" in await anext(chunks)


@pytest.mark.requirement("SU-streaming-09")
async def test_a_client_that_leaves_gives_up_the_call_and_nothing_else(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    async with alice.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as answer:
        await events.add("response.created")
        await anext(lines_of(answer))
        await events.until(followers=1)
    async with asyncio.timeout(5):
        await events.until(followers=0)
    assert "CancelResponse" not in {call.method for call in script.calls}


async def test_a_stream_that_breaks_behind_is_taken_up_again_where_it_was(
    alice: httpx.AsyncClient, events: Events
):
    for kind in ("response.created", "response.in_progress"):
        await events.add(kind)
    events.breaks.append(GroveError("grovekeeper_unavailable", "gone"))
    async with alice.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as answer:
        read = lines_of(answer)
        assert [(await anext(read))[0] for _ in range(2)] == ["0", "1"]
        await events.add("response.completed", terminal=True)
        assert (await anext(read))[0] == "2"
    assert events.follows == [-1, 1]


async def test_a_stream_that_stays_broken_ends_without_its_last_chunk(
    backend: str, script: Script, events: Events
):
    await events.add("response.created")
    events.breaks.append(GroveError("server_error", "broken"))
    headers = {"Authorization": f"Bearer {ALICE}"}
    async with (
        gateway_on(backend) as url,
        httpx.AsyncClient(base_url=url, headers=headers) as client,
        client.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as answer,
    ):
        read = lines_of(answer)
        assert (await anext(read))[0] == "0"
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(read)


async def test_a_response_is_streamed_again_from_any_number(alice: httpx.AsyncClient, events: Events):
    for kind in ("response.created", "response.in_progress"):
        await events.add(kind)
    await events.add("response.completed", terminal=True)

    async def numbers(query: str, **headers: str) -> list[str]:
        async with alice.stream("GET", f"/v1/responses/resp_1?{query}", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            return [number async for number, _ in lines_of(answer)]

    assert await numbers("stream=true") == ["0", "1", "2"]
    assert await numbers("stream=true&starting_after=0") == ["1", "2"]
    assert await numbers("stream=true", **{"Last-Event-ID": "1"}) == ["2"]
    assert await numbers("stream=true&starting_after=0", **{"Last-Event-ID": "1"}) == ["1", "2"]


@pytest.mark.parametrize(
    "stored", [stands("completed", DONE), GroveError("response_not_found", "It was not stored.")]
)
async def test_a_stream_after_the_terminal_event_ends_at_once(
    alice: httpx.AsyncClient, events: Events, script: Script, stored: runner_pb2.Response | GroveError
):
    await events.add("response.completed", terminal=True)
    script.answers["CreateResponse"] = stands("completed", DONE)
    script.answers["GetResponse"] = stored

    async def nothing_more(after: int) -> AsyncIterator[runner_pb2.EventBatch]:
        for batch in ():
            yield batch

    events.follow = nothing_more  # pyright: ignore[reportAttributeAccessIssue]
    headers = {"Idempotency-Key": "k", "Last-Event-ID": "0"}
    answer = await alice.post("/v1/responses", json={"input": "hi", "stream": True}, headers=headers)
    assert answer.status_code == 200
    assert "data:" not in answer.text


async def test_only_a_repeated_request_is_taken_up_in_the_middle(alice: httpx.AsyncClient, events: Events):
    await events.add("response.created")
    await events.add("response.completed", terminal=True)
    body, seen = {"input": "hi", "stream": True}, {"Last-Event-ID": "0"}
    fresh = await alice.post("/v1/responses", json=body, headers=seen)
    again = await alice.post("/v1/responses", json=body, headers={**seen, "Idempotency-Key": "k"})
    assert (fresh.text.count("data:"), again.text.count("data:")) == (2, 1)


@pytest.mark.parametrize("header", ["x", "-1", "1.0", "9" * 30])
async def test_a_last_event_that_is_no_number_is_refused(
    alice: httpx.AsyncClient, events: Events, header: str
):
    answer = await alice.get("/v1/responses/resp_1?stream=true", headers={"Last-Event-ID": header})
    assert fault(answer)["param"] == "Last-Event-ID"


async def test_an_unknown_response_is_404_also_where_a_stream_was_asked(
    alice: httpx.AsyncClient, script: Script
):
    script.answers["GetResponse"] = GroveError("response_not_found", "There is no such response.")
    for query in ("", "?stream=true"):
        assert fault(await alice.get(f"/v1/responses/x{query}"))["code"] == "response_not_found"


async def test_without_a_stream_the_answer_waits_for_the_end(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    asked = asyncio.create_task(alice.post("/v1/responses", json={"input": "hi"}))
    await events.until(followers=1)
    await events.add("response.created")
    assert not asked.done()
    await events.add("response.completed", terminal=True, json=ENDED)
    answer = await asked
    assert answer.status_code == 200
    # Exactly what a stream ends with, and not read again: what is not to be stored is gone by then.
    assert answer.content == DONE
    assert "GetResponse" not in {call.method for call in script.calls}


async def test_a_client_that_does_not_wait_for_the_end_ends_the_waiting_only(
    gateway: str, events: Events, script: Script
):
    async with httpx.AsyncClient(base_url=gateway, headers={"Authorization": f"Bearer {ALICE}"}) as client:
        asked = asyncio.create_task(client.post("/v1/responses", json={"input": "hi"}))
        await events.until(followers=1)
        asked.cancel()
    async with asyncio.timeout(5):
        await events.until(followers=0)
    assert {call.method for call in script.calls} == {"CreateResponse", "FollowResponse"}


async def test_a_task_that_outlives_its_passport_is_answered_all_the_same(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    asked = asyncio.create_task(alice.post("/v1/responses", json={"input": "hi"}))
    await events.until(followers=1)
    await events.add("response.completed", terminal=True, json=ENDED)
    assert (await asked).content == DONE
    # A passport lives a minute and the task may have taken an hour: its end is told to a new one.
    assert script.authentications == 2


async def test_the_end_of_a_task_is_not_told_to_a_credential_that_was_revoked(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    asked = asyncio.create_task(alice.post("/v1/responses", json={"input": "hi"}))
    await events.until(followers=1)
    del script.tokens[ALICE]
    await events.add("response.completed", terminal=True, json=ENDED)
    assert fault(await asked)["code"] == "invalid_credential"


async def test_a_stream_that_outlives_its_passport_is_taken_up_under_a_new_one(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    await events.add("response.created")
    async with alice.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as answer:
        read = lines_of(answer)
        await anext(read)
        events.breaks.append(GroveError("grovekeeper_unavailable", "gone"))
        await events.add("response.in_progress")
        await anext(read)
        await events.add("response.completed", terminal=True)
        assert (await anext(read))[0] == "2"
    assert script.authentications == 2


async def test_a_stream_is_not_taken_up_for_a_credential_that_was_revoked(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    await events.add("response.created")
    async with alice.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as answer:
        read = lines_of(answer)
        await anext(read)
        del script.tokens[ALICE]
        events.breaks.append(GroveError("grovekeeper_unavailable", "gone"))
        await events.add("response.in_progress")
        await anext(read)
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(read)


async def test_a_background_task_answers_at_once(alice: httpx.AsyncClient, events: Events):
    answer = await alice.post("/v1/responses", json={"input": "hi", "background": True})
    assert answer.json()["status"] == "in_progress"
    assert events.follows == []


async def test_a_repeated_request_whose_first_ended_answers_it(alice: httpx.AsyncClient, script: Script):
    script.answers["CreateResponse"] = stands("completed", DONE)
    answer = await alice.post("/v1/responses", json={"input": "hi"}, headers={"Idempotency-Key": "k"})
    assert answer.content == DONE
    assert script.only("CreateResponse").idempotency.key == "k"


async def test_a_task_goes_to_the_runner_as_it_was_sent(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    body = b"""{"input": [ {"role":"user","content":[{"type":"input_text","text":"a","n":1.10}]} ],
        "model": "m", "metadata": {"harness_id": "chrn_1", "memory": "hmem_1", "ticket": 7},
        "previous_response_id": "resp_0", "instructions": "i", "store": false, "max_output_tokens": 5,
        "max_step": 6, "timeout_seconds": 7, "background": true, "tools": [], "temperature": 0.1,
        "include": null}"""
    await alice.post("/v1/responses", content=body)
    sent = script.only("CreateResponse")
    assert sent.input == b'[ {"role":"user","content":[{"type":"input_text","text":"a","n":1.10}]} ]'
    assert (sent.model, sent.harness_id, sent.memory_id) == ("m", "chrn_1", "hmem_1")
    assert (sent.previous_response_id, sent.instructions, sent.store) == ("resp_0", "i", False)
    assert (sent.max_output_tokens, sent.max_step, sent.timeout_seconds) == (5, 6, 7)
    assert sent.background
    assert list(sent.ignored_fields) == ["tools", "temperature", "include", "metadata.ticket"]


async def test_what_a_task_leaves_out_has_its_default(
    alice: httpx.AsyncClient, events: Events, script: Script
):
    await alice.post("/v1/responses", json={"input": "hi", "model": None, "background": True})
    sent = script.only("CreateResponse")
    assert (sent.input, sent.store, sent.model, list(sent.ignored_fields)) == (b'"hi"', True, "", [])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "input"),
        (b'{"input": null}', "input"),
        (b'{"input": 5}', "input"),
        (b'{"input": {"role": "user"}}', "input"),
        (b'{"input": "a", "stream": "yes"}', "stream"),
        (b'{"input": "a", "metadata": []}', "metadata"),
        (b'{"input": "a", "metadata": {"harness_id": 5}}', "metadata.harness_id"),
        (b'{"input": "a", "max_step": -1}', "max_step"),
    ],
)
async def test_a_task_that_cannot_be_read_is_refused(alice: httpx.AsyncClient, body: bytes, param: str):
    error = fault(await alice.post("/v1/responses", content=body))
    assert (error["code"], error["param"]) == ("invalid_input", param)


@pytest.mark.parametrize(
    "code", ["harness_not_found", "harness_mismatch", "session_busy", "model_unavailable", "memory_not_found"]
)
async def test_a_refused_task_is_refused_before_any_stream_begins(
    alice: httpx.AsyncClient, script: Script, code: str
):
    script.answers["CreateResponse"] = GroveError(code, "No.")
    answer = await alice.post("/v1/responses", json={"input": "hi", "stream": True})
    assert fault(answer)["code"] == code


async def test_cancelling_answers_the_response_and_the_session(alice: httpx.AsyncClient, script: Script):
    script.answers["CancelResponse"] = stands("cancelled", b'{"id":"resp_1","status":"cancelled"}')
    script.answers["CancelSession"] = runner_pb2.CancelSessionResponse(id="hsess_1", status="cancelled")
    assert (await alice.post("/v1/responses/resp_1/cancel")).json()["status"] == "cancelled"
    assert (await alice.post("/v1/sessions/hsess_1/cancel", content=b"not json")).json() == {
        "id": "hsess_1",
        "object": "session",
        "status": "cancelled",
    }
