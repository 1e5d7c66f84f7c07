"""What a client sees on the wire of the whole product: pages, bytes, versions, revisions, streams."""

import json
from collections.abc import Iterator
from typing import cast

import httpx
import pytest

from tests.e2e.caller import Json, Refused
from tests.e2e.people import Person, envelope
from tests.fixtures.stack import Stack

EXACT = (
    '{ "price" : 1.10, "big":123456789012345678901234567890, "huge": 1e400, "b":1,"a":2,'
    ' "text":"é\\u00e9 😀 \\/ \\u0000", "none":null }'
)


@pytest.mark.requirement("ME-5-02")
def test_pages_of_records_lose_and_repeat_nothing(alice: Person):
    memory = alice.plant("Pages")
    written = [alice.fact(memory, f"Fact {number}.") for number in range(7)]
    read: list[str] = []
    cursor = ""
    while True:
        page = alice.get(f"/v1/memories/{memory}/records?limit=3&cursor={cursor}")
        read += [record["id"] for record in page["data"]]
        # What is written while somebody turns pages moves none of those still to come.
        alice.fact(memory, "Late.")
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert read == written[::-1]


@pytest.mark.requirement("ME-2-12")
def test_pages_of_memories_lose_and_repeat_nothing(alice: Person):
    top = alice.plant("Top")
    planted = {alice.plant(f"Child {number}", top) for number in range(7)}
    read: list[str] = []
    for query in (f"parent={top}", f"ancestor={top}"):
        read.clear()
        cursor: str | None = ""
        while cursor is not None:
            page = alice.get(f"/v1/memories?{query}&limit=3&cursor={cursor}")
            read += [one["id"] for one in page["data"]]
            cursor = page["next_cursor"]
        assert (set(read), len(read)) == (planted, 7)


@pytest.mark.requirement("ME-4-04")
def test_attributes_come_back_byte_for_byte_wherever_they_are_read(alice: Person):
    memory = alice.plant("Bytes")
    path = f"/v1/memories/{memory}/records"
    body = f'{{"type":"fact","content":"Penguins swim.","attributes":{EXACT}}}'
    made = alice.http.post(path, content=body.encode())
    record = f"{path}/{made.json()['id']}"
    answers = [
        made,
        alice.http.get(record),
        alice.http.get(path),
        alice.http.get(f"{record}/history"),
        alice.http.patch(record, json={"content": "Penguins swim well."}),
        alice.http.post(f"/v1/memories/{memory}/recall", json={"query": "penguins"}),
        alice.http.delete(record),
    ]
    for answer in answers:
        assert f'"attributes":{EXACT}'.encode() in answer.content, answer.text


def test_a_change_that_expects_another_version_is_a_conflict(alice: Person):
    memory = alice.plant("Versions")
    record = f"/v1/memories/{memory}/records/{alice.fact(memory)}"
    first = alice.send("PATCH", record, {"content": "Second."}, {"If-Match": '"1"'})
    assert (first.status_code, first.headers["etag"]) == (200, '"2"')
    late = alice.send("PATCH", record, {"content": "Lost."}, {"If-Match": '"1"'})
    assert (late.status_code, envelope(late)["code"]) == (409, "grovekeeper_conflict")
    assert alice.send("DELETE", f"{record}?expected_version=1").status_code == 409
    assert alice.get(record)["content"] == "Second."
    assert alice.send("DELETE", record, None, {"If-Match": "2"}).json()["status"] == "forgotten"


@pytest.mark.requirement("SU-revisions-02", "SU-revisions-03")
def test_both_revisions_read_and_write_the_same_records(alice: Person):
    memory, later = alice.plant("Revisions"), {"UHP-Memories-Revision": "post3"}
    parts = [{"type": "text", "text": "Who swims?", "role": "user"}, {"type": "text", "text": "Penguins."}]
    path = f"/v1/memories/{memory}/records"
    made = alice.send("POST", path, {"type": "episode", "content": parts}, later)
    assert (made.json()["content"], made.headers["uhp-memories-revision"]) == (parts, "post3")
    original = alice.get(f"{path}/{made.json()['id']}")
    assert (original["content"], original["parts"]) == ("Who swims?\n\nPenguins.", parts)
    plain = alice.fact(memory, "Owls fly.")
    read = alice.send("GET", f"{path}/{plain}", None, later).json()
    assert read["content"] == [{"type": "text", "text": "Owls fly."}]


@pytest.mark.requirement("ME-6.2-06")
def test_a_recall_looks_at_what_it_was_told_to_and_answers_no_more(alice: Person):
    memory = alice.plant("Owls")
    path = f"/v1/memories/{memory}/records"
    note = alice.post(path, {"type": "note", "content": "Owls fly at night."})
    revised = alice.post(path, {"type": "fact", "content": "Owls fly at noon."})
    alice.call("PATCH", f"{path}/{revised['id']}", {"content": "Owls fly at dusk."})
    gone = alice.fact(memory, "Owls fly backwards.")
    alice.delete(f"{path}/{gone}")
    then = revised["time"]["written_at"]
    for asked, found in (
        ({}, {"Owls fly at night.", "Owls fly at dusk."}),
        ({"types": ["note", "link"]}, {note["content"]}),
        ({"as_of": then}, {"Owls fly at night.", "Owls fly at noon."}),
        ({"include": "superseded"}, {"Owls fly at noon."}),
        ({"include": "forgotten"}, {"Owls fly backwards."}),
        (
            {"include": "all"},
            {"Owls fly at night.", "Owls fly at noon.", "Owls fly at dusk.", "Owls fly backwards."},
        ),
        ({"include": "forgotten", "as_of": then}, set[str]()),
    ):
        assert {*alice.found(memory, "owls", text="owls", **asked)} == found, asked
    assert len(alice.found(memory, "owls", limit=1)) == 1


@pytest.mark.requirement("SU-revisions-05", "SU-revisions-06")
def test_the_later_revision_recalls_below_and_says_where(alice: Person):
    top = alice.plant("Top")
    below = alice.plant("Below", top)
    fact = alice.fact(below, "Owls hunt at night.")
    body: Json = {"query": "When do owls hunt?"}
    path = f"/v1/memories/{top}/recall"
    assert alice.post(path, body)["results"] == []
    later = {"UHP-Memories-Revision": "post3"}
    (found,) = alice.send("POST", path, body, later).json()["results"]
    assert (found["record"]["id"], found["memory"]) == (fact, {"id": below, "name": "Below"})
    assert alice.send("POST", path, {**body, "depth": 0}, later).json()["results"] == []


def numbered(answer: httpx.Response) -> Iterator[tuple[int, Json]]:
    """The events of a stream with the numbers their lines carry."""
    number = -1
    for line in answer.iter_lines():
        if line.startswith("id: "):
            number = int(line.removeprefix("id: "))
        elif line.startswith("data: "):
            yield number, cast("Json", json.loads(line.removeprefix("data: ")))


@pytest.mark.requirement("SU-streaming-09", "SU-streaming-10")
def test_a_dropped_stream_is_taken_up_without_loss_or_repetition(alice: Person):
    body = {"input": "Count slowly from 1 to 12, one number per line.", "stream": True}
    key = {"Idempotency-Key": "drop"}
    seen: list[tuple[int, Json]] = []
    with alice.http.stream("POST", "/v1/responses", json=body, headers=key) as answer:
        for event in numbered(answer):
            seen.append(event)
            if len(seen) == 8:
                break
    response = str(seen[0][1]["response"]["id"])
    resumed = {"Last-Event-ID": str(seen[-1][0])}
    with alice.http.stream("GET", f"/v1/responses/{response}?stream=true", headers=resumed) as answer:
        rest = list(numbered(answer))
    whole = seen + rest
    assert [number for number, _ in whole] == list(range(len(whole)))
    assert [event["sequence_number"] for _, event in whole] == list(range(len(whole)))
    assert whole[-1][1]["type"] == "response.completed"
    with alice.http.stream("POST", "/v1/responses", json=body, headers=key) as answer:
        assert list(numbered(answer)) == whole
    with alice.http.stream("POST", "/v1/responses", json=body, headers={**key, **resumed}) as answer:
        assert list(numbered(answer)) == rest
    assert alice.get(f"/v1/responses/{response}") == whole[-1][1]["response"]


@pytest.mark.requirement("SU-tasks-12")
def test_a_repeated_task_waits_for_the_first_and_answers_the_same(alice: Person):
    body: Json = {"input": "Count slowly from 1 to 5, one number per line.", "background": True}
    started = alice.call("POST", "/v1/responses", body, key="once")
    assert started["status"] == "in_progress"
    again = alice.call("POST", "/v1/responses", body, key="once")
    assert again["id"] == started["id"]
    with pytest.raises(Refused) as refused:
        alice.call("POST", "/v1/responses", {**body, "input": "Something else."}, key="once")
    assert (refused.value.status, refused.value.code) == (422, "grovekeeper_idempotency_mismatch")


@pytest.mark.requirement("SU-tasks-10", "SU-sessions-05", "SU-sessions-07")
def test_cancelling_keeps_what_was_written_and_the_session(alice: Person):
    body: Json = {"input": "Count slowly from 1 to 200, one number per line.", "background": True}
    started = alice.post("/v1/responses", body)
    path = f"/v1/responses/{started['id']}"
    with alice.http.stream("GET", f"{path}?stream=true") as answer:
        events = numbered(answer)
        while next(events)[1]["type"] != "response.output_text.delta":
            pass
        with pytest.raises(Refused) as busy:
            alice.post("/v1/responses", {"input": "Hi.", "previous_response_id": started["id"]})
        assert (busy.value.status, busy.value.code) == (409, "session_busy")
        alice.post(f"/v1/sessions/{started['metadata']['session_id']}/cancel", {})
        *_, (_, last) = events
    assert (last["type"], last["response"]["status"]) == ("response.failed", "cancelled")
    ended = alice.get(path)
    assert ended == last["response"]
    assert ended["output"]
    assert alice.post(f"{path}/cancel", {}) == ended
    following = alice.post(
        "/v1/responses", {"input": "Reply with exactly: two", "previous_response_id": started["id"]}
    )
    assert following["status"] == "completed"
    assert following["metadata"]["session_id"] == started["metadata"]["session_id"]


@pytest.mark.requirement("SU-streaming-11")
def test_a_stream_and_a_read_give_the_same_output(alice: Person):
    waited = alice.post("/v1/responses", {"input": "Reply with exactly: ok"})
    with alice.http.stream(
        "POST", "/v1/responses", json={"input": "Reply with exactly: ok", "stream": True}
    ) as answer:
        *_, (_, last) = numbered(answer)
    said = [
        [part["text"] for item in response["output"] for part in item["content"]]
        for response in (waited, last["response"])
    ]
    assert said == [["ok"], ["ok"]]


@pytest.mark.requirement("SU-requests-06", "SU-requests-07")
@pytest.mark.parametrize("extra", [{}, {"tools": [{"type": "web_search"}], "include": ["x"], "top_k": 3}])
def test_what_a_task_does_not_act_on_is_named_and_only_then(alice: Person, extra: Json):
    made = alice.post("/v1/responses", {"input": "Reply with exactly: ok", **extra})
    assert made["metadata"].get("ignored_fields", []) == list(extra)


def test_requests_are_measured_by_route(stack: Stack, alice: Person):
    alice.get(f"/v1/memories/{alice.plant('Measured')}")
    alice.send("GET", "/v1/nowhere")
    told = httpx.get(f"{stack.ops('gateway')}/metrics").text
    counted = [
        line for line in told.splitlines() if line.startswith("http_server_request_duration_seconds_count")
    ]
    assert any('http_route="/v1/memories/{memory_id}"' in line for line in counted)
    assert any('http_response_status_code="404"' in line for line in counted)
    assert "hmem_" not in told
    assert "nowhere" not in told
