"""Listings, counts, recalls and places to walk to show what the caller may see, and give nothing else away."""

from collections.abc import Generator
from dataclasses import dataclass

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person, person, said
from tests.fixtures.stack import Stack

SECRET = "The vault opens with 4-8-15."


@dataclass
class Grove:
    """``top`` > (``open`` > ``leaf``, ``closed`` > ``inside``); ``closed`` is restricted. All is alice's.

    bob reads ``top``. carol reads ``inside`` only.
    """

    alice: Person
    bob: Person
    carol: Person
    top: str
    open: str
    leaf: str
    closed: str
    inside: str


@pytest.fixture
def grove(stack: Stack, alice: Person, bob: Person) -> Generator[Grove]:
    with person(stack, "carol") as carol:
        top = alice.plant("Top")
        middle, closed = alice.plant("Open", top), alice.plant("Closed", top, restricted=True)
        leaf, inside = alice.plant("Leaf", middle), alice.plant("Inside", closed)
        alice.give(top, bob, "read")
        alice.give(inside, carol, "read")
        for memory in (top, middle, leaf):
            alice.fact(memory, "Penguins swim.")
        for memory in (closed, inside):
            alice.fact(memory, SECRET)
        yield Grove(alice, bob, carol, top, middle, leaf, closed, inside)


def ids(memories: list[Json]) -> set[str]:
    return {one["id"] for one in memories}


@pytest.mark.requirement("ME-3.1-02", "ME-3.2-01", "ME-2-09")
def test_a_grant_reaches_down_to_the_cutoff_and_not_beyond(grove: Grove):
    for memory in (grove.top, grove.open, grove.leaf):
        assert grove.bob.get(f"/v1/memories/{memory}")["privileges"] == ["read"]
    nowhere = said(grove.bob.send("GET", "/v1/memories/hmem_" + "0" * 32))
    for memory in (grove.closed, grove.inside):
        assert said(grove.bob.send("GET", f"/v1/memories/{memory}")) == nowhere


@pytest.mark.requirement("ME-2-14", "ME-2-17")
def test_no_listing_names_what_is_behind_the_cutoff(grove: Grove):
    assert ids(grove.bob.listing()) == {grove.top}
    assert ids(grove.bob.listing(f"parent={grove.top}")) == {grove.open}
    assert ids(grove.bob.listing(f"ancestor={grove.top}")) == {grove.open, grove.leaf}
    assert ids(grove.alice.listing(f"ancestor={grove.top}")) == {
        grove.open,
        grove.leaf,
        grove.closed,
        grove.inside,
    }


@pytest.mark.requirement("ME-2-10")
def test_children_are_counted_as_far_as_they_are_seen(grove: Grove):
    counts = [
        caller.get(f"/v1/memories/{grove.top}")["children"]["count"] for caller in (grove.alice, grove.bob)
    ]
    assert counts == [2, 1]


def test_pages_are_cut_from_what_is_seen(grove: Grove):
    for _ in range(3):
        grove.alice.plant("Hidden", grove.top, restricted=True)
    page = grove.bob.get(f"/v1/memories?parent={grove.top}&limit=1")
    assert (ids(page["data"]), page["next_cursor"]) == ({grove.open}, None)


@pytest.mark.requirement("ME-3.2-01")
def test_a_deep_recall_finds_nothing_behind_the_cutoff(grove: Grove):
    for headers in ({}, {"UHP-Memories-Revision": "post3"}):
        for body in ({"query": SECRET, "depth": 9}, {"text": "vault", "depth": 9}, {"query": SECRET}):
            answer = grove.bob.send("POST", f"/v1/memories/{grove.top}/recall", body, headers)
            assert answer.is_success
            assert "vault" not in answer.text
            assert grove.closed not in answer.text
            assert grove.inside not in answer.text
    assert SECRET in grove.alice.found(grove.top, SECRET, depth=9)


@pytest.mark.requirement("ME-6.1-03", "ME-6.3-04")
def test_a_recall_names_only_places_the_caller_may_read(grove: Grove):
    for caller, children in ((grove.alice, {grove.open, grove.closed}), (grove.bob, {grove.open})):
        assert ids(caller.recall(grove.top, "penguins")["children"]) == children
    from_inside = grove.carol.recall(grove.inside, "vault")
    assert "parent" not in from_inside
    assert from_inside["children"] == []


def test_what_is_hidden_does_not_move_a_score(grove: Grove):
    before = grove.bob.recall(grove.top, "penguins swim", depth=9)["results"]
    for _ in range(5):
        grove.alice.fact(grove.closed, "Penguins swim and swim and swim.")
    after = grove.bob.recall(grove.top, "penguins swim", depth=9)["results"]
    assert [(one["record"]["id"], one["score"]) for one in after] == [
        (one["record"]["id"], one["score"]) for one in before
    ]


@pytest.mark.requirement("ME-2-04", "ME-2-05", "ME-2-13")
def test_who_enters_at_a_branch_sees_nothing_of_the_way_there(grove: Grove):
    (entry,) = grove.carol.listing()
    assert (entry["id"], entry["parent_id"], entry["ancestors"]) == (grove.inside, None, [])
    for memory in (grove.top, grove.closed):
        assert grove.carol.send("GET", f"/v1/memories/{memory}").status_code == 404


@pytest.mark.requirement("ME-3.1-09")
def test_grants_name_only_nodes_and_people_as_far_as_they_reach(grove: Grove):
    seen = grove.carol.get(f"/v1/memories/{grove.inside}/grants")["data"]
    held = {(grant["memory_id"], grant["principal"], *grant["privileges"]) for grant in seen}
    assert (grove.inside, grove.carol.principal, "read") in held
    assert {memory for memory, *_ in held} == {grove.inside}
    assert grove.bob.principal not in {grant["principal"] for grant in seen}


@pytest.mark.requirement("ME-2-09", "ME-3.1-07")
def test_a_privilege_to_create_shows_the_memory_and_no_record_of_it(grove: Grove, stack: Stack):
    with person(stack, "dora") as dora:
        grove.alice.give(grove.closed, dora, "create")
        assert grove.alice.get(f"/v1/memories/{grove.closed}")["records"] == {"count": 1}
        assert dora.get(f"/v1/memories/{grove.closed}")["privileges"] == ["create"]
        assert dora.send("GET", f"/v1/memories/{grove.closed}/records").status_code == 403
        answer = dora.send("POST", f"/v1/memories/{grove.closed}/recall", {"query": "vault"})
        assert answer.status_code == 403
        assert "4-8-15" not in answer.text


@pytest.mark.requirement("ME-3.1-01")
def test_a_group_opens_what_its_members_may_and_closes_it_with_the_grant(stack: Stack, alice: Person):
    with person(stack, "erin", groups=("readers",)) as erin:
        memory = alice.plant("Shared")
        grant = alice.grant(memory, "group:readers", "read")["id"]
        assert erin.send("GET", f"/v1/memories/{memory}/records").is_success
        alice.delete(f"/v1/memories/{memory}/grants/{grant}")
        assert erin.send("GET", f"/v1/memories/{memory}/records").status_code == 404


@pytest.mark.requirement("ME-3.2-01", "ME-2-15")
def test_restricting_a_memory_closes_it_at_once(grove: Grove):
    assert grove.bob.send("GET", f"/v1/memories/{grove.leaf}").is_success
    grove.alice.put(f"/v1/memories/{grove.open}", {"restricted": True})
    assert grove.bob.send("GET", f"/v1/memories/{grove.leaf}").status_code == 404
    grove.alice.put(f"/v1/memories/{grove.open}", {"restricted": False})
    assert grove.bob.send("GET", f"/v1/memories/{grove.leaf}").is_success


@pytest.mark.requirement("ME-3.1-02")
def test_moving_a_memory_out_takes_the_grants_above_away(grove: Grove):
    grove.alice.put(f"/v1/memories/{grove.leaf}", {"parent_id": grove.closed})
    assert grove.bob.send("GET", f"/v1/memories/{grove.leaf}").status_code == 404
    grove.alice.put(f"/v1/memories/{grove.leaf}", {"parent_id": None})
    moved = grove.alice.get(f"/v1/memories/{grove.leaf}")
    assert (moved["parent_id"], moved["ancestors"]) == (None, [])


@pytest.mark.requirement("ME-12-05")
def test_a_move_below_itself_is_refused(grove: Grove):
    for below in (grove.top, grove.open, grove.leaf):
        answer = grove.alice.send("PUT", f"/v1/memories/{grove.top}", {"parent_id": below})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "memory_invalid")
