"""What one principal may not reach of another's looks exactly like what does not exist."""

import uuid
from collections.abc import Generator

import pytest

from tests.e2e.caller import Caller
from tests.e2e.hidden import EVERY_PRIVILEGE, PREFIX, Hidden, unknown, whole
from tests.e2e.people import Person, envelope, person, said
from tests.e2e.routes import (
    ADMIN_ROUTES,
    HARNESS_ROUTES,
    JOB_ROUTE,
    MEMORY_ROUTES,
    NAMING_ROUTES,
    OPEN_ROUTES,
    OPERATE_ROUTE,
    QUERIES_ROUTE,
    RESPONSE_ROUTES,
    THE_HARNESS,
    Names,
    Route,
    call,
    memory_with_everything,
)
from tests.fixtures.stack import Stack

ABOUT_MEMORIES = (*MEMORY_ROUTES, *NAMING_ROUTES, JOB_ROUTE, QUERIES_ROUTE, OPERATE_ROUTE)
ODD_IDS = ("x", "hmem_", "hmem_" + "0" * 31, "HMEM_" + "0" * 32, "a%0Db", "%F0%9F%98%80", "y" * 2000)


@pytest.fixture(scope="module")
def hidden(stack: Stack) -> Generator[Hidden]:
    """Made once: what is refused changes nothing."""
    group = uuid.uuid4().hex
    with (
        person(stack, "alice") as alice,
        person(stack, "bob", (group,)) as bob,
        Caller(stack.url, stack.admin_token) as admin,
    ):
        made = Hidden(admin, alice, bob, group)
        made.make()
        yield made


@pytest.fixture(scope="module")
def held(hidden: Hidden) -> dict[str, Names]:
    """A memory for each privilege, which is all that bob holds there."""
    worlds = {privilege: memory_with_everything(hidden.alice) for privilege in EVERY_PRIVILEGE}
    for privilege, names in worlds.items():
        hidden.alice.give(names["memory_id"], hidden.bob, privilege)
    return worlds


@pytest.mark.parametrize("route", OPEN_ROUTES, ids=str)
def test_a_route_that_names_nothing_answers_everybody(bob: Person, route: Route):
    assert call(bob, route, {}).status_code == 200


@pytest.mark.requirement("ME-2-17", "ME-2-18", "ME-3.3-01", "ME-12-01", "ME-13-05")
@pytest.mark.parametrize("route", ABOUT_MEMORIES, ids=str)
def test_a_memory_that_may_not_be_seen_is_answered_as_one_that_does_not_exist(hidden: Hidden, route: Route):
    bob, own = hidden.bob, route.own(hidden.bob)
    nothing = unknown(hidden.worlds["never granted"])
    expected = whole(call(bob, route, own | nothing), nothing)
    assert (expected[0], "memory_not_found" in expected[1]) == (404, True)
    for way, names in hidden.worlds.items():
        there, elsewhere = {"memory_id": names["memory_id"]}, {"memory_id": nothing["memory_id"]}
        for asked in (names, nothing | there, names | elsewhere):
            assert whole(call(bob, route, own | asked), asked) == expected, way
    assert route.method == "GET" or hidden.unchanged()


@pytest.mark.requirement(
    "ME-3.1-05",
    "ME-3.1-06",
    "ME-3.1-07",
    "ME-3.1-08",
    "ME-3.3-01",
    "ME-5.2-03",
    "ME-5.2-06",
    "ME-12-02",
    "ME-6.4-04",
)
@pytest.mark.parametrize("privilege", EVERY_PRIVILEGE)
@pytest.mark.parametrize("route", [*MEMORY_ROUTES, *NAMING_ROUTES], ids=str)
def test_each_privilege_opens_what_it_permits_and_nothing_else(
    hidden: Hidden, held: dict[str, Names], route: Route, privilege: str
):
    bob, own = hidden.bob, route.own(hidden.bob)
    if route.needs in (None, privilege):  # it may change what is there: one of its own
        names = route.world(hidden.alice)
        hidden.alice.give(names["memory_id"], bob, privilege)
        answer = call(bob, route, own | names)
        assert route.opens(answer), answer.text
        return
    names = held[privilege]
    before = hidden.state(names)
    answer = call(bob, route, own | names)
    nothing = unknown(names)
    if route.needs == THE_HARNESS:
        assert whole(answer, names) == whole(call(bob, route, own | nothing), nothing)
    else:
        assert (answer.status_code, envelope(answer)["code"]) == (403, "memory_forbidden")
        # And what else it names is not looked for.
        asked = nothing | {"memory_id": names["memory_id"]}
        assert whole(answer, names) == whole(call(bob, route, own | asked), asked)
    assert hidden.state(names) == before


@pytest.mark.parametrize("route", ABOUT_MEMORIES, ids=str)
def test_all_privileges_open_everything_that_privileges_open(hidden: Hidden, route: Route):
    names, own = route.world(hidden.alice), route.own(hidden.bob)
    hidden.alice.give(names["memory_id"], hidden.bob, *EVERY_PRIVILEGE)
    if route.needs == THE_HARNESS:
        hidden.alice.grant(names["memory_id"], f"harness:{own['own_harness_id']}", "read")
    answer = call(hidden.bob, route, own | names)
    assert route.opens(answer), answer.text


@pytest.mark.requirement("ME-5.1-03")
def test_a_job_is_seen_by_readers_and_writers_and_its_records_by_readers(alice: Person, bob: Person):
    for privilege in EVERY_PRIVILEGE:
        names = JOB_ROUTE.world(alice)
        alice.give(names["memory_id"], bob, privilege)
        answer = call(bob, JOB_ROUTE, names)
        assert answer.is_success == (privilege in ("read", "write"))
        if privilege == "write":
            assert answer.json()["records"] == []


@pytest.mark.requirement("ME-6.4-02")
def test_named_queries_are_seen_by_readers_and_writers(alice: Person, bob: Person):
    for privilege in EVERY_PRIVILEGE:
        names = QUERIES_ROUTE.world(alice)
        alice.give(names["memory_id"], bob, privilege)
        assert call(bob, QUERIES_ROUTE, names).is_success == (privilege in ("read", "write"))


@pytest.mark.requirement("AR-5-03", "AR-5-04", "AR-5-05", "SU-requests-11")
@pytest.mark.parametrize("route", [*HARNESS_ROUTES, *RESPONSE_ROUTES], ids=str)
def test_what_is_anothers_is_answered_as_what_does_not_exist(alice: Person, bob: Person, route: Route):
    names = route.world(alice)
    nothing = unknown(names)
    refused = whole(call(bob, route, names), names)
    assert refused[0] == 404
    assert refused == whole(call(bob, route, nothing), nothing)
    # Nothing of it happened, and for its owner the very same request works.
    assert call(alice, route, names).is_success


@pytest.mark.requirement("SU-harnesses-01")
@pytest.mark.parametrize("route", HARNESS_ROUTES, ids=str)
def test_a_deleted_harness_is_to_its_owner_as_one_that_never_was(alice: Person, route: Route):
    names = route.world(alice)
    nothing = unknown(names)
    alice.delete(f"/v1/harnesses/{names['harness_id']}")
    assert whole(call(alice, route, names), names) == whole(call(alice, route, nothing), nothing)


@pytest.mark.parametrize(
    "route", [*MEMORY_ROUTES, *NAMING_ROUTES, *HARNESS_ROUTES, *RESPONSE_ROUTES], ids=str
)
def test_an_id_of_no_known_shape_is_an_unknown_one(bob: Person, route: Route):
    nothing = {kind: prefix + uuid.uuid4().hex for kind, prefix in PREFIX.items()} | route.own(bob)
    expected = said(call(bob, route, nothing))
    (named,) = {"memory_id", "harness_id", "response_id", "session_id"} & route.names()
    for odd in ODD_IDS:
        assert said(call(bob, route, {**nothing, named: odd})) == expected, odd


@pytest.mark.requirement("SU-errors-09")
@pytest.mark.parametrize("route", ADMIN_ROUTES, ids=str)
def test_what_is_for_administrators_says_nothing_to_others(hidden: Hidden, route: Route):
    names = route.world(hidden.alice) | _kept_by(hidden.admin)
    nothing = unknown(names)
    refused = whole(call(hidden.bob, route, names), names)
    assert (refused[0], "insufficient_scope" in refused[1]) == (403, True)
    assert whole(call(hidden.bob, route, nothing), nothing) == refused


def _kept_by(admin: Caller) -> Names:
    """A token, a group with somebody in it, a job and a type."""
    token = str(admin.post("/v1/grovekeeper/tokens", {"person": "somebody"})["id"])
    memory = admin.plant("Place")
    job = str(admin.post(f"/v1/memories/{memory}/observe", {"episodes": [{"content": "Hi."}]})["job"]["id"])
    names = {
        "token_id": token,
        "name": f"group:{uuid.uuid4().hex}",
        "principal": "person:somebody",
        "job_id": job,
        "type": f"x.t{uuid.uuid4().hex}",
    }
    admin.put(f"/v1/grovekeeper/types/{names['type']}", {"description": "A deal."})
    admin.post("/v1/grovekeeper/groups", {"name": names["name"]})
    admin.put(f"/v1/grovekeeper/groups/{names['name']}/members/{names['principal']}", {})
    return names


KEYED = [
    route
    for route in MEMORY_ROUTES
    if route.path.endswith(("/records", "/observe", "/erase", "{record_id}", "/grants", "{grant_id}"))
    and route.method != "GET"
]
"""Those that take an Idempotency-Key and answer something of the memory."""


@pytest.mark.parametrize("route", KEYED, ids=str)
def test_an_idempotency_key_opens_nothing_after_a_revoke(alice: Person, bob: Person, route: Route):
    names = route.world(alice)
    grant = alice.give(names["memory_id"], bob, *EVERY_PRIVILEGE)
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first = call(bob, route, names, key)
    assert first.is_success
    assert call(bob, route, names, key).text == first.text
    alice.delete(f"/v1/memories/{names['memory_id']}/grants/{grant}")
    nothing = unknown(names)
    expected = whole(call(bob, route, nothing, {"Idempotency-Key": uuid.uuid4().hex}), nothing)
    assert whole(call(bob, route, names, key), names) == expected
    assert whole(call(bob, route, nothing, key), nothing) == expected


def test_a_repeated_create_shows_what_its_creator_may_see_now(alice: Person, bob: Person):
    parent = alice.plant("Parent")
    grant = alice.give(parent, bob, "create")
    body, key = {"name": "Child", "parent_id": parent}, uuid.uuid4().hex
    child = bob.call("POST", "/v1/memories", body, key)
    assert (child["parent_id"], child["ancestors"]) == (parent, [parent])
    alice.delete(f"/v1/memories/{parent}/grants/{grant}")
    again = bob.call("POST", "/v1/memories", body, key)
    assert (again["id"], again["parent_id"], again["ancestors"]) == (child["id"], None, [])


@pytest.mark.requirement("ME-4.2-03", "ME-4.2-04", "ME-13-05")
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


@pytest.mark.requirement("ME-12-03")
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
