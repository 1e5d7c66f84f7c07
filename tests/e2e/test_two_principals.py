"""What one principal may not reach of another's looks exactly like what does not exist."""

import json
import re
import uuid
from typing import cast

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person, envelope, said
from tests.e2e.routes import (
    ADMIN_ROUTES,
    HARNESS_ROUTES,
    JOB_ROUTE,
    MEMORY_ROUTES,
    OPEN_ROUTES,
    RESPONSE_ROUTES,
    Names,
    Route,
    call,
)
from tests.fixtures.stack import Stack

EVERY_PRIVILEGE = ("read", "write", "create", "delete")
PREFIX = {
    "memory_id": "hmem_",
    "record_id": "hrec_",
    "grant_id": "hgrt_",
    "job_id": "hjob_",
    "harness_id": "chrn_",
    "response_id": "resp_",
    "session_id": "hsess_",
}
ODD_IDS = ("x", "hmem_", "hmem_" + "0" * 31, "HMEM_" + "0" * 32, "a%0Db", "%F0%9F%98%80", "y" * 2000)


def unknown(names: Names) -> Names:
    """Names of the same kinds that nothing has."""
    return {kind: PREFIX[kind] + uuid.uuid4().hex for kind in names}


def test_the_table_names_every_route_there_is(stack: Stack, alice: Person):
    document = alice.get("/openapi.json")
    there_is = {
        (method.upper(), path) for path, operations in document["paths"].items() for method in operations
    }
    tables = (MEMORY_ROUTES, (JOB_ROUTE,), HARNESS_ROUTES, RESPONSE_ROUTES, OPEN_ROUTES, ADMIN_ROUTES)
    assert {(route.method, route.path) for table in tables for route in table} == there_is


@pytest.mark.parametrize("route", OPEN_ROUTES, ids=str)
def test_a_route_that_names_nothing_answers_everybody(bob: Person, route: Route):
    assert call(bob, route, {}).status_code == 200


@pytest.mark.parametrize("route", [*MEMORY_ROUTES, JOB_ROUTE, *HARNESS_ROUTES, *RESPONSE_ROUTES], ids=str)
def test_what_is_anothers_is_answered_as_what_does_not_exist(alice: Person, bob: Person, route: Route):
    names = route.world(alice)
    refused = said(call(bob, route, names))
    assert refused[0] == 404
    assert refused == said(call(bob, route, unknown(names)))
    # Nothing of it happened, and for its owner the very same request works.
    assert call(alice, route, names).is_success


@pytest.mark.parametrize("route", [*MEMORY_ROUTES, JOB_ROUTE], ids=str)
def test_after_a_revoke_it_is_as_if_there_had_been_no_grant(alice: Person, bob: Person, route: Route):
    names = route.world(alice)
    memory = names["memory_id"]
    grant = alice.give(memory, bob, *EVERY_PRIVILEGE)
    assert bob.send("GET", f"/v1/memories/{memory}").status_code == 200
    alice.delete(f"/v1/memories/{memory}/grants/{grant}")
    assert said(call(bob, route, names)) == said(call(bob, route, unknown(names)))
    assert memory not in {one["id"] for one in bob.listing()}


@pytest.mark.parametrize("route", MEMORY_ROUTES, ids=str)
def test_each_privilege_opens_what_it_permits_and_nothing_else(alice: Person, bob: Person, route: Route):
    for privilege in EVERY_PRIVILEGE:
        names = route.world(alice)
        alice.give(names["memory_id"], bob, privilege)
        answer = call(bob, route, names)
        if route.needs in (None, privilege):
            assert answer.is_success, (privilege, answer.text)
        else:
            assert envelope(answer)["code"] == "memory_forbidden", privilege
            assert answer.status_code == 403


def test_a_job_is_seen_by_readers_and_writers_and_its_records_by_readers(alice: Person, bob: Person):
    for privilege in EVERY_PRIVILEGE:
        names = JOB_ROUTE.world(alice)
        alice.give(names["memory_id"], bob, privilege)
        answer = call(bob, JOB_ROUTE, names)
        assert answer.is_success == (privilege in ("read", "write"))
        if privilege == "write":
            assert answer.json()["records"] == []


@pytest.mark.parametrize("route", [*MEMORY_ROUTES, *HARNESS_ROUTES, *RESPONSE_ROUTES], ids=str)
def test_an_id_of_no_known_shape_is_an_unknown_one(bob: Person, route: Route):
    nothing = {kind: prefix + uuid.uuid4().hex for kind, prefix in PREFIX.items()}
    expected = said(call(bob, route, nothing))
    (named,) = {"memory_id", "harness_id", "response_id", "session_id"} & _fields(route)
    for odd in ODD_IDS:
        assert said(call(bob, route, {**nothing, named: odd})) == expected, odd


def _fields(route: Route) -> set[str]:
    return set(re.findall(r"{(\w+)}", f"{route.path} {route.query} {route.body}"))


@pytest.mark.parametrize("route", ADMIN_ROUTES, ids=str)
def test_tokens_are_for_administrators_whichever_they_are(stack: Stack, bob: Person, route: Route):
    known = bob.http.post(
        f"{stack.url}/v1/grovekeeper/tokens",
        json={"person": "somebody"},
        headers={"Authorization": f"Bearer {stack.admin_token}"},
    ).json()["id"]
    refused = [said(call(bob, route, {"token_id": one})) for one in (known, f"tok_{uuid.uuid4().hex}")]
    assert refused[0] == refused[1]
    assert (refused[0][0], refused[0][1]["code"]) == (403, "insufficient_scope")


def test_a_memory_cannot_be_attached_named_or_moved_to_by_whom_it_is_hidden_from(alice: Person, bob: Person):
    hidden, nowhere = alice.plant("Hidden"), f"hmem_{uuid.uuid4().hex}"
    own = bob.plant("Own")
    harness = bob.harness("Own")
    naming: list[tuple[str, str, Json]] = [
        ("PUT", f"/v1/harnesses/{harness}/memories", {"memories": [{"memory_id": "{}", "access": "read"}]}),
        ("POST", "/v1/responses", {"input": "Hi.", "metadata": {"harness_id": harness, "memory": "{}"}}),
        ("PUT", f"/v1/memories/{own}", {"parent_id": "{}"}),
        ("POST", "/v1/memories", {"name": "Below", "parent_id": "{}"}),
    ]
    for method, path, body in naming:
        answers = [said(bob.send(method, path, _named(body, one))) for one in (hidden, nowhere)]
        assert answers[0] == answers[1]
        assert answers[0][1]["code"] == "memory_not_found"


def _named(body: Json, memory: str) -> Json:
    return cast("Json", json.loads(json.dumps(body).replace("{}", memory)))


def test_a_reference_to_what_is_hidden_says_the_same_as_one_to_nothing(alice: Person, bob: Person):
    hidden = alice.plant("Hidden")
    source = alice.fact(hidden)
    nowhere = {"memory_id": f"hmem_{uuid.uuid4().hex}", "record_id": f"hrec_{uuid.uuid4().hex}"}
    targets = [{"memory_id": hidden, "record_id": source}, {**nowhere}]
    own = bob.plant("Own")
    record = bob.fact(own, references=[{**one, "rel": "derived_from"} for one in targets])
    read = bob.get(f"/v1/memories/{own}/records/{record}")["references"]
    assert read == [{**one, "available": False} for one in targets]
    alice.give(hidden, bob, "read")
    read = bob.get(f"/v1/memories/{own}/records/{record}")["references"]
    assert read[0] == {"rel": "derived_from", **targets[0]}


def test_a_record_is_not_reached_through_another_memory(alice: Person):
    holder, other = alice.plant("Holder"), alice.plant("Other")
    record = alice.fact(holder)
    path = f"/v1/memories/{other}/records/{record}"
    for method, address, body in (
        ("GET", path, None),
        ("GET", f"{path}/history", None),
        ("PATCH", path, {"content": "Changed."}),
        ("DELETE", path, None),
        ("POST", f"/v1/memories/{other}/erase", {"record_ids": [record]}),
    ):
        nothing = address.replace(record, f"hrec_{uuid.uuid4().hex}")
        refused = said(alice.send(method, address, body))
        assert refused[1]["code"] == "memory_record_not_found"
        if method != "POST":
            assert refused == said(alice.send(method, nothing, body))
    assert alice.get(f"/v1/memories/{holder}/records/{record}")["version"] == 1


def test_an_idempotency_key_of_one_is_nothing_to_another(alice: Person, bob: Person):
    first, second = (
        caller.call("POST", "/v1/memories", {"name": "Root"}, key="the-same")["id"] for caller in (alice, bob)
    )
    assert first != second
    assert bob.send("GET", f"/v1/memories/{first}").status_code == 404
