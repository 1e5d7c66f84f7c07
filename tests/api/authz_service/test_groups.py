"""Groups and who is in them, over gRPC."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime

import pytest

from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.api.authz_service.service import READ, WRITE, Authz, Bearer, Sql, refusal


@pytest.fixture
async def admin(authz: Authz) -> Bearer:
    return await authz.admin()


async def test_who_is_in_a_group_holds_what_the_group_holds_from_that_moment_on(
    admin: Bearer, alice: Bearer, bob: Bearer
):
    root = (await alice.create()).id
    await admin.create_group("group:team")
    await alice.grant(root, "group:team", READ)
    assert (await refusal(bob.check(root))).code == "memory_not_found"
    await admin.add_member("group:team", "person:bob")
    assert list((await bob.check(root)).privileges) == [READ]
    await admin.remove_member("group:team", "person:bob")
    assert (await refusal(bob.check(root))).code == "memory_not_found"


async def test_a_harness_can_be_in_a_group(authz: Authz, admin: Bearer, alice: Bearer):
    root, harness = (await alice.create()).id, new_id("chrn")
    await admin.create_group("group:desks")
    await admin.add_member("group:desks", f"harness:{harness}")
    await alice.grant(root, "group:desks", READ, WRITE)
    assert list((await (await authz.harness(harness)).check(root)).privileges) == [READ, WRITE]
    assert list((await (await authz.harness(harness, (root, "read"))).check(root)).privileges) == [READ]


async def test_everybody_is_told_who_it_is_with_both_kinds_of_groups(authz: Authz, admin: Bearer):
    for name in ("group:zoo", "group:sales", "group:ants"):
        await admin.create_group(name)
        await admin.add_member(name, "person:bob")
    bob = await authz.person("bob", "sales", "night")
    told = await bob.who_am_i()
    assert (told.principal, list(told.scopes)) == ("person:bob", ["user"])
    assert list(told.groups) == ["group:ants", "group:night", "group:sales", "group:zoo"]
    assert list(told.managed_groups) == ["group:ants", "group:sales", "group:zoo"]
    assert told.token_id == bob.passport.token_id
    assert told.token_id.startswith("tok_")
    told = await (await authz.harness(new_id("chrn"))).who_am_i()
    assert (list(told.groups), told.token_id) == ([], "")


async def test_a_group_is_told_with_how_many_are_in_it(admin: Bearer):
    made = await admin.create_group("group:team", "Who works here.")
    assert (made.name, made.description, made.members_count) == ("group:team", "Who works here.", 0)
    assert abs((made.created_at.ToDatetime(UTC) - datetime.now(UTC)).total_seconds()) < 60
    for principal in ("person:bob", "credential:ci"):
        await admin.add_member("group:team", principal)
    assert (await admin.group("group:team")).members_count == 2
    assert [(one.name, one.members_count) for one in (await admin.groups()).groups] == [("group:team", 2)]
    assert (await admin.delete_group("group:team")).members_count == 2


async def test_adding_again_is_as_good_as_once_and_removing_who_is_not_in_it_is_refused(admin: Bearer):
    await admin.create_group("group:team")
    first = await admin.add_member("group:team", "person:bob")
    assert (first.group, first.principal, first.added_by) == ("group:team", "person:bob", "credential:admin")
    assert await admin.add_member("group:team", "person:bob") == first
    assert await admin.remove_member("group:team", "person:bob") == first
    error = await refusal(admin.remove_member("group:team", "person:bob"))
    assert (error.code, error.param) == ("grovekeeper_not_found", "principal")


async def test_a_group_that_is_there_is_not_made_again_and_one_that_is_not_is_not_found(admin: Bearer):
    await admin.create_group("group:team")
    assert (await refusal(admin.create_group("group:team"))).code == "grovekeeper_conflict"
    for call in (
        admin.group("group:other"),
        admin.delete_group("group:other"),
        admin.members("group:other"),
        admin.add_member("group:other", "person:bob"),
        admin.remove_member("group:other", "person:bob"),
    ):
        error = await refusal(call)
        assert (error.code, error.param) == ("grovekeeper_not_found", "name")


async def test_groups_do_not_nest_and_the_refusal_says_so(admin: Bearer):
    await admin.create_group("group:inner")
    await admin.create_group("group:outer")
    error = await refusal(admin.add_member("group:outer", "group:inner"))
    assert (error.code, error.param) == ("invalid_input", "principal")
    assert "do not nest" in error.message


@pytest.mark.parametrize("principal", ["", "bob", "service:memory", "robot:1", "person:", "person:a b"])
async def test_only_a_principal_of_a_kind_that_can_ask_is_put_in_a_group(admin: Bearer, principal: str):
    await admin.create_group("group:team")
    error = await refusal(admin.add_member("group:team", principal))
    assert (error.code, error.param) == ("invalid_input", "principal")


@pytest.mark.parametrize("name", ["", "team", "person:bob", "group:", "group:a b", "group:" + "x" * 201])
async def test_a_group_is_called_group_and_something(admin: Bearer, name: str):
    error = await refusal(admin.create_group(name))
    assert (error.code, error.param) == ("invalid_input", "name")


async def test_a_description_has_its_bound(admin: Bearer):
    assert (await admin.create_group("group:a", "x" * 1_000)).description == "x" * 1_000
    assert (await refusal(admin.create_group("group:b", "x" * 1_001))).param == "description"


async def test_groups_are_for_administrators(alice: Bearer):
    for call in (
        alice.create_group("group:team"),
        alice.groups(),
        alice.group("group:team"),
        alice.delete_group("group:team"),
        alice.add_member("group:team", "person:alice"),
        alice.remove_member("group:team", "person:alice"),
        alice.members("group:team"),
    ):
        assert (await refusal(call)).code == "insufficient_scope"


async def test_with_a_group_go_its_memberships_and_its_grants_so_that_a_later_one_inherits_nothing(
    admin: Bearer, alice: Bearer, bob: Bearer
):
    one, two = (await alice.create()).id, (await alice.create()).id
    await admin.create_group("group:team")
    await admin.add_member("group:team", "person:bob")
    for node in (one, two):
        await alice.grant(node, "group:team", READ)
    await bob.check(one)
    await admin.delete_group("group:team")
    assert (await refusal(bob.check(one))).code == "memory_not_found"
    assert {grant.principal for grant in await alice.grants(two)} == {"person:alice"}
    await admin.create_group("group:team")
    assert (await admin.group("group:team")).members_count == 0
    await admin.add_member("group:team", "person:bob")
    assert (await refusal(bob.check(one))).code == "memory_not_found"


async def test_a_grant_may_name_a_group_that_nobody_keeps(authz: Authz, alice: Bearer):
    root = (await alice.create()).id
    await alice.grant(root, "group:of-the-issuer", READ)
    assert (await (await authz.person("eve", "of-the-issuer")).check(root)).id == root


async def test_groups_and_members_come_in_pages_that_what_is_added_meanwhile_does_not_shift(admin: Bearer):
    for name in "acdb":
        await admin.create_group(f"group:{name}")
        await admin.add_member("group:a", f"person:{name}")
    first = await admin.groups(limit=2)
    assert [one.name for one in first.groups] == ["group:a", "group:b"]
    members = await admin.members("group:a", limit=2)
    assert [one.principal for one in members.members] == ["person:a", "person:b"]
    await admin.create_group("group:aa")
    await admin.add_member("group:a", "person:aa")
    last = await admin.groups(limit=2, cursor=first.next_cursor)
    assert ([one.name for one in last.groups], last.next_cursor) == (["group:c", "group:d"], "")
    rest = await admin.members("group:a", limit=2, cursor=members.next_cursor)
    assert ([one.principal for one in rest.members], rest.next_cursor) == (["person:c", "person:d"], "")
    assert (await refusal(admin.groups(cursor="nonsense"))).param == "cursor"


async def test_the_groups_of_one_principal_can_be_asked_for(admin: Bearer):
    for name in ("group:a", "group:b", "group:c"):
        await admin.create_group(name)
    for name in ("group:c", "group:a"):
        await admin.add_member(name, "person:bob")
    assert [one.name for one in (await admin.groups("person:bob")).groups] == ["group:a", "group:c"]
    assert not (await admin.groups("person:nobody")).groups
    assert (await refusal(admin.groups("group:a"))).param == "member"


MANY_MEMBERS = (
    "insert into principal_group (name, description, created_at) values ('group:big', '', now());"
    "insert into member (principal, group_name, added_at, added_by)"
    " select 'person:' || n, 'group:big', now(), '' from generate_series(1, 9999) n"
)
MANY_MEMBERSHIPS = (
    "insert into principal_group (name, description, created_at)"
    " select 'group:' || n, '', now() from generate_series(1, 110) n;"
    "insert into member (principal, group_name, added_at, added_by)"
    " select 'person:bob', 'group:' || n, now(), '' from generate_series(1, 99) n"
)
MANY_GROUPS = (
    "insert into principal_group (name, description, created_at)"
    " select 'group:' || n, '', now() from generate_series(1, 9999) n"
)


async def at_once(*calls: Awaitable[object]) -> list[str]:
    """What each comes to: "" or the field it was refused for."""

    async def outcome(call: Awaitable[object]) -> str:
        try:
            await call
        except GroveError as error:
            return f"{error.code} {error.param}"
        return ""

    return sorted(await asyncio.gather(*map(outcome, calls)))


async def test_a_group_takes_ten_thousand_members_and_no_more_even_at_once(admin: Bearer, sql: Sql):
    sql(MANY_MEMBERS)
    outcomes = await at_once(*(admin.add_member("group:big", f"credential:{n}") for n in range(5)))
    assert outcomes == ["", *["invalid_input name"] * 4]
    assert (await admin.group("group:big")).members_count == 10_000
    await admin.add_member("group:big", "person:1")  # who is in it is in it


async def test_a_principal_is_put_in_a_hundred_groups_and_no_more_even_at_once(admin: Bearer, sql: Sql):
    sql(MANY_MEMBERSHIPS)
    outcomes = await at_once(*(admin.add_member(f"group:{n}", "person:bob") for n in range(100, 106)))
    assert outcomes == ["", *["invalid_input principal"] * 5]
    assert (await admin.add_member("group:7", "person:bob")).principal == "person:bob"


async def test_ten_thousand_groups_are_kept_and_no_more_even_at_once(admin: Bearer, sql: Sql):
    sql(MANY_GROUPS)
    outcomes = await at_once(*(admin.create_group(f"group:new-{n}") for n in range(4)))
    assert outcomes == ["", *["invalid_input name"] * 3]


async def test_adding_to_a_group_that_is_deleted_meanwhile_leaves_nothing_behind(admin: Bearer):
    for _ in range(5):
        await admin.create_group("group:team")
        outcomes = await at_once(
            admin.delete_group("group:team"),
            *(admin.add_member("group:team", f"person:{n}") for n in range(6)),
        )
        assert set(outcomes) <= {"", "grovekeeper_not_found name"}
        for n in range(6):
            assert not (await admin.groups(f"person:{n}")).groups
