"""The tree's shape over gRPC."""

from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.authz.v1 import authz_pb2 as wire
from protos.common.v1.common_pb2 import Page
from service_kit.ids import new_id
from tests.api.authz_service.service import (
    ALL,
    CREATE,
    DELETE,
    READ,
    WRITE,
    Authz,
    Bearer,
    Sql,
    bootstrap,
    refusal,
    serving,
)


async def test_creating_needs_create_on_the_parent(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    assert (await refusal(bob.create(root))).code == "memory_not_found"
    await alice.grant(root, "person:bob", READ, WRITE, DELETE)
    assert (await refusal(bob.create(root))).code == "memory_forbidden"
    await alice.grant(root, "person:bob", CREATE)
    made = await bob.create(root, restricted=True)
    assert (made.parent_id, made.restricted, list(made.privileges)) == (root, True, ALL)
    assert (await refusal(alice.check(made.id))).code == "memory_not_found"


async def test_the_same_id_again_answers_the_node_to_its_creator_only(alice: Bearer, bob: Bearer):
    node = new_id("hmem")
    made = await alice.create(node=node)
    await alice.update(node, restricted=True)
    again = await alice.create(node=node)
    assert (again.id, again.restricted, made.restricted) == (node, True, False)
    assert (await refusal(bob.create(node=node))).code == "grovekeeper_conflict"
    assert (await refusal(alice.create(node="hmem_1"))).param == "id"


async def test_who_may_create_a_root_is_a_setting(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path
):
    file = bootstrap(tmp_path)
    async with serving(service_database("authz"), keys, file, authz_root_creation="admin") as authz:
        admin, alice = await authz.admin(), await authz.person("alice")
        root = (await admin.create()).id
        assert (await refusal(alice.create())).code == "insufficient_scope"
        await admin.grant(root, "person:alice", *ALL)
        child = (await alice.create(root)).id
        assert (await refusal(alice.update(child, parent=""))).code == "insufficient_scope"


async def test_a_move_needs_delete_here_and_create_there(alice: Bearer, bob: Bearer):
    here, there = (await alice.create()).id, (await alice.create()).id
    node = (await alice.create(here)).id
    await alice.grant(node, "person:bob", READ, WRITE)
    assert (await refusal(bob.update(node, parent=there))).code == "memory_forbidden"
    await alice.grant(node, "person:bob", DELETE)
    assert (await refusal(bob.update(node, parent=there))).code == "memory_not_found"
    await alice.grant(there, "person:bob", READ)
    error = await refusal(bob.update(node, parent=there))
    assert (error.code, error.param) == ("memory_forbidden", "parent_id")
    await alice.grant(there, "person:bob", CREATE)
    assert (await bob.update(node, parent=there)).parent_id == there
    assert (await alice.check(here)).children_count == 0


@pytest.mark.requirement("ME-2-15")
async def test_a_move_takes_what_lies_below_along_and_leaves_old_grants_behind(alice: Bearer, bob: Bearer):
    here, there = (await alice.create()).id, (await alice.create()).id
    node = (await alice.create(here)).id
    below = (await alice.create(node)).id
    await alice.grant(here, "person:bob", READ)
    assert (await bob.check(below)).id == below
    await alice.update(node, parent=there)
    assert (await refusal(bob.check(below))).code == "memory_not_found"
    assert list((await alice.check(below)).ancestors) == [there, node]
    assert (await alice.update(node, parent="")).parent_id == ""
    assert list((await alice.check(below)).ancestors) == [node]


@pytest.mark.requirement("ME-12-05")
async def test_nothing_is_moved_below_itself(alice: Bearer):
    root = (await alice.create()).id
    child = (await alice.create(root)).id
    leaf = (await alice.create(child)).id
    for target in (root, child, leaf):
        error = await refusal(alice.update(root, parent=target))
        assert (error.code, error.param) == ("memory_invalid", "parent_id")


async def test_a_tree_has_sixty_four_levels(alice: Bearer):
    node, line = "", list[str]()
    for _ in range(64):
        node = (await alice.create(node)).id
        line.append(node)
    assert (await refusal(alice.create(node))).code == "memory_invalid"
    tall = (await alice.create()).id
    await alice.create(tall)
    assert (await refusal(alice.update(tall, parent=line[62]))).code == "memory_invalid"
    assert (await alice.update(tall, parent=line[61])).parent_id == line[61]
    assert len((await alice.check(line[63])).ancestors) == 63


@pytest.mark.requirement("ME-3.2-01")
async def test_restricting_needs_delete_and_cuts_off_at_once(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    node = (await alice.create(root)).id
    await alice.grant(root, "person:bob", READ, WRITE, CREATE)
    assert (await refusal(bob.update(node, restricted=True))).code == "memory_forbidden"
    assert (await alice.update(node, restricted=True)).restricted
    assert (await refusal(bob.check(node))).code == "memory_not_found"
    assert not (await alice.update(node, restricted=False)).restricted
    assert (await bob.check(node)).id == node


async def test_who_shuts_itself_out_is_told_what_became_of_the_node(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    node = (await alice.create(root)).id
    await alice.grant(root, "person:bob", READ, DELETE)
    after = await bob.update(node, restricted=True)
    assert (after.id, after.restricted, list(after.privileges)) == (node, True, [])
    assert (await refusal(bob.check(node))).code == "memory_not_found"


async def test_what_changes_elsewhere_is_demanded_too(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    await alice.grant(root, "person:bob", READ)
    assert (await refusal(bob.update(root, needs=WRITE))).code == "memory_forbidden"
    assert (await bob.update(root)).id == root
    await alice.grant(root, "person:bob", WRITE)
    assert (await bob.update(root, needs=WRITE)).id == root


async def test_sending_back_what_was_read_changes_nothing(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    node = (await alice.create(root)).id
    await alice.grant(node, "person:bob", READ, WRITE)
    # Bob does not see the parent and so is shown a root; what he sends back is no wish to make it one.
    shown = await bob.check(node)
    assert (await bob.update(node, parent=shown.parent_id, restricted=False, needs=WRITE)).id == node
    assert (await alice.check(node)).parent_id == root
    # Nor does he find out the parent by guessing it.
    await alice.grant(node, "person:bob", DELETE)
    assert (await refusal(bob.update(node, parent=root))).code == "memory_not_found"


@pytest.mark.requirement("ME-2-16")
async def test_deleting_takes_everything_below_from_everybody(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    node = (await alice.create(root)).id
    private = (await bob_creates_below(alice, bob, node)).id
    await alice.grant(node, "person:bob", READ)
    assert (await refusal(bob.delete(node))).code == "memory_forbidden"
    await alice.delete(node)
    for one in (node, private):
        assert (await refusal(bob.check(one))).code == "memory_not_found"
    assert (await refusal(alice.delete(node))).code == "memory_not_found"
    assert (await alice.check(root)).children_count == 0


async def bob_creates_below(alice: Bearer, bob: Bearer, node: str) -> wire.Node:
    grant = await alice.grant(node, "person:bob", CREATE)
    made = await bob.create(node, restricted=True)
    await alice.revoke(node, grant.id)
    return made


async def test_reconciling_is_for_services_only(authz: Authz, alice: Bearer):
    for call in (
        alice.existing([]),
        alice.node_ids(wire.ListNodeIdsRequest()),
        alice.discard([]),
        alice.deleted(),
        alice.purge([]),
        alice.hold(new_id("hmem")),
        alice.release(new_id("hmem")),
    ):
        assert (await refusal(call)).code == "insufficient_scope"


async def test_a_service_can_compare_what_exists(authz: Authz, alice: Bearer):
    service = await authz.service()
    nodes = sorted([(await alice.create()).id for _ in range(3)])
    assert await service.existing([*nodes, new_id("hmem")]) == nodes
    tomorrow, yesterday = Timestamp(), Timestamp()
    tomorrow.FromSeconds(4_000_000_000)
    first = await service.node_ids(wire.ListNodeIdsRequest(created_before=tomorrow, page=Page(limit=2)))
    assert list(first.memory_ids) == nodes[:2]
    rest = await service.node_ids(
        wire.ListNodeIdsRequest(created_before=tomorrow, page=Page(limit=2, cursor=first.next_cursor))
    )
    assert (list(rest.memory_ids), rest.next_cursor) == (nodes[2:], "")
    assert not (await service.node_ids(wire.ListNodeIdsRequest(created_before=yesterday))).memory_ids


async def test_discarding_leaves_what_something_whole_lies_below(authz: Authz, alice: Bearer):
    service = await authz.service()
    root = (await alice.create()).id
    half = (await alice.create(root)).id
    half_below = (await alice.create(half)).id
    await service.discard([half, half_below])
    assert await service.existing([root, half, half_below]) == [root]
    whole = (await alice.create(root)).id
    await service.discard([root])
    assert await service.existing([root, whole]) == sorted([root, whole])


async def test_what_was_deleted_is_named_level_by_level_until_it_is_let_go_of(authz: Authz, alice: Bearer):
    service = await authz.service()
    root = (await alice.create()).id
    node = (await alice.create(root)).id
    below = sorted([(await alice.create(node)).id for _ in range(3)])
    leaf = (await alice.create(below[0])).id
    await alice.grant(leaf, "person:bob", READ)
    await alice.delete(node)
    assert await service.existing([root, node]) == [root]
    assert await service.deleted() == [node]
    # What is there, or was never deleted, is not let go of, whatever is asked.
    await service.purge([root, leaf, new_id("hmem")])
    assert await service.deleted() == [node]
    await service.purge([node])
    assert sorted(await service.deleted()) == below
    assert (await refusal(alice.check(leaf))).code == "memory_not_found"
    assert len(await service.deleted(limit=2)) == 2
    await service.purge(below)
    await service.purge(below)
    assert await service.deleted() == [leaf]
    await service.purge([leaf])
    assert await service.deleted() == []
    assert (await alice.check(root)).children_count == 0


@pytest.mark.requirement("ME-12-09")
async def test_what_is_worked_upon_is_neither_moved_nor_deleted_nor_what_is_above_it(
    authz: Authz, alice: Bearer
):
    service = await authz.service()
    root, elsewhere = (await alice.create()).id, (await alice.create()).id
    node = (await alice.create(root)).id
    leaf = (await alice.create(node)).id
    await service.hold(node, "hcon_1")
    await service.hold(node, "hcon_2")
    for one in (root, node):
        for call in (alice.delete(one), alice.update(one, parent=elsewhere)):
            assert (await refusal(call)).code == "memory_busy"
    assert (await refusal(alice.update(node, parent=""))).code == "memory_busy"
    # Below it, beside it and in all other respects the tree is free.
    assert (await alice.update(leaf, parent=elsewhere)).parent_id == elsewhere
    assert (await alice.update(node, restricted=True)).restricted
    assert (await alice.create(node)).parent_id == node
    await service.release(node, "hcon_1")
    await service.release(node, "hcon_1")
    assert (await refusal(alice.delete(node))).code == "memory_busy"
    await service.release(node, "hcon_2")
    await alice.delete(node)
    assert (await refusal(service.hold(node))).code == "memory_not_found"


async def test_a_mark_of_work_lapses_with_its_time_and_is_prolonged_by_its_holder(
    authz: Authz, alice: Bearer, sql: Sql
):
    service = await authz.service()
    node = (await alice.create()).id
    await service.hold(node)
    sql("update hold set until = clock_timestamp()")
    await service.hold(node)
    assert (await refusal(alice.delete(node))).code == "memory_busy"
    sql("update hold set until = clock_timestamp()")
    await alice.delete(node)


@pytest.mark.parametrize(("holder", "ttl"), [("", 60), ("x" * 101, 60), ("a\nb", 60), ("a", 0), ("a", 3601)])
async def test_a_mark_of_work_has_a_holder_and_an_end(authz: Authz, alice: Bearer, holder: str, ttl: int):
    service = await authz.service()
    node = (await alice.create()).id
    assert (await refusal(service.hold(node, holder, ttl))).code == "invalid_input"


@pytest.mark.parametrize("privilege", [17, -1])
async def test_a_privilege_there_is_not_is_refused(alice: Bearer, privilege: wire.Privilege.ValueType):
    root = (await alice.create()).id
    for call in (
        alice.check(root, privilege),
        alice.update(root, needs=privilege),
        alice.grant(root, "person:bob", privilege),
    ):
        assert (await refusal(call)).code == "invalid_input"
