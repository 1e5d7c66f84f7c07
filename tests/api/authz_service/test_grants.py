"""Grants over gRPC."""

import pytest

from protos.authz.v1 import authz_pb2 as wire
from service_kit.ids import new_id
from tests.api.authz_service.service import ALL, CREATE, DELETE, READ, WRITE, Authz, Bearer, refusal


def rows(grants: list[wire.Grant]) -> list[tuple[str, str, list[int], bool, bool]]:
    return [
        (one.memory_id, one.principal, list(one.privileges), one.inherited, one.creator) for one in grants
    ]


@pytest.mark.requirement("ME-3.1-01")
async def test_a_grant_is_one_for_a_principal_and_its_privileges_are_united(alice: Bearer):
    root = (await alice.create()).id
    first = await alice.grant(root, "person:bob", WRITE)
    second = await alice.grant(root, "person:bob", READ, READ)
    assert second.id == first.id
    assert list(second.privileges) == [READ, WRITE]
    assert first.id.startswith("hgrt_")
    assert rows(await alice.grants(root)) == [
        (root, "person:alice", ALL, False, True),
        (root, "person:bob", [READ, WRITE], False, False),
    ]


@pytest.mark.requirement("ME-3.1-09")
async def test_grants_are_listed_with_the_node_they_sit_on_as_far_as_it_is_seen(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    node = (await alice.create(root)).id
    leaf = (await alice.create(node)).id
    await alice.grant(root, "group:ops", READ)
    await alice.grant(node, "person:bob", READ)
    assert rows(await bob.grants(leaf)) == [
        (leaf, "person:alice", ALL, False, True),
        (node, "person:alice", ALL, True, True),
        (node, "person:bob", [READ], True, False),
    ]
    assert (root, "group:ops", [READ], True, False) in rows(await alice.grants(leaf))
    await alice.update(node, restricted=True)
    assert {one.memory_id for one in await alice.grants(leaf)} == {leaf, node}


@pytest.mark.requirement("ME-3.1-08")
async def test_granting_and_revoking_need_delete(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    grant = await alice.grant(root, "person:bob", READ, WRITE, CREATE)
    assert (await refusal(bob.grant(root, "person:bob", DELETE))).code == "memory_forbidden"
    assert (await refusal(bob.revoke(root, grant.id))).code == "memory_forbidden"
    await alice.grant(root, "person:bob", DELETE)
    assert list((await bob.grant(root, "person:carol", READ)).privileges) == [READ]


@pytest.mark.requirement("ME-3.1-10")
async def test_what_is_revoked_is_gone_for_the_next_check(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    grant = await alice.grant(root, "person:bob", READ)
    assert (await bob.check(leaf)).id == leaf
    revoked = await alice.revoke(root, grant.id)
    assert (revoked.id, revoked.principal, list(revoked.privileges)) == (grant.id, "person:bob", [READ])
    assert (await refusal(bob.check(leaf))).code == "memory_not_found"
    assert (await refusal(alice.revoke(root, grant.id))).code == "grovekeeper_not_found"


async def test_a_grant_is_revoked_where_it_sits(alice: Bearer):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    grant = await alice.grant(root, "person:bob", READ)
    for foreign in (grant.id, new_id("hgrt"), "nonsense", ""):
        assert (await refusal(alice.revoke(leaf, foreign))).code == "grovekeeper_not_found"
    assert len(await alice.grants(root)) == 2


async def test_a_creator_can_be_revoked_like_anybody(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    await alice.grant(root, "person:bob", *ALL)
    creator = next(one for one in await bob.grants(root) if one.creator)
    assert creator.id == next(one for one in await bob.grants(root) if one.creator).id
    revoked = await bob.revoke(root, creator.id)
    assert (revoked.principal, revoked.creator, list(revoked.privileges)) == ("person:alice", True, ALL)
    assert (await refusal(alice.check(root))).code == "memory_not_found"
    assert (await alice.check(leaf)).parent_id == ""
    assert [one.id for one in (await alice.entry_points()).nodes] == [leaf]
    assert [one.principal for one in await bob.grants(root)] == ["person:bob"]
    assert (await refusal(bob.revoke(root, creator.id))).code == "grovekeeper_not_found"
    assert (await refusal(alice.create(node=root))).code == "memory_not_found"
    await bob.grant(root, "person:alice", READ)
    assert list((await alice.check(root)).privileges) == [READ]


@pytest.mark.requirement("ME-3.1-11")
@pytest.mark.parametrize(
    "principal",
    ["", "bob", "person:", "service:memory", "robot:1", "person:a b", "person:" + "x" * 201, "group:\n"],
)
async def test_a_principal_of_no_kind_we_know_is_refused(alice: Bearer, principal: str):
    root = (await alice.create()).id
    error = await refusal(alice.grant(root, principal, READ))
    assert (error.code, error.param) == ("invalid_input", "principal")


@pytest.mark.requirement("ME-3.1-11")
@pytest.mark.parametrize(
    "principal", ["person:José", "credential:ci", "group:a:b", "harness:chrn_1", "person:" + "x" * 200]
)
async def test_every_kind_we_document_can_hold_a_grant(alice: Bearer, principal: str):
    root = (await alice.create()).id
    assert (await alice.grant(root, principal, READ)).principal == principal


async def test_a_grant_of_nothing_is_refused(alice: Bearer):
    root = (await alice.create()).id
    assert (await refusal(alice.grant(root, "person:bob"))).param == "privileges"


@pytest.mark.requirement("ME-9-03", "ME-9-04")
async def test_attaching_grants_what_the_harness_lacks(authz: Authz, alice: Bearer):
    harness = new_id("chrn")
    one, two, three = [(await alice.create()).id for _ in range(3)]
    await alice.grant(three, f"harness:{harness}", *ALL)
    await alice.attach(harness, (one, "read"), (two, "write"), (three, "read"))
    held = await authz.harness(harness)
    assert list((await held.check(one)).privileges) == [READ]
    assert list((await held.check(two)).privileges) == [READ, WRITE]
    assert list((await held.check(three)).privileges) == ALL
    await alice.attach(harness, (one, "write"))
    assert list((await held.check(one)).privileges) == [READ, WRITE]
    assert len(await alice.grants(one)) == 2


@pytest.mark.requirement("ME-9-05")
async def test_attaching_is_all_or_nothing(authz: Authz, alice: Bearer, bob: Bearer):
    harness = new_id("chrn")
    own, seen, hidden = (await bob.create()).id, (await alice.create()).id, (await alice.create()).id
    await alice.grant(seen, "person:bob", READ, WRITE, CREATE)
    error = await refusal(bob.attach(harness, (own, "read"), (seen, "read")))
    assert (error.code, error.param) == ("memory_forbidden", "memories.1.memory_id")
    for unknown in (hidden, new_id("hmem")):
        error = await refusal(bob.attach(harness, (own, "read"), (unknown, "read")))
        assert (error.code, error.param) == ("memory_not_found", "memories.1.memory_id")
    assert len(await bob.grants(own)) == 1
    # What the harness holds already needs nothing of whoever attaches it.
    await alice.attach(harness, (hidden, "write"))
    await bob.attach(harness, (own, "read"), (hidden, "read"))
    assert list((await (await authz.harness(harness)).check(own)).privileges) == [READ]


async def test_attaching_what_makes_no_sense_is_refused(alice: Bearer):
    root, harness = (await alice.create()).id, new_id("chrn")
    assert (await refusal(alice.attach("chrn_1", (root, "read")))).param == "harness_id"
    assert (await refusal(alice.attach(harness, (root, "admin")))).param == "memories.0.access"
    assert (await refusal(alice.attach(harness, (root, "read"), (root, "write")))).code == "memory_invalid"
    many = [(new_id("hmem"), "read") for _ in range(65)]
    assert (await refusal(alice.attach(harness, *many))).code == "invalid_input"


async def test_grants_are_listed_page_by_page_while_others_come_and_go(alice: Bearer):
    root = (await alice.create()).id
    node = (await alice.create(root)).id
    given = {number: await alice.grant(node, f"person:{number}", READ) for number in range(5)}
    above = [await alice.grant(root, f"group:{number}", READ) for number in range(3)]
    first = await alice.grants_page(node, limit=3)
    assert [one.principal for one in first.grants] == ["person:alice", "person:0", "person:1"]
    # One that was shown, one that was not, and a new one: the pages go on where they were.
    await alice.revoke(node, given[1].id)
    await alice.revoke(node, given[2].id)
    await alice.grant(node, "person:late", READ)
    second = await alice.grants_page(node, limit=4, cursor=first.next_cursor)
    assert [one.principal for one in second.grants] == ["person:3", "person:4", "person:late", "person:alice"]
    third = await alice.grants_page(node, limit=4, cursor=second.next_cursor)
    assert [one.id for one in third.grants] == [one.id for one in above]
    assert third.next_cursor == ""


async def test_a_page_that_stood_on_a_memory_moved_away_is_begun_again(alice: Bearer):
    root, elsewhere = (await alice.create()).id, (await alice.create()).id
    node = (await alice.create(root)).id
    for number in range(3):
        await alice.grant(root, f"person:{number}", READ)
    page = await alice.grants_page(node, limit=3)
    assert page.grants[-1].memory_id == root
    await alice.update(node, parent=elsewhere)
    for cursor in (page.next_cursor, "bm90IG91cnM"):
        error = await refusal(alice.grants_page(node, limit=3, cursor=cursor))
        assert (error.code, error.param) == ("invalid_input", "cursor")


async def test_a_kind_of_principal_there_is_not_is_refused_with_a_sentence(alice: Bearer):
    root = (await alice.create()).id
    for principal in (
        "robot:r2",
        "person",
        "person:",
        "service:memory",
        "",
        "person:a b",
        "person:" + "x" * 201,
    ):
        error = await refusal(alice.grant(root, principal, READ))
        assert (error.code, error.param) == ("invalid_input", "principal")
        assert error.message.endswith(".")
