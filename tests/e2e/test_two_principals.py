"""What one principal may not reach of another's looks exactly like what does not exist."""

import uuid

import pytest

from tests.e2e.callers import Caller, envelope, said
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
ODD_IDS = ("x", "hmem_", "hmem_" + "0" * 31, "HMEM_" + "0" * 32, "a%00b", "%F0%9F%98%80", "y" * 2000)


def unknown(names: Names) -> Names:
    """Names of the same kinds that nothing has."""
    return {kind: PREFIX[kind] + uuid.uuid4().hex for kind in names}


def test_the_table_names_every_route_there_is(stack: Stack, alice: Caller):
    document = alice.ok("GET", "/openapi.json")
    there_is = {
        (method.upper(), path) for path, operations in document["paths"].items() for method in operations
    }
    tables = (MEMORY_ROUTES, (JOB_ROUTE,), HARNESS_ROUTES, RESPONSE_ROUTES, OPEN_ROUTES, ADMIN_ROUTES)
    assert {(route.method, route.path) for table in tables for route in table} == there_is


@pytest.mark.parametrize("route", OPEN_ROUTES, ids=str)
def test_a_route_that_names_nothing_answers_everybody(bob: Caller, route: Route):
    assert call(bob, route, {}).status_code == 200


@pytest.mark.parametrize("route", [*MEMORY_ROUTES, JOB_ROUTE, *HARNESS_ROUTES, *RESPONSE_ROUTES], ids=str)
def test_what_is_anothers_is_answered_as_what_does_not_exist(alice: Caller, bob: Caller, route: Route):
    names = route.world(alice)
    refused = said(call(bob, route, names))
    assert refused[0] == 404
    assert refused == said(call(bob, route, unknown(names)))
    # Nothing of it happened, and for its owner the very same request works.
    assert call(alice, route, names).is_success


@pytest.mark.parametrize("route", [*MEMORY_ROUTES, JOB_ROUTE], ids=str)
def test_after_a_revoke_it_is_as_if_there_had_been_no_grant(alice: Caller, bob: Caller, route: Route):
    names = route.world(alice)
    memory = names["memory_id"]
    grant = alice.grant(memory, bob, *EVERY_PRIVILEGE)
    assert bob("GET", f"/v1/memories/{memory}").status_code == 200
    alice.ok("DELETE", f"/v1/memories/{memory}/grants/{grant}")
    assert said(call(bob, route, names)) == said(call(bob, route, unknown(names)))
    assert memory not in {one["id"] for one in bob.ok("GET", "/v1/memories")["data"]}


@pytest.mark.parametrize("route", MEMORY_ROUTES, ids=str)
def test_each_privilege_opens_what_it_permits_and_nothing_else(alice: Caller, bob: Caller, route: Route):
    for privilege in EVERY_PRIVILEGE:
        names = route.world(alice)
        alice.grant(names["memory_id"], bob, privilege)
        answer = call(bob, route, names)
        if route.needs in (None, privilege):
            assert answer.is_success, (privilege, answer.text)
        else:
            assert envelope(answer)["code"] == "memory_forbidden", privilege
            assert answer.status_code == 403


def test_a_job_is_seen_by_readers_and_writers_and_its_records_by_readers(alice: Caller, bob: Caller):
    for privilege in EVERY_PRIVILEGE:
        names = JOB_ROUTE.world(alice)
        alice.grant(names["memory_id"], bob, privilege)
        answer = call(bob, JOB_ROUTE, names)
        assert answer.is_success == (privilege in ("read", "write"))
        if privilege == "write":
            assert answer.json()["records"] == []


@pytest.mark.parametrize("odd", ODD_IDS)
@pytest.mark.parametrize("route", MEMORY_ROUTES, ids=str)
def test_an_id_of_no_known_shape_is_an_unknown_one(bob: Caller, route: Route, odd: str):
    names = {"record_id": "r", "grant_id": "g", "job_id": "j"}
    answer = call(bob, route, {**names, "memory_id": odd})
    assert said(answer) == said(call(bob, route, {**names, "memory_id": f"hmem_{uuid.uuid4().hex}"}))


@pytest.mark.parametrize("route", [*HARNESS_ROUTES, *RESPONSE_ROUTES], ids=str)
@pytest.mark.parametrize("odd", ODD_IDS)
def test_a_harness_or_response_of_no_known_shape_is_an_unknown_one(bob: Caller, route: Route, odd: str):
    kinds = ("harness_id", "response_id", "session_id")
    answer = call(bob, route, dict.fromkeys(kinds, odd))
    assert said(answer) == said(call(bob, route, {kind: PREFIX[kind] + uuid.uuid4().hex for kind in kinds}))


@pytest.mark.parametrize("route", ADMIN_ROUTES, ids=str)
def test_tokens_are_for_administrators_whichever_they_are(stack: Stack, bob: Caller, route: Route):
    known = bob.http.post(
        f"{stack.url}/v1/grovekeeper/tokens",
        json={"person": "somebody"},
        headers={"Authorization": f"Bearer {stack.admin_token}"},
    ).json()["id"]
    refused = [said(call(bob, route, {"token_id": one})) for one in (known, f"tok_{uuid.uuid4().hex}")]
    assert refused[0] == refused[1]
    assert (refused[0][0], refused[0][1]["code"]) == (403, "insufficient_scope")


def test_a_memory_cannot_be_attached_named_or_moved_to_by_whom_it_is_hidden_from(alice: Caller, bob: Caller):
    hidden, nowhere = alice.memory("Hidden"), f"hmem_{uuid.uuid4().hex}"
    own = bob.memory("Own")
    harness = bob.ok("POST", "/v1/harnesses", {"base": "scripted"})["id"]
    for method, path, body in (
        ("PUT", f"/v1/harnesses/{harness}/memories", {"memories": [{"memory_id": "{}", "access": "read"}]}),
        ("POST", "/v1/responses", {"input": "Hi.", "metadata": {"harness_id": harness, "memory": "{}"}}),
        ("PUT", f"/v1/memories/{own}", {"parent_id": "{}"}),
        ("POST", "/v1/memories", {"name": "Below", "parent_id": "{}"}),
    ):
        answers = [said(bob(method, path, _named(body, one))) for one in (hidden, nowhere)]
        assert answers[0] == answers[1]
        assert answers[0][1]["code"] == "memory_not_found"


def _named(body: dict[str, object], memory: str) -> object:
    import json

    return json.loads(json.dumps(body).replace("{}", memory))


def test_a_reference_to_what_is_hidden_says_the_same_as_one_to_nothing(alice: Caller, bob: Caller):
    hidden = alice.memory("Hidden")
    source = alice.fact(hidden)
    nowhere = {"memory_id": f"hmem_{uuid.uuid4().hex}", "record_id": f"hrec_{uuid.uuid4().hex}"}
    targets = [{"memory_id": hidden, "record_id": source}, {**nowhere}]
    own = bob.memory("Own")
    record = bob.fact(own, references=[{**one, "rel": "derived_from"} for one in targets])
    read = bob.ok("GET", f"/v1/memories/{own}/records/{record}")["references"]
    assert read == [{**one, "available": False} for one in targets]
    alice.grant(hidden, bob, "read")
    read = bob.ok("GET", f"/v1/memories/{own}/records/{record}")["references"]
    assert read[0] == {"rel": "derived_from", **targets[0]}


def test_a_record_is_not_reached_through_another_memory(alice: Caller):
    holder, other = alice.memory("Holder"), alice.memory("Other")
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
        refused = said(alice(method, address, body))
        assert refused[1]["code"] == "memory_record_not_found"
        if method != "POST":
            assert refused == said(alice(method, nothing, body))
    assert alice.ok("GET", f"/v1/memories/{holder}/records/{record}")["version"] == 1


def test_an_idempotency_key_of_one_is_nothing_to_another(alice: Caller, bob: Caller):
    headers = {"Idempotency-Key": "the-same"}
    first, second = (
        caller.ok("POST", "/v1/memories", {"name": "Root"}, headers=headers)["id"] for caller in (alice, bob)
    )
    assert first != second
    assert bob("GET", f"/v1/memories/{first}").status_code == 404
