"""What holds when callers act at the same time."""

import asyncio
from collections.abc import Awaitable

from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.api.authz_service.service import CREATE, DELETE, READ, Authz, Bearer


async def outcome(call: Awaitable[object]) -> str:
    try:
        await call
    except GroveError as error:
        return error.code
    return ""


async def test_opposite_moves_never_make_a_ring(alice: Bearer):
    for _ in range(8):
        one, two, three = [(await alice.create()).id for _ in range(3)]
        outcomes = await asyncio.gather(
            outcome(alice.update(one, parent=two)),
            outcome(alice.update(two, parent=three)),
            outcome(alice.update(three, parent=one)),
        )
        assert sorted(outcomes) == ["", "", "memory_invalid"]
        lines = [len((await alice.check(node)).ancestors) for node in (one, two, three)]
        assert sorted(lines) == [0, 1, 2]


async def test_a_check_that_starts_after_a_revoke_never_says_yes(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    for _ in range(10):
        grant = await alice.grant(root, "person:bob", READ)
        busy = asyncio.Event()

        async def keep_asking(busy: asyncio.Event = busy) -> None:
            # Others' questions are under way all the time, for this one to be answered together with.
            while not busy.is_set():
                await asyncio.gather(*(alice.check(leaf) for _ in range(8)))

        asking = asyncio.create_task(keep_asking())
        assert await outcome(bob.check(leaf)) == ""
        racing = [asyncio.create_task(outcome(bob.check(leaf))) for _ in range(4)]
        await alice.revoke(root, grant.id)
        after = await asyncio.gather(*(outcome(bob.check(leaf)) for _ in range(16)))
        busy.set()
        await asking
        assert set(after) == {"memory_not_found"}
        assert set(await asyncio.gather(*racing)) <= {"", "memory_not_found"}


async def test_the_same_create_at_once_makes_one_node(alice: Bearer):
    root, node = (await alice.create()).id, new_id("hmem")
    made = await asyncio.gather(*(alice.create(root, node=node) for _ in range(8)))
    assert {one.id for one in made} == {node}
    assert (await alice.check(root)).children_count == 1


async def test_nothing_is_left_below_what_is_deleted_meanwhile(authz: Authz, alice: Bearer, bob: Bearer):
    service = await authz.service()
    for _ in range(6):
        root = (await alice.create()).id
        await alice.grant(root, "person:bob", CREATE)
        nodes = [new_id("hmem") for _ in range(6)]
        _, *outcomes = await asyncio.gather(
            alice.delete(root), *(outcome(bob.create(root, node=node)) for node in nodes)
        )
        for node, came in zip(nodes, outcomes, strict=True):
            assert came in ("", "memory_not_found")
            assert await outcome(bob.check(node)) == "memory_not_found"
        while deleted := await service.deleted():
            await service.purge(deleted)
        assert await service.existing([root, *nodes]) == []
        # No row is left that nobody reaches: every id is free again.
        assert [await outcome(alice.create(node=node)) for node in nodes] == [""] * len(nodes)


async def test_grants_at_once_are_all_kept(alice: Bearer):
    root = (await alice.create()).id
    await asyncio.gather(
        *(alice.grant(root, f"person:{number % 3}", number % 4 + 1) for number in range(24))  # pyright: ignore[reportArgumentType]
    )
    held = {one.principal: len(one.privileges) for one in await alice.grants(root) if not one.creator}
    assert held == {"person:0": 4, "person:1": 4, "person:2": 4}


async def test_harnesses_attached_at_once_do_not_block_one_another(alice: Bearer):
    nodes = [(await alice.create()).id for _ in range(4)]
    harness = new_id("chrn")
    await asyncio.gather(
        *(alice.attach(harness, *((node, "write") for node in nodes[::step])) for step in (1, -1) * 6)
    )
    for node in nodes:
        assert len(await alice.grants(node)) == 2


async def test_nobody_gives_itself_back_what_is_revoked_at_that_moment(alice: Bearer, bob: Bearer):
    for _ in range(20):
        root = (await alice.create()).id
        grant = await alice.grant(root, "person:bob", READ, DELETE)
        _, *again = await asyncio.gather(
            alice.revoke(root, grant.id), *(outcome(bob.grant(root, "person:bob", READ)) for _ in range(4))
        )
        assert set(again) <= {"", "memory_not_found"}
        # Granted before or refused after: either way the revoke, which was answered, holds.
        assert await outcome(bob.check(root)) == "memory_not_found"


async def test_of_two_who_revoke_one_another_one_is_first(authz: Authz, alice: Bearer, bob: Bearer):
    carol = await authz.person("carol")
    for _ in range(10):
        root = (await alice.create()).id
        grants = [await alice.grant(root, f"person:{name}", DELETE) for name in ("bob", "carol")]
        came = await asyncio.gather(
            outcome(bob.revoke(root, grants[1].id)), outcome(carol.revoke(root, grants[0].id))
        )
        assert sorted(came) == ["", "memory_not_found"]


async def test_who_sets_a_cutoff_and_who_takes_its_right_at_once_do_not_both_win(
    authz: Authz, alice: Bearer, bob: Bearer
):
    carol = await authz.person("carol")
    for _ in range(10):
        root = (await alice.create()).id
        node = (await alice.create(root)).id
        await alice.grant(root, "person:carol", DELETE)
        bobs = await alice.grant(node, "person:bob", DELETE)
        came = await asyncio.gather(
            outcome(bob.update(node, restricted=True)), outcome(carol.revoke(node, bobs.id))
        )
        assert sorted(came) == ["", "memory_not_found"]
