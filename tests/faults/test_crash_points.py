"""The process killed between the steps of creating and of deleting a memory, at each of them.

Whatever was done by then: nobody sees a memory that is half there, the same request again finishes it, and
nothing is left over that nobody can reach.
"""

import uuid
from collections.abc import Generator

import pytest

from tests.e2e.caller import Caller, Refused
from tests.faults.product import Product, product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AUTHZ, MEMORY = "authz", "memory"
NAMES = "memory_service.store.postgres:PostgresTransaction"
TREE = "memory_service.clients.authz:AuthzTree"
CHANGE = "authz_service.store.postgres:PostgresChange"
ANSWERS = "authz_service.api.servicer:TreeServicer"
USE_CASES = "memory_service.domain.memories:Memories"

CREATING = [
    pytest.param(MEMORY, f"{TREE}.create:before", id="the description is written, the node is not"),
    pytest.param(AUTHZ, f"{CHANGE}.add_node:after", id="the node is written and not committed"),
    pytest.param(AUTHZ, f"{ANSWERS}.CreateNode:after", id="the node is committed and not answered"),
    pytest.param(MEMORY, f"{TREE}.create:after", id="the node is answered, the key is not remembered"),
    pytest.param(MEMORY, f"{USE_CASES}.create:after", id="all is done and not answered"),
]
DELETING = [
    pytest.param(AUTHZ, f"{CHANGE}.delete:after", id="cut loose and not committed"),
    pytest.param(AUTHZ, f"{ANSWERS}.DeleteNode:after", id="cut loose and not answered"),
    pytest.param(MEMORY, f"{TREE}.delete:after", id="cut loose, the clearing not enqueued"),
    pytest.param(MEMORY, f"{USE_CASES}.delete:after", id="the clearing enqueued, nothing answered"),
    pytest.param(MEMORY, f"{NAMES}.remove:before", id="clearing, nothing is forgotten yet"),
    pytest.param(MEMORY, f"{TREE}.purge:before", id="the content forgotten, the node still kept"),
    pytest.param(AUTHZ, f"{CHANGE}.purge:after", id="the node let go of and not committed"),
    pytest.param(MEMORY, f"{TREE}.purge:after", id="a level let go of, the next one still there"),
]


UPDATING = [
    pytest.param(AUTHZ, f"{CHANGE}.settle:after", id="moved and not committed"),
    pytest.param(AUTHZ, f"{ANSWERS}.UpdateNode:after", id="moved and not answered"),
    pytest.param(MEMORY, f"{TREE}.update:after", id="moved, the words not written"),
    pytest.param(MEMORY, f"{NAMES}.settle:after", id="the words written and not committed"),
    pytest.param(MEMORY, f"{USE_CASES}.update:after", id="all is written and not answered"),
]
GRANTING = [
    pytest.param(f"{CHANGE}.settle:before", id="granted, the key not settled"),
    pytest.param(f"{CHANGE}.settle:after", id="granted and not committed"),
    pytest.param("authz_service.api.servicer:GrantsServicer.AddGrant:after", id="granted and not answered"),
]


@pytest.fixture(scope="module")
def grove() -> Generator[Product]:
    with product() as made:
        yield made


def refused(caller: Caller, method: str, path: str, body: dict[str, object] | None, key: str) -> bool:
    """Whether a request is answered with a failure a client can act on, and with no other."""
    try:
        caller.call(method, path, body, key=key)
    except Refused as error:
        return error.status in (503, 504)
    return False


def reached(caller: Caller, memory: str) -> None:
    """Wait until the others have found a process that was started anew."""
    caller.until(
        lambda: caller.send("GET", f"/v1/memories/{memory}").status_code, lambda status: status == 200
    )


@pytest.mark.parametrize(("victim", "point"), CREATING)
def test_a_create_cut_short_is_whole_or_not_there_and_is_finished_by_a_repeat(
    grove: Product, victim: str, point: str
):
    alice, key = grove.person("alice"), uuid.uuid4().hex
    root = alice.plant(f"Root of {point}")
    body: dict[str, object] = {"name": "Cut short", "parent_id": root}
    grove.kill(victim)
    grove.start_dying(victim, point)
    reached(alice, root)
    assert refused(alice, "POST", "/v1/memories", body, key)
    grove.died(victim)
    grove.start(victim)
    reached(alice, root)

    # Seen and counted alike: whole, or not at all.
    seen = [one["name"] for one in alice.listing(f"parent={root}")]
    assert seen in ([], ["Cut short"])
    assert alice.get(f"/v1/memories/{root}")["children"]["count"] == len(seen)

    made = alice.call("POST", "/v1/memories", body, key=key)
    assert alice.call("POST", "/v1/memories", body, key=key)["id"] == made["id"]
    assert [one["id"] for one in alice.listing(f"parent={root}")] == [made["id"]]
    assert alice.get(f"/v1/memories/{root}")["children"]["count"] == 1
    alice.remember(made["id"], "It is whole.")
    assert alice.found(made["id"], "What is it?") == ["It is whole."]


def test_what_a_create_that_is_never_repeated_left_behind_is_removed(grove: Product):
    alice, name = grove.person("alice"), uuid.uuid4().hex
    root = alice.plant("Root")
    grove.kill(MEMORY)
    grove.start_dying(MEMORY, f"{TREE}.create:before")
    reached(alice, root)
    assert refused(alice, "POST", "/v1/memories", {"name": name}, uuid.uuid4().hex)
    grove.died(MEMORY)
    assert len(grove.rows("select id from memory.memory where name = %s", name)) == 1
    # What is younger than a minute may be under way; this is made to be older.
    grove.rows("update memory.memory set created_at = now() - interval '1 hour' where name = %s", name)
    grove.start(MEMORY)
    reached(alice, root)
    alice.until(
        lambda: grove.rows("select id from memory.memory where name = %s", name), lambda left: not left
    )


@pytest.mark.parametrize(("victim", "point"), DELETING)
def test_a_delete_cut_short_shows_all_or_nothing_and_leaves_nothing(grove: Product, victim: str, point: str):
    alice, bob = grove.person("alice"), grove.person("bob")
    root = alice.plant(f"Root of {point}")
    branch = alice.plant("Branch", root)
    leaf = alice.plant("Leaf", branch)
    alice.grant(leaf, "person:bob", "read")
    alice.remember(leaf, "Nobody reads this any more.")
    grove.kill(victim)
    grove.start_dying(victim, point)
    reached(alice, root)
    # The clearing goes on by itself when the answer was given: then the process dies a moment later.
    refused(alice, "DELETE", f"/v1/memories/{branch}", None, uuid.uuid4().hex)
    grove.died(victim)
    grove.start(victim)
    reached(alice, root)

    seen = [caller.send("GET", f"/v1/memories/{leaf}").status_code for caller in (alice, bob)]
    assert seen in ([200, 200], [404, 404])
    count = alice.get(f"/v1/memories/{root}")["children"]["count"]
    assert count == len(alice.listing(f"parent={root}")) == (1 if seen[0] == 200 else 0)
    if seen[0] == 200:
        alice.delete(f"/v1/memories/{branch}")
    for caller in (alice, bob):
        assert caller.send("GET", f"/v1/memories/{leaf}").status_code == 404
        assert leaf not in {one["id"] for one in caller.listing()}
    assert alice.send("DELETE", f"/v1/memories/{branch}").status_code == 404

    gone = [branch, leaf]
    alice.until(lambda: leftovers(grove, gone), lambda left: not any(left))
    assert alice.get(f"/v1/memories/{root}")["children"]["count"] == 0


@pytest.mark.parametrize(("victim", "point"), DELETING[:4])
def test_a_keyed_delete_cut_short_is_finished_by_a_repeat_which_answers_the_memory_as_it_was(
    grove: Product, victim: str, point: str
):
    alice, key = grove.person("alice"), uuid.uuid4().hex
    root = alice.plant(f"Root of {point}")
    branch = alice.plant("Branch", root)
    grove.kill(victim)
    grove.start_dying(victim, point)
    reached(alice, root)
    assert refused(alice, "DELETE", f"/v1/memories/{branch}", None, key)
    grove.died(victim)
    grove.start(victim)
    reached(alice, root)
    answers = [alice.call("DELETE", f"/v1/memories/{branch}", key=key) for _ in range(2)]
    assert answers[0] == answers[1]
    assert (answers[0]["id"], answers[0]["name"], answers[0]["parent_id"]) == (branch, "Branch", root)
    assert alice.send("GET", f"/v1/memories/{branch}").status_code == 404
    alice.until(lambda: leftovers(grove, [branch]), lambda left: not any(left))


@pytest.mark.parametrize(("victim", "point"), UPDATING)
def test_an_update_cut_short_is_finished_by_a_repeat_and_done_once(grove: Product, victim: str, point: str):
    alice, key = grove.person("alice"), uuid.uuid4().hex
    root = alice.plant(f"Root of {point}")
    here, there = alice.plant("Here", root), alice.plant("There", root)
    memory = alice.plant("Old name", here)
    path = f"/v1/memories/{memory}"
    body: dict[str, object] = {"name": "New name", "parent_id": there}
    grove.kill(victim)
    grove.start_dying(victim, point)
    reached(alice, root)
    assert refused(alice, "PUT", path, body, key)
    grove.died(victim)
    grove.start(victim)
    reached(alice, root)
    moved = alice.get(path)["parent_id"] == there
    if moved:
        # What was done is not done again over what others did since.
        alice.put(path, {"parent_id": root})
    first = alice.call("PUT", path, body, key=key)
    assert (first["name"], first["parent_id"]) == ("New name", there)
    assert alice.call("PUT", path, body, key=key) == first
    now = alice.get(path)
    assert (now["name"], now["parent_id"]) == ("New name", root if moved else there)


@pytest.mark.parametrize("point", GRANTING)
def test_a_grant_cut_short_is_given_once(grove: Product, point: str):
    alice, key = grove.person("alice"), uuid.uuid4().hex
    root = alice.plant(f"Root of {point}")
    path = f"/v1/memories/{root}/grants"
    body: dict[str, object] = {"principal": "person:zoe", "privileges": ["read"]}
    grove.kill(AUTHZ)
    grove.start_dying(AUTHZ, point)
    reached(alice, root)
    assert refused(alice, "POST", path, body, key)
    grove.died(AUTHZ)
    grove.start(AUTHZ)
    reached(alice, root)
    first = alice.call("POST", path, body, key=key)
    assert alice.call("POST", path, body, key=key) == first
    (given,) = [one for one in alice.get(path)["data"] if one["principal"] == "person:zoe"]
    assert given == first
    # Revoked, it is not given again by a late repeat.
    alice.delete(f"{path}/{first['id']}")
    assert alice.call("POST", path, body, key=key) == first
    assert [one for one in alice.get(path)["data"] if one["principal"] == "person:zoe"] == []


def leftovers(grove: Product, ids: list[str]) -> list[int]:
    """Rows that are still kept of memories, in each place that keeps any."""
    counted = (
        grove.rows("select count(*) from authz.node where id = any (%s)", ids),
        grove.rows("select count(*) from authz.grants where node = any (%s)", ids),
        grove.rows("select count(*) from memory.memory where id = any (%s)", ids),
        grove.rows("select count(*) from provider.record where memory_id = any (%s)", ids),
    )
    return [rows[0][0] for rows in counted]
