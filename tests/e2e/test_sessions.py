"""Sessions as a client meets them over HTTP: found again, read, shared, and deleted."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest

from tests.e2e.caller import Json
from tests.e2e.hidden import unknown, whole
from tests.e2e.people import Person
from tests.e2e.routes import (
    FEED_ROUTES,
    HARNESS_ROUTES,
    LINK_ROUTES,
    OPEN_ROUTES,
    RESPONSE_ROUTES,
    call,
    shared_session,
)
from tests.e2e.shapes import refusal

CREDENTIAL = re.compile("auth|token|api_?key|secret|password|env|header|credential", re.IGNORECASE)


def keys(value: object) -> Iterator[tuple[str, object]]:
    """Every field at any depth."""
    if isinstance(value, dict):
        for name, inner in cast("Json", value).items():
            yield name, inner
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from keys(inner)


def open_link(person: Person, url: str, accept: str = "application/json") -> httpx.Response:
    """As somebody who has nothing but the link."""
    return httpx.get(person.url + url, headers={"Accept": accept})


@pytest.mark.requirement("SU-sessions-04")
def test_a_client_that_kept_nothing_finds_its_sessions_and_what_was_said(alice: Person, bob: Person):
    harness = alice.harness("Desk")
    asked: Json = {"input": "Reply with exactly: one", "metadata": {"harness_id": harness}}
    first = alice.post("/v1/responses", asked)
    alice.post("/v1/responses", {"input": "Reply with exactly: two", "previous_response_id": first["id"]})
    other = alice.post("/v1/responses", {"input": "Reply with exactly: other"})
    page = alice.get("/v1/sessions?limit=1")
    (newest,) = page["sessions"]
    assert newest["id"] == other["metadata"]["session_id"]
    rest = alice.get(f"/v1/sessions?limit=1&cursor={page['next_cursor']}")
    (session,) = rest["sessions"]
    assert rest["next_cursor"] is None
    assert alice.get(f"/v1/sessions?harness={harness}")["sessions"] == [session]
    assert bob.get(f"/v1/sessions?harness={harness}") == {"sessions": [], "next_cursor": None}
    assert (
        session
        == alice.get(f"/v1/sessions/{session['id']}")
        == {
            "id": first["metadata"]["session_id"],
            "object": "session",
            "harness_id": harness,
            "title": "Reply with exactly: one",
            "status": "completed",
            "created_at": session["created_at"],
            "updated_at": session["updated_at"],
        }
    )
    told = alice.get(f"/v1/sessions/{session['id']}/turns")
    assert [(one["user"], one["assistant"]) for one in told["turns"]] == [
        ("Reply with exactly: one", "one"),
        ("Reply with exactly: two", "two"),
    ]
    for one in told["turns"]:
        assert alice.get(f"/v1/responses/{one['id']}")["status"] == one["status"] == "completed"
    refusal(alice.send("GET", "/v1/sessions?cursor=x"), 400, "invalid_input")


@pytest.mark.requirement("SU-sessions-08", "SU-sessions-11")
def test_a_shared_session_is_read_by_whoever_has_the_link_until_it_is_taken_back(alice: Person):
    names = shared_session(alice)
    share = alice.send("POST", f"/v1/sessions/{names['session_id']}/share").json()
    assert share["id"] == names["share_id"]
    assert share == alice.get(f"/v1/sessions/{names['session_id']}/share")
    view = open_link(alice, share["url"])
    assert view.status_code == 200
    assert [(one["user"], one["assistant"]) for one in view.json()["turns"]] == [
        ("Reply with exactly: ok", "ok")
    ]
    assert not [name for name, value in keys(view.json()) if CREDENTIAL.search(name) and value]
    for hidden in (alice.principal, *alice.principal.split(":"), names["session_id"]):
        assert hidden not in view.text
    page = open_link(alice, share["url"], "text/html,*/*;q=0.8")
    assert page.headers["content-type"].startswith("text/html")
    assert "Reply with exactly: ok" in page.text
    assert "<script" not in page.text
    alice.delete(f"/v1/sessions/{names['session_id']}/share")
    unknown = open_link(alice, "/v1/shared/hshare_nothinglikeit")
    taken_back = open_link(alice, share["url"])
    for answer in (unknown, taken_back):
        refusal(answer, 404, "grovekeeper_not_found")
    assert {*unknown.headers} == {*taken_back.headers}
    assert unknown.json()["error"]["message"] == taken_back.json()["error"]["message"]


@pytest.mark.requirement("SU-sessions-11")
def test_a_link_is_a_credential_for_nothing(alice: Person):
    names = shared_session(alice)
    with Person(alice.url, names["share_id"], principal="nobody") as holder:
        known: dict[str, Any] = names | {"harness_id": alice.harness("Desk"), "response_id": "resp_1"}
        for route in (*OPEN_ROUTES, *HARNESS_ROUTES, *RESPONSE_ROUTES):
            if route.path != "/v1/uhp":
                refusal(call(holder, route, known), 401, "invalid_credential")
        assert call(holder, LINK_ROUTES[0], names).status_code == 200


@pytest.mark.requirement("SU-sessions-09", "SU-sessions-11")
def test_a_link_goes_with_its_session_also_by_the_older_name(alice: Person):
    names = shared_session(alice)
    assert open_link(alice, f"/v1/shared/{names['share_id']}").status_code == 200
    assert alice.delete(f"/v1/traces/{names['session_id']}")["deleted"] is True
    refusal(open_link(alice, f"/v1/shared/{names['share_id']}"), 404, "grovekeeper_not_found")
    refusal(alice.send("GET", f"/v1/sessions/{names['session_id']}"), 404, "session_not_found")


@pytest.mark.requirement("SU-streaming-13", "SU-requests-11")
def test_a_harness_is_followed_live_by_its_owner_and_is_unknown_to_others(alice: Person, bob: Person):
    (route,) = FEED_ROUTES
    names = route.world(alice)
    nothing = unknown(names)
    assert whole(call(bob, route, names), names) == whole(call(bob, route, nothing), nothing)
    told: list[Json] = []
    with alice.http.stream("GET", route.at(names)) as feed:
        assert feed.headers["content-type"].startswith("text/event-stream")
        asked: Json = {"input": "Reply with exactly: ok", "metadata": {"harness_id": names["harness_id"]}}
        with Person(alice.url, alice.token) as same:
            made = same.post("/v1/responses", asked)
        for line in feed.iter_lines():
            assert not line.startswith("id:")
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
            if told and told[-1]["type"] == "response.completed":
                break
    assert [one["sequence_number"] for one in told] == list(range(len(told)))
    assert {(one["response_id"], one["session_id"]) for one in told} == {
        (made["id"], made["metadata"]["session_id"])
    }
    assert told[-1]["response"] == made
