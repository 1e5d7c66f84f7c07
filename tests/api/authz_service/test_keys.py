"""Keyed changes over gRPC: once each, and a repeat is answered as the first time."""

import asyncio

from protos.common.v1.common_pb2 import Idempotency
from tests.api.authz_service.service import DELETE, READ, SERVICE_TOKEN, WRITE, Authz, Bearer, refusal

KEY = Idempotency(key="once", request_sha256=b"a request")
OTHER = Idempotency(key="once", request_sha256=b"another request")
MISMATCH = "grovekeeper_idempotency_mismatch"


async def test_a_repeated_grant_does_not_grant_again_what_was_revoked_meanwhile(alice: Bearer):
    root = (await alice.create()).id
    first = await alice.grant(root, "person:bob", READ, key=KEY)
    await alice.revoke(root, first.id)
    assert await alice.grant(root, "person:bob", READ, key=KEY) == first
    assert [one.principal for one in await alice.grants(root)] == ["person:alice"]
    assert (await refusal(alice.grant(root, "person:bob", WRITE, key=OTHER))).code == MISMATCH


async def test_a_repeated_revocation_is_answered_the_grant_as_it_was(alice: Bearer):
    root = (await alice.create()).id
    grant = await alice.grant(root, "person:bob", READ)
    first = await alice.revoke(root, grant.id, KEY)
    again = await alice.grant(root, "person:bob", READ)
    assert await alice.revoke(root, grant.id, KEY) == first
    assert again.id in {one.id for one in await alice.grants(root)}
    assert (await refusal(alice.revoke(root, again.id, OTHER))).code == MISMATCH


async def test_one_key_is_another_with_another_principal_and_in_another_operation(alice: Bearer, bob: Bearer):
    root, his = (await alice.create()).id, (await bob.create()).id
    grant = await alice.grant(root, "person:carol", READ, key=KEY)
    assert (await bob.grant(his, "person:carol", READ, key=KEY)).memory_id == his
    assert (await alice.revoke(root, grant.id, KEY)).id == grant.id
    assert (await alice.update(root, restricted=True, key=KEY)).restricted
    await alice.delete(root, KEY)


async def test_ten_at_once_are_one_change_and_one_answer(alice: Bearer):
    root = (await alice.create()).id
    grants = await asyncio.gather(*(alice.grant(root, "person:bob", READ, key=KEY) for _ in range(10)))
    assert {one.id for one in grants} == {grants[0].id}
    revoked = await asyncio.gather(*(alice.revoke(root, grants[0].id, KEY) for _ in range(10)))
    assert [one.id for one in revoked] == [grants[0].id] * 10
    await asyncio.gather(*(alice.delete(root, KEY) for _ in range(10)))
    assert (await refusal(alice.check(root))).code == "memory_not_found"


async def test_a_repeated_update_undoes_nothing_that_was_done_meanwhile(alice: Bearer):
    one, two, node = [(await alice.create()).id for _ in range(3)]
    moved = await alice.update(node, parent=one, restricted=True, key=KEY)
    await alice.update(node, parent=two, restricted=False)
    assert await alice.update(node, parent=one, restricted=True, key=KEY) == moved
    now = await alice.check(node)
    assert (now.parent_id, now.restricted) == (two, False)
    assert (await refusal(alice.update(node, parent=one, key=OTHER))).code == MISMATCH


async def test_a_repeated_delete_is_answered_though_nobody_sees_the_node_any_more(alice: Bearer):
    node = (await alice.create()).id
    await alice.delete(node, KEY)
    await alice.delete(node, KEY)
    assert (await refusal(alice.delete(node))).code == "memory_not_found"
    assert (await refusal(alice.delete((await alice.create()).id, OTHER))).code == MISMATCH


async def test_a_repeat_is_for_those_who_still_see_the_memory_and_for_nobody_else(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    held = await alice.grant(root, "person:bob", READ, DELETE)
    first = await bob.grant(root, "person:carol", READ, key=KEY)
    await alice.revoke(root, held.id)
    assert (await refusal(bob.grant(root, "person:carol", READ, key=KEY))).code == "memory_not_found"
    await alice.grant(root, "person:bob", READ)
    assert await bob.grant(root, "person:carol", READ, key=KEY) == first
    # What is new needs the right to do it, key or no key.
    fresh = Idempotency(key="new", request_sha256=b"a request")
    assert (await refusal(bob.grant(root, "person:carol", WRITE, key=fresh))).code == "memory_forbidden"
    assert (await refusal(bob.delete(root, fresh))).code == "memory_forbidden"
    assert (await refusal(bob.update(root, restricted=True, key=fresh))).code == "memory_forbidden"


async def test_a_refused_change_leaves_its_key_free(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    await alice.grant(root, "person:bob", READ)
    assert (await refusal(bob.grant(root, "person:carol", READ, key=KEY))).code == "memory_forbidden"
    await alice.grant(root, "person:bob", DELETE)
    assert (await bob.grant(root, "person:dora", READ, key=OTHER)).principal == "person:dora"


async def test_what_a_key_answered_goes_with_its_memory(authz: Authz, alice: Bearer):
    root = (await alice.create()).id
    await alice.grant(root, "person:bob", READ, key=KEY)
    await alice.delete(root)
    await (await authz.bearer(SERVICE_TOKEN)).purge([root])
    for key in (KEY, OTHER):
        assert (await refusal(alice.grant(root, "person:bob", READ, key=key))).code == "memory_not_found"
