"""Why somebody holds what it holds, over gRPC."""

import pytest

from authz_service.domain.principals import MOST_GROUPS
from protos.authz.v1 import authz_pb2 as wire
from service_kit.ids import new_id
from tests.api.authz_service.service import ALL, CREATE, DELETE, READ, WRITE, Authz, Bearer, refusal


@pytest.fixture
async def admin(authz: Authz) -> Bearer:
    return await authz.admin()


def rows(told: wire.ExplainResponse) -> list[tuple[str, list[int], str, str]]:
    """(node, privileges, group, cutoff) of each reason."""
    return [
        (one.grant.memory_id, list(one.grant.privileges), one.via_group, one.stopped_at)
        for one in told.reasons
    ]


async def test_an_administrator_is_told_every_grant_that_counts_and_every_one_that_was_stopped(
    admin: Bearer, alice: Bearer
):
    root = (await alice.create()).id
    middle = (await alice.create(root, restricted=True)).id
    leaf = (await alice.create(middle)).id
    await admin.create_group("group:team")
    await admin.add_member("group:team", "person:bob")
    own = await alice.grant(leaf, "person:bob", READ)
    await alice.grant(middle, "group:team", WRITE)
    await alice.grant(middle, "group:night", CREATE)
    await alice.grant(root, "person:bob", DELETE)
    await alice.grant(root, "person:carol", READ)
    told = await admin.explain(leaf, "person:bob", ["group:night"])
    assert rows(told) == [
        (leaf, [READ], "", ""),
        (middle, [WRITE], "group:team", ""),
        (middle, [CREATE], "group:night", ""),
        (root, [DELETE], "", middle),
    ]
    assert (told.memory_id, told.principal, told.complete) == (leaf, "person:bob", True)
    assert list(told.privileges) == [READ, WRITE, CREATE]
    assert list(told.groups) == ["group:night", "group:team"]
    assert (told.reasons[0].grant.id, told.reasons[0].grant.inherited) == (own.id, False)
    assert told.reasons[3].grant.inherited
    assert rows(await admin.explain(leaf, "person:bob"))[1:] == [
        (middle, [WRITE], "group:team", ""),
        (root, [DELETE], "", middle),
    ]


async def test_the_creators_implicit_grant_is_a_reason_until_it_is_revoked(admin: Bearer, alice: Bearer):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    told = await admin.explain(leaf, "person:alice")
    assert [(one.grant.memory_id, one.grant.creator) for one in told.reasons] == [(leaf, True), (root, True)]
    assert list(told.privileges) == ALL
    await alice.revoke(leaf, told.reasons[0].grant.id)
    assert [one.grant.memory_id for one in (await admin.explain(leaf, "person:alice")).reasons] == [root]


async def test_of_several_cutoffs_the_nearest_is_the_one_that_stopped_a_grant(admin: Bearer, alice: Bearer):
    root = (await alice.create()).id
    upper = (await alice.create(root, restricted=True)).id
    lower = (await alice.create(upper, restricted=True)).id
    leaf = (await alice.create(lower)).id
    await alice.grant(root, "person:bob", READ)
    assert rows(await admin.explain(leaf, "person:bob")) == [(root, [READ], "", lower)]
    assert rows(await admin.explain(upper, "person:bob")) == [(root, [READ], "", upper)]
    await alice.update(lower, restricted=False)
    assert rows(await admin.explain(leaf, "person:bob")) == [(root, [READ], "", upper)]


async def test_a_group_is_explained_by_its_own_grants(admin: Bearer, alice: Bearer):
    root = (await alice.create()).id
    await alice.grant(root, "group:team", READ)
    told = await admin.explain(root, "group:team")
    assert rows(told) == [(root, [READ], "", "")]
    assert (list(told.privileges), list(told.groups)) == ([READ], [])


async def test_nothing_held_is_explained_by_nothing(admin: Bearer, alice: Bearer):
    root = (await alice.create()).id
    told = await admin.explain(root, "harness:chrn_x")
    assert (rows(told), list(told.privileges), told.complete) == ([], [], True)


async def test_a_holder_of_delete_is_told_what_it_sees_and_never_that_this_is_all(
    admin: Bearer, alice: Bearer, bob: Bearer
):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    await alice.grant(root, "person:carol", READ)
    await alice.grant(leaf, "person:carol", WRITE)
    await alice.grant(leaf, "person:bob", READ, DELETE)
    told = await bob.explain(leaf, "person:carol")
    assert rows(told) == [(leaf, [WRITE], "", "")]
    assert (list(told.privileges), told.complete) == ([WRITE], False)
    assert not (await alice.explain(root, "person:carol")).complete
    assert rows(await alice.explain(leaf, "person:carol")) == [
        (leaf, [WRITE], "", ""),
        (root, [READ], "", ""),
    ]


async def test_a_stopped_grant_is_told_only_to_who_sees_all_that_lies_between(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    closed = (await alice.create(root, restricted=True)).id
    leaf = (await alice.create(closed)).id
    await alice.grant(root, "person:carol", READ)
    await alice.grant(root, "person:bob", READ)
    await alice.grant(leaf, "person:bob", *ALL)
    # bob sees the root and the leaf, and must not learn that one lies above the other.
    told = await bob.explain(leaf, "person:carol")
    assert (rows(told), list(told.groups), told.complete) == ([], [], False)
    await alice.grant(closed, "person:bob", READ)
    assert rows(await bob.explain(leaf, "person:carol")) == [(root, [READ], "", closed)]


async def test_who_is_no_administrator_is_told_of_no_group_that_holds_nothing_here(
    admin: Bearer, alice: Bearer
):
    root = (await alice.create()).id
    for name in ("group:here", "group:elsewhere"):
        await admin.create_group(name)
        await admin.add_member(name, "person:bob")
    await alice.grant(root, "group:here", READ)
    told = await alice.explain(root, "person:bob", ["group:named"])
    assert list(told.groups) == ["group:here", "group:named"]
    everything = await admin.explain(root, "person:bob", ["group:named"])
    assert list(everything.groups) == ["group:elsewhere", "group:here", "group:named"]


async def test_without_delete_there_is_no_explanation(alice: Bearer, bob: Bearer):
    root, hidden = (await alice.create()).id, (await alice.create()).id
    await alice.grant(root, "person:bob", READ, WRITE, CREATE)
    assert (await refusal(bob.explain(root, "person:bob"))).code == "memory_forbidden"
    for node in (hidden, new_id("hmem"), "nonsense", ""):
        error = await refusal(bob.explain(node, "person:bob"))
        assert (error.code, error.message) == ("memory_not_found", "There is no such memory.")


async def test_an_administrator_is_told_that_a_memory_does_not_exist_or_was_deleted(
    admin: Bearer, alice: Bearer
):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    await alice.delete(root)
    for node in (root, leaf, new_id("hmem"), "nonsense"):
        assert (await refusal(admin.explain(node, "person:bob"))).code == "memory_not_found"


async def test_only_principals_and_groups_of_kinds_that_hold_grants_are_explained(
    admin: Bearer, alice: Bearer
):
    root = (await alice.create()).id
    for principal in ("", "bob", "service:memory", "person:"):
        error = await refusal(admin.explain(root, principal))
        assert (error.code, error.param) == ("invalid_input", "principal")
    for groups in (["team"], ["person:x"], [f"group:{n}" for n in range(MOST_GROUPS + 1)]):
        error = await refusal(admin.explain(root, "person:bob", groups))
        assert (error.code, error.param) == ("invalid_input", "groups")


async def test_what_is_explained_is_what_is_decided(authz: Authz, admin: Bearer, alice: Bearer):
    root = (await alice.create()).id
    closed = (await alice.create(root, restricted=True)).id
    leaf = (await alice.create(closed)).id
    await admin.create_group("group:kept")
    await admin.add_member("group:kept", "person:eve")
    await alice.grant(root, "person:eve", READ)
    await alice.grant(closed, "group:kept", WRITE)
    await alice.grant(leaf, "group:named", CREATE)
    eve = await authz.person("eve", "named")
    for node in (root, closed, leaf):
        told = await admin.explain(node, "person:eve", ["group:named"])
        assert list(told.privileges) == list((await eve.check(node)).privileges)
