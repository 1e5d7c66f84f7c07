"""The facts by which a server of the class core is known, as any client could check them.

Continuing a session, cancelling what runs and what has ended, taking up a stream and ``ignored_fields``
are held by ``test_clients`` and ``test_wire``, and are not repeated.
"""

import json
import time
import uuid

import httpx
import pytest

from tests.e2e.caller import Json, text_of
from tests.e2e.people import Person
from tests.e2e.shapes import (
    Backends,
    Discovery,
    Event,
    Harness,
    HarnessModels,
    Response,
    ok,
    read,
    refusal,
)
from tests.fixtures.stack import Stack

OK: Json = {"input": "Reply with exactly: ok"}
COUNT: Json = {"input": "Count slowly from 1 to 200, one number per line."}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")
NEEDED = {"core": {"streaming", "sessions", "cancellation"}}
CAPABILITIES = {
    "streaming",
    "sessions",
    "cancellation",
    "files_input",
    "files_output",
    "session_listing",
    "harness_management",
    "session_sharing",
    "idempotency",
    "memories",
    "plugins",
    "environments",
}


# -- discovery, versions, credentials ----------------------------------------------------------------------


@pytest.mark.requirement("AR-2-01", "SU-discovery-01", "SU-discovery-02", "SU-discovery-03")
def test_discovery_needs_no_token_and_says_of_every_capability_whether_it_is_there(stack: Stack):
    answer = httpx.get(f"{stack.url}/v1/uhp")
    known = read(ok(answer), Discovery)
    assert known.default_version in known.versions
    assert answer.headers["uhp-version"] == known.default_version
    assert known.capabilities.keys() == CAPABILITIES
    assert NEEDED[known.conformance_class] <= {name for name, on in known.capabilities.items() if on}


@pytest.mark.requirement("SU-requests-03", "SU-requests-04", "SU-requests-05")
def test_a_version_is_served_as_it_was_asked_for_or_refused(stack: Stack):
    versions = httpx.get(f"{stack.url}/v1/uhp").json()["versions"]
    for version in versions:
        answer = httpx.get(f"{stack.url}/v1/uhp", headers={"UHP-Version": version})
        assert (answer.status_code, answer.headers["uhp-version"]) == (200, version)
    unknown = httpx.get(f"{stack.url}/v1/uhp", headers={"UHP-Version": "1999-01-01"})
    error = refusal(unknown, 400, "unsupported_protocol_version").error
    assert (error.detail or {})["supported"] == versions
    assert unknown.headers["uhp-version"] in versions


@pytest.mark.requirement("AR-5-01", "AR-5-02", "SU-requests-01", "SU-requests-02")
def test_a_credential_that_is_not_there_or_not_ours_is_401(stack: Stack):
    absent = httpx.get(f"{stack.url}/v1/harnesses")
    refusal(absent, 401, "missing_credential")
    for header in ("Bearer not-a-token", "Bearer", "Basic YTpi", f"Bearer {stack.admin_token}x"):
        answer = httpx.get(f"{stack.url}/v1/harnesses", headers={"Authorization": header})
        assert refusal(answer, 401, "invalid_credential").error.type == "authentication_error"


@pytest.mark.requirement("ME-9-12", "SU-requests-09", "SU-errors-03", "SU-tasks-07", "SU-sessions-02")
def test_what_does_not_exist_is_404_under_its_own_code(alice: Person):
    refusal(alice.send("GET", "/v1/harnesses/chrn_nothinglikeit"), 404, "harness_not_found")
    refusal(alice.send("GET", "/v1/responses/resp_nothinglikeit"), 404, "response_not_found")
    refusal(alice.send("POST", "/v1/sessions/hsess_nothinglikeit/cancel"), 404, "session_not_found")
    unknown = {"metadata": {"harness_id": "chrn_nothinglikeit"}}
    error = refusal(alice.send("POST", "/v1/responses", OK | unknown), 404, "harness_not_found").error
    assert error.param == "metadata.harness_id"
    unknown = {"previous_response_id": "resp_nothinglikeit"}
    error = refusal(alice.send("POST", "/v1/responses", OK | unknown), 404, "response_not_found").error
    assert error.param == "previous_response_id"
    for name in ("nothinglikeit", f"hmem_{uuid.uuid4().hex}"):
        answer = alice.send("POST", "/v1/responses", OK | {"metadata": {"memory": name}})
        assert refusal(answer, 404, "memory_not_found").error.param == "metadata.memory"


def test_a_post_is_never_answered_with_another_address(alice: Person):
    for path in ("/v1/responses/", "/v1/harnesses/", "/v1/memories/", "//v1/responses"):
        refusal(alice.send("POST", path, OK), 404, "grovekeeper_not_found")


# -- harnesses and models ----------------------------------------------------------------------------------


@pytest.mark.requirement("SU-tasks-06", "SU-harnesses-01")
def test_somebody_new_has_a_harness_to_run_tasks_on(alice: Person):
    listed = [read(one, Harness) for one in alice.get("/v1/harnesses")["harnesses"]]
    (first,) = listed
    assert read(alice.get(f"/v1/harnesses/{first.id}"), Harness) == first
    task = read(alice.post("/v1/responses", OK), Response)
    assert task.metadata.harness_id == first.id


@pytest.mark.requirement("SU-errors-07", "SU-tasks-08", "SU-harnesses-10")
def test_models_say_whether_they_can_be_had(alice: Person):
    catalogue = read(alice.get("/v1/models"), Backends).backends
    harness = read(alice.get("/v1/harnesses")["harnesses"][0], Harness)
    own = read(alice.get(f"/v1/harnesses/{harness.id}/models"), HarnessModels)
    assert own.harness_id == harness.id
    assert own.models == catalogue[own.backend].models
    assert [model.id for model in own.models if model.available and model.default] == [own.default]
    refused = alice.send("POST", "/v1/responses", OK | {"model": "no-such-model"})
    refusal(refused, 422, "model_unavailable")


@pytest.mark.requirement(
    "AR-1-03", "SU-errors-08", "SU-harnesses-02", "SU-harnesses-03", "SU-harnesses-04", "SU-harnesses-05"
)
def test_a_harness_is_created_updated_and_deleted(alice: Person):
    error = refusal(
        alice.send("POST", "/v1/harnesses", {"name": "x", "base": "nothing-like-it"}), 422, "unsupported_base"
    ).error
    (base, *_) = (error.detail or {})["supported"]
    asked: Json = {
        "name": "Desk",
        "base": base,
        "system_prompt": "Be brief.",
        "disabled_tools": ["memory_forget"],
        "max_step": 7,
        "timeout_seconds": 30,
        "nobody_knows": 1,
    }
    raw = ok(alice.send("POST", "/v1/harnesses", asked))
    made = read(raw, Harness)
    path = f"/v1/harnesses/{made.id}"
    assert (made.name, made.base, made.disabledTools) == ("Desk", base, ["memory_forget"])
    assert (made.systemPrompt, made.maxStep, made.timeoutSeconds) == ("Be brief.", 7, 30)

    # What was read can be written back, as it is spelled on a read and as on a write.
    assert ok(alice.send("PUT", path, raw)) == raw
    assert ok(alice.send("PUT", path, {**asked, "skills": [], "mcp_servers": []})) == raw
    # A configuration is replaced; what identifies a harness is not.
    moved = {"name": "Renamed", "base": "another", "id": "chrn_another", "createdAt": 1}
    renamed = read(ok(alice.send("PUT", path, moved)), Harness)
    assert (renamed.id, renamed.base, renamed.createdAt) == (made.id, made.base, made.createdAt)
    assert (renamed.name, renamed.systemPrompt, renamed.maxStep) == ("Renamed", "", None)
    assert renamed.disabledTools == []

    task = alice.run("Reply with exactly: ok", made.id)
    ok(alice.send("DELETE", path))
    for method, body in (("GET", None), ("PUT", {"name": "x"}), ("DELETE", None)):
        refusal(alice.send(method, path, body), 404, "harness_not_found")
    assert made.id not in {one["id"] for one in alice.get("/v1/harnesses")["harnesses"]}
    assert alice.get(f"/v1/responses/{task['id']}") == task


# -- tasks -------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "AR-2-01", "AR-6-03", "SU-tasks-01", "SU-tasks-02", "SU-tasks-04", "SU-tasks-05", "SU-tasks-11"
)
def test_a_task_ends_in_a_whole_response_that_reads_back(alice: Person):
    answered = ok(alice.send("POST", "/v1/responses", OK))
    response = read(answered, Response)
    assert (response.status, response.error, response.store) == ("completed", None, True)
    assert text_of(answered) == "ok"
    # Nobody counted, and a number is not invented.
    assert response.usage is None
    assert ok(alice.send("GET", f"/v1/responses/{response.id}")) == answered


@pytest.mark.requirement(
    "AR-4-03", "SU-streaming-01", "SU-streaming-02", "SU-streaming-03", "SU-streaming-06", "SU-streaming-07"
)
def test_a_stream_is_valid_event_by_event_and_comes_as_it_happens(alice: Person):
    harness = alice.harness("Desk", {"memory_id": alice.plant("Facts"), "access": "write", "default": True})
    began = time.monotonic()
    with alice.streaming("Remember: Owls fly at night.", harness) as (streamed, events):
        arrived = [time.monotonic() - began for _ in events]
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.headers["cache-control"] == "no-cache"
    told = [read(event, Event) for event in streamed.events]
    assert [event.sequence_number for event in told] == list(range(len(told)))
    assert [event.type for event in told if event.type in TERMINAL] == [told[-1].type]
    first, last = told[0], told[-1]
    assert (first.type, last.type) == ("response.created", "response.completed")
    assert isinstance(first.response, Response)
    assert first.response.status == "in_progress"
    assert isinstance(last.response, Response)
    assert last.response.model == first.response.model
    assert [item.type for item in last.response.output] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    check_items(told, streamed.response["output"], streamed.events)
    # Slow enough, and in enough pieces, for whoever wants to see that nothing waits for the end.
    assert arrived[-1] >= 0.5
    assert arrived[-1] - arrived[0] > 0.05


def check_items(told: list[Event], output: list[Json], events: list[Json]) -> None:
    """For each item: added, then everything about it, then done, whole; and together they are the output."""
    opened, done = set[str](), list[Json]()
    for event, raw in zip(told, events, strict=True):
        match event.type:
            case "response.output_item.added":
                opened.add(raw["item"]["id"])
                assert event.output_index == len(done) + len(opened) - 1
            case "response.output_item.done":
                opened.remove(raw["item"]["id"])
                assert event.output_index == len(done)
                done.append(raw["item"])
            case _ if isinstance(event.item_id, str):
                assert event.item_id in opened
            case _:
                pass
    assert opened == set()
    assert done == output
    for item in output:
        deltas = "".join(
            event["delta"] for event in events if "delta" in event and event["item_id"] == item["id"]
        )
        if item["type"] == "message":
            assert deltas == "".join(part["text"] for part in item["content"])
        if item["type"] == "function_call":
            assert deltas == item["arguments"]


@pytest.mark.requirement("AR-2-01", "SU-tasks-03", "SU-tasks-14", "SU-streaming-04")
def test_a_task_in_the_background_stops_when_it_is_cancelled(alice: Person):
    started = read(ok(alice.send("POST", "/v1/responses", COUNT | {"background": True})), Response)
    assert started.status == "in_progress"
    path = f"/v1/responses/{started.id}"
    with alice.following(started.id, 0) as (_, events):
        while next(events)["type"] != "response.output_text.delta":
            pass
        running = read(alice.get(path), Response)
        assert (running.status, running.usage) == ("in_progress", None)
        asked = time.monotonic()
        read(ok(alice.send("POST", f"{path}/cancel")), Response)
        assert time.monotonic() - asked < 5.0
        *_, last = events
    ended = read(alice.get(path), Response)
    assert (last["type"], ended.status, ended.error) == ("response.failed", "cancelled", None)
    assert ended.output


@pytest.mark.requirement("SU-tasks-09", "SU-tasks-16")
@pytest.mark.parametrize("budget", ["max_output_tokens", "max_step", "timeout_seconds"])
def test_a_budget_that_is_spent_ends_incomplete(alice: Person, budget: str):
    harness = alice.harness("Desk", {"memory_id": alice.plant("Facts"), "access": "write"})
    asked = {"input": "Remember: Owls fly."} if budget == "max_step" else COUNT
    body = {**asked, budget: 1, "metadata": {"harness_id": harness}}
    response = read(ok(alice.send("POST", "/v1/responses", body)), Response)
    assert (response.status, response.error) == ("incomplete", None)
    assert response.incomplete_details == {"reason": budget}


@pytest.mark.requirement("SU-tasks-15")
def test_a_response_that_is_not_to_be_stored_is_answered_once(alice: Person):
    key = {"Idempotency-Key": "once"}
    body: Json = OK | {"store": False}
    answered = ok(alice.send("POST", "/v1/responses", body, key))
    response = read(answered, Response)
    assert (response.status, response.store, text_of(answered)) == ("completed", False, "ok")
    refusal(alice.send("GET", f"/v1/responses/{response.id}"), 404, "response_not_found")
    following = OK | {"previous_response_id": response.id}
    refusal(alice.send("POST", "/v1/responses", following), 404, "response_not_found")
    # Whoever asked is told again, in the one way or the other.
    assert ok(alice.send("POST", "/v1/responses", body, key)) == answered
    with alice.http.stream("POST", "/v1/responses", json=body | {"stream": True}) as streamed:
        told = streamed.read().decode()
    assert told.count('"type":"response.completed"') == 1


@pytest.mark.requirement("SU-streaming-09")
def test_a_task_can_be_streamed_and_in_the_background_at_once(alice: Person):
    body = COUNT | {"stream": True, "background": True}
    with alice.http.stream("POST", "/v1/responses", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = (line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: "))
        first = json.loads(next(lines))
        assert first["type"] == "response.created"
        assert first["response"]["background"]
        while json.loads(next(lines))["type"] != "response.output_text.delta":
            pass
    # The stream is gone; the work goes on.
    path = f"/v1/responses/{first['response']['id']}"
    assert alice.get(path)["status"] == "in_progress"
    alice.post(f"{path}/cancel", {})
    ended = alice.until(lambda: alice.get(path), lambda one: one["status"] != "in_progress")
    assert ended["status"] == "cancelled"


def test_a_null_for_what_may_be_left_out_is_as_good_as_nothing(alice: Person):
    nothing = ("model", "metadata", "stream", "previous_response_id", "instructions", "store", "background")
    body = OK | dict.fromkeys((*nothing, "max_step", "max_output_tokens", "timeout_seconds"))
    answered = ok(alice.send("POST", "/v1/responses", body))
    response = read(answered, Response)
    assert (response.status, response.store, response.previous_response_id) == ("completed", True, None)
    assert "ignored_fields" not in answered["metadata"]
