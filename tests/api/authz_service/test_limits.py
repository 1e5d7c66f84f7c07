"""How many grants one memory has, over gRPC. Other bounds are tested where what they bound is."""

import asyncio
from collections.abc import Awaitable

import pytest

from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.api.authz_service.service import READ, WRITE, Authz, Bearer, Sql, refusal

MANY = (
    "insert into grants (id, node, principal, privs, created_at)"
    " select 'hgrt_' || n, (select id from node), 'person:' || n, 1, now() from generate_series(1, 999) n"
)


@pytest.fixture
async def crowded(alice: Bearer, sql: Sql) -> str:
    """A memory of alice's with room for one more grant."""
    root = (await alice.create()).id
    sql(MANY)
    return root


async def outcome(call: Awaitable[object]) -> str:
    try:
        await call
    except GroveError as error:
        return f"{error.code} {error.param}"
    return ""


async def everyone(bearer: Bearer, node: str) -> set[str]:
    """Who holds a grant that sits on the memory."""
    found: set[str] = set()
    cursor = ""
    while True:
        page = await bearer.grants_page(node, 200, cursor)
        found |= {one.principal for one in page.grants}
        cursor = page.next_cursor
        if not cursor:
            return found


async def test_a_thousand_grants_sit_on_a_memory_and_no_more_even_at_once(alice: Bearer, crowded: str):
    calls = [alice.grant(crowded, f"credential:{n}", READ) for n in range(4)]
    calls += [alice.grant(crowded, "credential:same", READ) for _ in range(3)]
    outcomes = await asyncio.gather(*map(outcome, calls))
    assert set(outcomes) == {"", "memory_invalid principal"}
    assert len(await everyone(alice, crowded)) == 1_001  # and the creator


async def test_what_a_principal_has_can_be_widened_where_there_is_no_room(alice: Bearer, crowded: str):
    await alice.grant(crowded, "person:last", READ)
    assert list((await alice.grant(crowded, "person:7", WRITE)).privileges) == [READ, WRITE]
    error = await refusal(alice.grant(crowded, "person:more", READ))
    assert (error.code, error.param) == ("memory_invalid", "principal")
    assert "group" in error.message


async def test_a_harness_is_attached_only_where_there_is_room(authz: Authz, alice: Bearer, crowded: str):
    first, second = new_id("chrn"), new_id("chrn")
    await alice.attach(first, (crowded, "read"))
    assert (await refusal(alice.attach(second, (crowded, "read")))).code == "memory_invalid"
    await alice.attach(first, (crowded, "write"))
    assert list((await (await authz.harness(first)).check(crowded)).privileges) == [READ, WRITE]


async def test_room_is_made_by_revoking(alice: Bearer, crowded: str):
    last = await alice.grant(crowded, "person:last", READ)
    await alice.revoke(crowded, last.id)
    await alice.grant(crowded, "person:next", READ)
