"""Extension types: registering them, their schemas, their projections and their operations (Memories, section 8)."""

import json
import uuid
from collections.abc import Generator

import pytest

from tests.e2e.caller import Caller, Json
from tests.e2e.people import Person, envelope
from tests.fixtures.stack import Stack

DEAL: Json = {
    "description": "A deal and how far it is.",
    "schema": {
        "type": "object",
        "properties": {"title": {"type": "string"}, "price": {"type": "number"}, "stage": {"type": "string"}},
        "required": ["title"],
    },
    "text": "title and stage as one line",
    "projection": ["attributes.title", "attributes.stage", "attributes.terms.notes"],
    "operations": [
        {
            "name": "offer",
            "description": "Offer a price.",
            "input": {
                "type": "object",
                "properties": {"price": {"type": "number"}},
                "required": ["price"],
            },
            "definition": {
                "set": {
                    "attributes.price": {"input": "price"},
                    "attributes.stage": {"const": "offered"},
                    "attributes.terms.offered_at": {"now": True},
                }
            },
        }
    ],
}


@pytest.fixture
def admin(stack: Stack) -> Generator[Caller]:
    with Caller(stack.url, stack.admin_token) as caller:
        yield caller


@pytest.fixture
def deal(admin: Caller) -> Generator[str]:
    """A registered type of the test's own."""
    name = f"x.deal.{uuid.uuid4().hex}"
    admin.put(f"/v1/grovekeeper/types/{name}", DEAL)
    yield name
    admin.send("DELETE", f"/v1/grovekeeper/types/{name}")


def remember(who: Person, memory: str, kind: str, attributes: Json) -> Json:
    return who.post(f"/v1/memories/{memory}/records", {"type": kind, "attributes": attributes})


def path_of(record: Json) -> str:
    return f"/v1/memories/{record['memory_id']}/records/{record['id']}"


def found(who: Person, memory: str, **asked: object) -> list[str]:
    results = who.post(f"/v1/memories/{memory}/recall", asked)["results"]
    return [one["record"]["id"] for one in results]


@pytest.mark.requirement("ME-4.1-01", "ME-8-01", "ME-8-07")
def test_every_type_is_listed_with_where_it_comes_from(alice: Person, deal: str):
    listed = {one["type"]: one for one in alice.get("/v1/memories/types")["data"]}
    assert list(listed)[:5] == ["episode", "fact", "note", "procedure", "link"]
    assert {one: listed[one]["source"] for one in ("fact", "x.task", "x.calendar.event", deal)} == {
        "fact": "core",
        "x.task": "provider",
        "x.calendar.event": "provider",
        deal: "api",
    }
    assert [one["name"] for one in listed["x.calendar.event"]["operations"]] == ["reschedule", "free_slots"]
    assert {name: listed[deal][name] for name in ("description", "schema", "text")} == {
        name: DEAL[name] for name in ("description", "schema", "text")
    }
    assert listed["fact"]["description"]
    assert listed["fact"]["text"] == "the content"
    native = next(one for one in alice.get("/v1/memories/providers")["data"] if one["id"] == "native")
    assert native["types"] is True


def test_a_schema_is_kept_byte_for_byte(admin: Caller, deal: str):
    raw = b'{ "schema": {"type":"object", "properties": {"n": {"maximum": 1.10}} }, "projection": [] }'
    answer = admin.http.put(f"/v1/grovekeeper/types/{deal}", content=raw)
    assert answer.status_code == 200
    kept = b'"schema":{"type":"object", "properties": {"n": {"maximum": 1.10}} }'
    assert kept in answer.content
    assert kept in admin.http.get("/v1/memories/types").content


@pytest.mark.requirement("ME-8-09")
def test_a_record_of_a_registered_type_satisfies_its_schema(alice: Person, deal: str):
    memory = alice.plant("Sales")
    path = f"/v1/memories/{memory}/records"
    refused = alice.send("POST", path, {"type": deal, "attributes": {"title": "Acme", "price": "much"}})
    assert (refused.status_code, envelope(refused)["code"]) == (422, "memory_invalid")
    assert envelope(refused)["param"] == "attributes.price"
    assert envelope(alice.send("POST", path, {"type": deal}))["code"] == "memory_invalid"
    record = remember(alice, memory, deal, {"title": "Acme", "price": 1.10, "more": [1]})
    refused = alice.send("PATCH", path_of(record), {"attributes": {"price": 1}})
    assert (refused.status_code, envelope(refused)["param"]) == (422, "attributes")
    assert alice.call("PATCH", path_of(record), {"attributes": {"title": "Acme!"}})["version"] == 2
    assert alice.call("PATCH", path_of(record), {"content": "Only words."})["version"] == 3


def test_a_record_of_an_unknown_type_is_carried_unchanged(alice: Person):
    memory, kind = alice.plant("Sales"), f"x.unknown.{uuid.uuid4().hex}"
    raw = b'{"a": 1.10,  "b":{"big":123456789012345678901234567890}}'
    answer = alice.http.post(
        f"/v1/memories/{memory}/records",
        content=b'{"type":"' + kind.encode() + b'","attributes":' + raw + b"}",
    )
    assert raw in answer.content
    refused = alice.send("POST", f"{path_of(answer.json())}/operations/complete")
    assert (refused.status_code, envelope(refused)["code"]) == (404, "grovekeeper_not_found")


def test_old_records_stay_readable_when_the_schema_changes(admin: Caller, alice: Person, deal: str):
    memory = alice.plant("Sales")
    record = remember(alice, memory, deal, {"title": "Acme"})
    changed = {**DEAL, "schema": {"type": "object", "required": ["account"]}}
    admin.put(f"/v1/grovekeeper/types/{deal}", changed)
    assert alice.get(path_of(record)) == record
    assert alice.get(f"/v1/memories/{memory}/records")["data"] == [record]
    refused = alice.send(
        "POST", f"/v1/memories/{memory}/records", {"type": deal, "attributes": {"title": "B"}}
    )
    assert refused.status_code == 422
    admin.send("DELETE", f"/v1/grovekeeper/types/{deal}")
    assert alice.get(path_of(record)) == record
    assert remember(alice, memory, deal, {"anything": True})["version"] == 1


@pytest.mark.requirement("ME-8-03")
def test_recall_finds_it_by_any_projected_field(alice: Person, deal: str):
    memory = alice.plant("Sales")
    alice.fact(memory, "The office closes at six.")
    record = remember(
        alice,
        memory,
        deal,
        {"title": "Zanzibar cloves", "terms": {"notes": ["prepaid in guilders"]}, "x": "hid"},
    )
    for asked in ({"text": "Zanzibar"}, {"text": "guilders"}, {"query": "cloves from Zanzibar"}):
        assert found(alice, memory, **asked)[0] == record["id"]
    assert found(alice, memory, text="hid") == []
    alice.call("PATCH", path_of(record), {"attributes": {"title": "Madagascar vanilla"}})
    assert found(alice, memory, text="Zanzibar") == []
    assert found(alice, memory, text="vanilla") == [record["id"]]


@pytest.mark.requirement("ME-8-02")
def test_a_record_of_an_extension_type_is_a_record(alice: Person, bob: Person, deal: str):
    memory, other = alice.plant("Sales"), bob.plant("Notes")
    made = remember(alice, memory, deal, {"title": "Acme"})
    path, target = path_of(made), {"memory_id": memory, "record_id": made["id"]}
    note = bob.fact(other, "See the deal.", references=[{"rel": "about", **target}])

    def reference() -> Json:
        (found,) = bob.get(f"/v1/memories/{other}/records/{note}")["references"]
        return found

    assert bob.send("GET", path).status_code == 404
    assert reference() == {**target, "available": False}
    alice.give(memory, bob, "read")
    assert bob.get(path) == made
    assert reference() == {"rel": "about", **target}
    assert envelope(bob.send("PATCH", path, {"attributes": {"title": "Bolt"}}))["code"] == "memory_forbidden"
    assert alice.call("PATCH", path, {"attributes": {"title": "Acme, again"}})["version"] == 2
    history = bob.get(f"{path}/history")["data"]
    assert [(one["version"], one["status"]) for one in history] == [(1, "superseded"), (2, "active")]


@pytest.mark.requirement("ME-8-04")
@pytest.mark.parametrize("revision", ["original", "post3"])
def test_an_operation_is_a_version_and_answers_the_record(alice: Person, deal: str, revision: str):
    memory = alice.plant("Sales")
    body = {"type": deal, "content": "See the mail.", "attributes": {"title": "Acme", "price": 2}}
    record = alice.post(f"/v1/memories/{memory}/records", body)
    headers = {"UHP-Memories-Revision": revision, "If-Match": '"1"'}
    answer = alice.http.post(
        f"{path_of(record)}/operations/offer", content=b'{"price": 1.10}', headers=headers
    )
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert list(made) == ["record"]
    assert b'"price":1.10' in answer.content
    assert (made["record"]["version"], answer.headers["etag"]) == (2, '"2"')
    assert made["record"]["attributes"]["stage"] == "offered"
    assert made["record"]["attributes"]["terms"]["offered_at"].endswith("Z")
    assert isinstance(made["record"]["content"], str if revision == "original" else list)
    assert found(alice, memory, text="offered") == [record["id"]]
    late = alice.send("POST", f"{path_of(record)}/operations/offer", {"price": 3}, {"If-Match": '"1"'})
    assert (late.status_code, envelope(late)["code"]) == (409, "grovekeeper_conflict")
    for odd in ({}, {"price": "x"}):
        refused = alice.send("POST", f"{path_of(record)}/operations/offer", odd)
        assert (refused.status_code, envelope(refused)["code"]) == (422, "memory_invalid")
    assert (
        envelope(alice.send("POST", f"{path_of(record)}/operations/sell", {}))["code"]
        == "grovekeeper_not_found"
    )


@pytest.mark.requirement("ME-5.1-07")
def test_a_repeated_operation_is_done_once(alice: Person, deal: str):
    memory, key = alice.plant("Sales"), {"Idempotency-Key": uuid.uuid4().hex}
    record = remember(alice, memory, deal, {"title": "Acme"})
    path = f"{path_of(record)}/operations/offer"
    first = alice.send("POST", path, {"price": 1}, key)
    assert first.is_success
    assert alice.send("POST", path, {"price": 1}, key).text == first.text
    assert len(alice.get(f"{path_of(record)}/history")["data"]) == 2
    assert alice.send("POST", path, {"price": 2}, key).status_code == 422


def test_a_task_and_a_calendar_without_registering_anything(alice: Person):
    memory = alice.plant("Desk")
    task = remember(alice, memory, "x.task", {"title": "Call Acme", "assignee": "ruth"})
    done = alice.post(f"{path_of(task)}/operations/complete", {})["record"]
    assert done["attributes"]["status"] == "done"
    assert found(alice, memory, text="ruth") == [task["id"]]
    times = {"starts_at": "2026-10-05T09:00:00+02:00", "ends_at": "2026-10-05T10:00:00+02:00"}
    event = remember(alice, memory, "x.calendar.event", {"title": "Sync", **times})
    remember(
        alice,
        memory,
        "x.calendar.event",
        {"title": "Lunch", "starts_at": "2026-10-05T12:00:00+02:00", "ends_at": "2026-10-05T13:00:00+02:00"},
    )
    asked = {"from": "2026-10-05T11:00:00+02:00", "to": "2026-10-05T15:00:00+02:00"}
    free = alice.post(f"{path_of(event)}/operations/free_slots", asked)
    assert free["record"]["version"] == 1
    assert [(one["starts_at"][11:16], one["minutes"]) for one in free["result"]["slots"]] == [
        ("11:00", 60),
        ("13:00", 120),
    ]
    moved = alice.post(
        f"{path_of(event)}/operations/reschedule", {"starts_at": free["result"]["slots"][1]["starts_at"]}
    )
    assert moved["record"]["attributes"]["ends_at"] == "2026-10-05T14:00:00+02:00"


@pytest.mark.requirement("ME-8-05")
def test_an_operation_needs_what_it_requires(alice: Person, bob: Person):
    for privilege, write, read in (
        ("read", 403, 200),
        ("write", 200, 403),
        ("create", 403, 403),
        ("delete", 403, 403),
        (None, 404, 404),
    ):
        memory = alice.plant("Desk")
        event = remember(alice, memory, "x.calendar.event", {"starts_at": "2026-10-05", "title": "Fair"})
        if privilege is not None:
            alice.give(memory, bob, privilege)
        span = {"from": "2026-10-05T11:00:00Z", "to": "2026-10-05T15:00:00Z"}
        moved = bob.send("POST", f"{path_of(event)}/operations/reschedule", {"starts_at": "2026-10-06"})
        slots = bob.send("POST", f"{path_of(event)}/operations/free_slots", span)
        assert (moved.status_code, slots.status_code) == (write, read), privilege
        if privilege == "write":
            assert moved.json()["record"]["attributes"] == {}
            assert "Fair" not in moved.text
        elif privilege in ("create", "delete"):
            nowhere = path_of({**event, "id": f"hrec_{uuid.uuid4().hex}"})
            absent = bob.send("POST", f"{nowhere}/operations/reschedule", {"starts_at": "2026-10-06"})
            assert envelope(absent)["code"] == "memory_forbidden"


def test_a_record_of_another_memory_is_not_operated_on(alice: Person):
    memory, other = alice.plant("Desk"), alice.plant("Other")
    task = remember(alice, memory, "x.task", {"title": "Call Acme"})
    refused = alice.send("POST", f"{path_of({**task, 'memory_id': other})}/operations/complete", {})
    assert (refused.status_code, envelope(refused)["code"]) == (404, "memory_record_not_found")


@pytest.mark.parametrize("name", ["fact", "x.task", "episode"])
def test_what_is_not_registered_here_is_not_replaced_here(admin: Caller, name: str):
    for method in ("PUT", "DELETE"):
        body = DEAL if method == "PUT" else None
        refused = admin.send(method, f"/v1/grovekeeper/types/{name}", body)
        assert (refused.status_code, envelope(refused)["code"]) == (409, "grovekeeper_conflict")


ILL_MADE: list[tuple[Json, str]] = [
    ({"schema": {"type": "nothing"}}, "schema"),
    ({"schema": {"$ref": "https://example.org/x"}}, "schema"),
    ({"projection": ["title"]}, "projection.0"),
    ({"operations": [{"name": "a b", "definition": {"set": {}}}]}, "operations.0.name"),
    ({"operations": [{"name": "a", "definition": {"set": {}}}]}, "operations.0.definition.set"),
    ({"operations": [{"name": "a", "definition": {"do": 1}}]}, "operations.0.definition"),
]


@pytest.mark.parametrize(("body", "param"), ILL_MADE)
def test_a_registration_that_is_not_well_made_is_refused(admin: Caller, body: Json, param: str):
    refused = admin.send("PUT", f"/v1/grovekeeper/types/x.{uuid.uuid4().hex}", body)
    assert (refused.status_code, envelope(refused)["code"]) == (422, "memory_invalid")
    assert envelope(refused)["param"] == param


def test_a_repeated_registration_answers_the_first(admin: Caller, deal: str):
    path, key = f"/v1/grovekeeper/types/{deal}", {"Idempotency-Key": uuid.uuid4().hex}
    first = admin.send("PUT", path, {"description": "One."}, key)
    admin.put(path, {"description": "Two."})
    assert admin.send("PUT", path, {"description": "One."}, key).text == first.text
    listed = {one["type"]: one for one in admin.get("/v1/memories/types")["data"]}
    assert listed[deal]["description"] == "Two."
    gone = {"Idempotency-Key": uuid.uuid4().hex}
    assert admin.send("DELETE", path, None, gone).text == admin.send("DELETE", path, None, gone).text
    assert admin.send("DELETE", path).status_code == 404
    assert json.loads(first.text)["source"] == "api"
