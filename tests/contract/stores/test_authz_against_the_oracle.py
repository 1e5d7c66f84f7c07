"""Random trees, grants and changes: the service on a real Postgres and the naive oracle never disagree."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from authz_service.domain import list_entry_points as entry_points_module
from authz_service.domain.add_grant import AddGrant
from authz_service.domain.attach_harness import AttachHarness
from authz_service.domain.caller import Caller
from authz_service.domain.check import check, check_many
from authz_service.domain.create_node import CreateNode
from authz_service.domain.decide import RootRight
from authz_service.domain.delete_node import delete_node
from authz_service.domain.list_children import list_children
from authz_service.domain.list_descendants import list_descendants
from authz_service.domain.list_entry_points import list_entry_points
from authz_service.domain.list_grants import list_grants
from authz_service.domain.model import Entry, Found, Listing, Page, Place
from authz_service.domain.revoke_grant import revoke_grant
from authz_service.domain.update_node import UpdateNode, Wanted
from authz_service.store import decide, view
from authz_service.store.postgres import PostgresStore
from authz_service.store.view import creator_grant_id
from service_kit.clock import SystemClock
from service_kit.db.pool import Database, Limits
from service_kit.errors import GroveError
from service_kit.identity import Narrowing, Passport
from tests.contract.stores.authz_oracle import ALL, CREATE, DELETE, READ, WRITE, Oracle, Seen, Who

HARNESS = "chrn_" + "0" * 32
PRINCIPALS = ("person:a", "person:b", "group:g", "group:h", f"harness:{HARNESS}")
MOST = 12


def node_id(number: int) -> str:
    """Ids in an order that has nothing to do with the tree's."""
    return "hmem_" + hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


Nodes = st.integers(0, MOST)  # the last one never exists
# Privileges without read, and harnesses, come often: a narrowing hides what has only those.
Masks = st.sampled_from([READ, WRITE, WRITE, READ | WRITE, CREATE, DELETE, READ | CREATE, ALL])
Names = st.sampled_from((*PRINCIPALS, PRINCIPALS[-1], PRINCIPALS[-1]))
Narrow = st.lists(st.tuples(Nodes.map(node_id), st.sampled_from(["read", "write"])), max_size=3)


@st.composite
def callers(draw: st.DrawFn) -> Who:
    kind = draw(st.sampled_from(["person:a", "person:b", f"harness:{HARNESS}"]))
    if kind.startswith("harness"):
        return Who((kind,), tuple(draw(Narrow)))
    return Who((kind, *draw(st.lists(st.sampled_from(["group:g", "group:h"]), unique=True))))


@dataclass(frozen=True)
class Start:
    """The node numbered as it stands in the list; ``above`` picks one of those before it, or none."""

    above: int
    restricted: bool
    creator: str


Starts = st.builds(Start, st.integers(-1, MOST), st.booleans(), Names)
Change = st.one_of(
    st.tuples(st.just("create"), callers(), Nodes, Nodes | st.none(), st.booleans()),
    st.tuples(
        st.just("update"),
        callers(),
        Nodes,
        st.none() | st.just(-1) | Nodes,
        st.none() | st.booleans(),
        st.sampled_from([0, READ, WRITE]),
    ),
    st.tuples(st.just("delete"), callers(), Nodes),
    st.tuples(st.just("grant"), callers(), Nodes, Names, Masks),
    st.tuples(st.just("revoke"), callers(), Nodes, Names, st.booleans()),
    st.tuples(
        st.just("attach"),
        callers(),
        st.lists(
            st.tuples(Nodes.map(node_id), st.sampled_from(["read", "write"])),
            max_size=3,
            unique_by=lambda pair: pair[0],
        ),
    ),
)


@dataclass(frozen=True)
class Plan:
    """What one example does."""

    starts: list[Start]
    grants: list[tuple[int, str, int]]
    revoked: list[int]
    changes: list[tuple[Any, ...]]
    askers: list[Who]


Plans = st.builds(
    Plan,
    st.lists(Starts, min_size=1, max_size=MOST),
    st.lists(st.tuples(Nodes, Names, Masks), max_size=10),
    st.lists(Nodes, max_size=8),
    st.lists(Change, max_size=6),
    st.lists(callers(), min_size=1, max_size=3),
)


def attached(*narrow: tuple[int, str]) -> Who:
    """The harness at work, attached to nodes by number."""
    return Who((PRINCIPALS[-1],), tuple((node_id(number), access) for number, access in narrow))


# What a narrowing hides and shows by the node where it begins: a root the harness may only write, with one
# child attached to write and one to read.
NARROWED = Plan(
    [Start(-1, False, "person:a"), Start(0, False, "person:a"), Start(0, False, "person:a")],
    [(0, PRINCIPALS[-1], WRITE)],
    [],
    [],
    [
        attached((0, "read"), (1, "write")),
        attached((0, "write"), (1, "read")),
        attached((1, "write"), (2, "read")),
        attached((2, "write")),
    ],
)

# The same below: a child that is seen by its own grant only, and what lies below a cutoff.
NARROWED_BELOW = Plan(
    [
        Start(-1, False, "person:a"),
        Start(0, False, "person:a"),
        Start(-1, False, "person:a"),
        Start(2, True, "person:a"),
        Start(3, False, "person:a"),
    ],
    [
        (0, PRINCIPALS[-1], WRITE),
        (1, PRINCIPALS[-1], READ),
        (2, PRINCIPALS[-1], READ),
        (4, PRINCIPALS[-1], WRITE),
    ],
    [],
    [],
    [attached((0, "write"), (1, "read")), attached((2, "read"), (3, "write"))],
)


def passport(who: Who) -> Passport:
    narrowing = tuple(
        Narrowing(memory, "write" if access == "write" else "read") for memory, access in who.narrow
    )
    return Passport(
        who.principals[0],
        who.principals[1:],
        frozenset({"user"}),
        None,
        narrowing,
        "",
        datetime.max.replace(tzinfo=UTC),
    )


class Player:
    """Does the same to both."""

    def __init__(self, store: PostgresStore) -> None:
        clock, roots = SystemClock(), RootRight(admin_only=False)
        self.store = store
        self.oracle = Oracle()
        self.create = CreateNode(store, roots, clock)
        self.update = UpdateNode(store, roots)
        self.add_grant = AddGrant(store, clock)
        self.attach = AttachHarness(store, clock)

    async def begin(self, plan: Plan) -> None:
        async with self.store.change() as tx:
            for number, start in enumerate(plan.starts):
                above = None if start.above < 0 or number == 0 else node_id(start.above % number)
                node = node_id(number)
                await tx.add_node(
                    node,
                    above or "",
                    restricted=start.restricted,
                    creator=start.creator,
                    now=datetime.now(UTC),
                )
                self.oracle.add(node, above, start.creator, restricted=start.restricted)
            for number, principal, mask in plan.grants:
                node = node_id(number)
                if node in self.oracle.parent:
                    await tx.grant(node, principal, mask, datetime.now(UTC))
                    self.oracle.grants[node, principal] = self.oracle.grants.get((node, principal), 0) | mask
            for number in plan.revoked:
                node = node_id(number)
                await tx.revoke(node, creator_grant_id(node))
                if node in self.oracle.parent:
                    self.oracle.revoked.add(node)

    async def change(self, kind: str, who: Who, *rest: Any) -> None:
        expected, call = getattr(self, f"_{kind}")(who, *rest)
        assert await refusal(await_or_value(call)) == expected, (kind, who, rest)

    def _create(self, who: Who, number: int, above: int | None, restricted: bool) -> tuple[str, Any]:
        node, parent = node_id(number), None if above is None else node_id(above)
        if node in self.oracle.parent:
            own = self.oracle.creator[node] == who.principals[0]
            expected = self.oracle.refusal(who, node, 0) if own else "grovekeeper_conflict"
        else:
            expected = self.oracle.create(who, node, parent, restricted=restricted)
        return expected, self.create(passport(who), node, parent or "", restricted=restricted)

    def _update(
        self, who: Who, number: int, above: int | None, restricted: bool | None, needs: int
    ) -> tuple[str, Any]:
        node = node_id(number)
        parent = None if above is None else "" if above < 0 else node_id(above)
        expected = self.oracle.update(who, node, parent, restricted, needs)
        return expected, self.update(passport(who), node, Wanted(parent, restricted, needs))

    def _delete(self, who: Who, number: int) -> tuple[str, Any]:
        node = node_id(number)
        return self.oracle.delete(who, node), delete_node(self.store, Caller.of(passport(who)), node)

    def _grant(self, who: Who, number: int, principal: str, mask: int) -> tuple[str, Any]:
        expected = self.oracle.grant(who, node_id(number), principal, mask)
        return expected, self.add_grant(Caller.of(passport(who)), node_id(number), principal, mask)

    def _revoke(self, who: Who, number: int, principal: str, creator: bool) -> tuple[str, Any]:
        node = node_id(number)

        async def revoke() -> None:
            grant_id = creator_grant_id(node)
            if not creator:
                async with self.store.view() as tx:
                    there = [one for one in await tx.grants_on([node]) if not one.creator]
                grant_id = next((one.id for one in there if one.principal == principal), "hgrt_none")
            await revoke_grant(self.store, Caller.of(passport(who)), node, grant_id)

        return self.oracle.revoke(who, node, principal, creator=creator), revoke()

    def _attach(self, who: Who, entries: list[tuple[str, str]]) -> tuple[str, Any]:
        wanted = [Entry(*pair) for pair in entries]
        expected = self.oracle.attach(who, f"harness:{HARNESS}", entries)
        return expected, self.attach(Caller.of(passport(who)), HARNESS, wanted)

    async def compare(self, who: Who) -> None:
        """Every question this caller can ask."""
        caller, oracle = Caller.of(passport(who)), self.oracle
        every = [node_id(number) for number in range(MOST + 1)]
        for needs in (0, READ, WRITE, CREATE, DELETE):
            expected = [
                one for one in every if one in oracle.parent and oracle.mask(who, one) & (needs or ALL)
            ]
            assert await check_many(self.store, caller, every, needs) == expected
        # All at once, so that checks are answered many to a statement.
        await asyncio.gather(*(self._compare_node(who, caller, node) for node in every))
        found = await pages(lambda page: list_entry_points(self.store, caller, page))
        assert [seen(one.place) for one in found] == [
            oracle.seen(who, one) for one in oracle.entry_points(who)
        ]

    async def _compare_node(self, who: Who, caller: Caller, node: str) -> None:
        oracle = self.oracle
        demands = (0, READ, WRITE, CREATE, DELETE)
        refusals = [refusal(check(self.store, caller, node, needs)) for needs in demands]
        assert await asyncio.gather(*refusals) == [oracle.refusal(who, node, needs) for needs in demands]
        if oracle.refusal(who, node, 0):
            for call in (
                list_children(self.store, caller, node, 0, Page()),
                list_descendants(self.store, caller, node, 0, 0, Page()),
                list_grants(self.store, caller, node),
            ):
                assert await refusal(call) == "memory_not_found"
            return
        assert seen(await check(self.store, caller, node, 0)) == oracle.seen(who, node)
        for needs in (0, WRITE):
            found = await pages(lambda page: list_children(self.store, caller, node, needs, page))  # noqa: B023
            expected = oracle.children(who, node, needs or ALL)
            assert [seen(one.place) for one in found] == [oracle.seen(who, one) for one in expected]
        for needs, levels in ((0, 0), (READ, 0), (0, 2)):
            found = await pages(
                lambda page: list_descendants(self.store, caller, node, needs, levels, page)  # noqa: B023
            )
            keys = [(one.depth, one.place.id) for one in found]
            assert keys == oracle.descendants(who, node, needs or ALL, levels)
            assert [seen(one.place) for one in found] == [oracle.seen(who, one) for _, one in keys]
        grants = await list_grants(self.store, caller, node)
        listed = [(one.node, one.principal, one.mask, one.creator) for one in grants]
        assert sorted(listed) == oracle.grants_reaching(who, node)
        assert [one[0] for one in listed] == sorted((one[0] for one in listed), key=oracle.line(node).index)


def seen(place: Place) -> Seen:
    return Seen(
        place.id, place.parent_id, list(place.ancestors), place.restricted, place.mask, place.children
    )


async def pages(listing: Callable[[Page], Coroutine[Any, Any, Listing]]) -> list[Found]:
    """All pages of a listing, two nodes at a time."""
    found, cursor = list[Found](), ""
    while True:
        one = await listing(Page(2, cursor))
        found += one.nodes
        assert len(one.nodes) <= 2
        cursor = one.next_cursor
        if not cursor:
            return found
        assert one.nodes


async def await_or_value(call: Any) -> Any:
    return await call


async def refusal(call: Coroutine[Any, Any, Any]) -> str:
    try:
        await call
    except GroveError as error:
        return error.code
    return ""


async def play(database: Database, plan: Plan) -> None:
    async with database.begin() as tx:
        await tx.execute("delete from node")
    player = Player(PostgresStore(database))
    await player.begin(plan)
    for change in plan.changes:
        await player.change(*change)
    for who in plan.askers:
        await player.compare(who)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("few", "examples"), [(500, 60), (0, 40)], ids=["few children", "many children"])
def test_no_answer_differs_from_the_oracle(
    service_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, few: int, examples: int
) -> None:
    # 0 takes the other way through every listing of children: from the caller's grants.
    monkeypatch.setattr(decide, "FEW", few)
    monkeypatch.setattr(view, "FEW", few)
    monkeypatch.setattr(entry_points_module, "CHUNK", 3)
    with asyncio.Runner() as runner:
        database = runner.run(Database.open(service_database("authz"), "authz", Limits(maximum=6)))

        @settings(
            max_examples=examples,
            deadline=None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(Plans)
        @example(NARROWED)
        @example(NARROWED_BELOW)
        def agree(plan: Plan) -> None:
            runner.run(play(database, plan))

        try:
            agree()
        finally:
            runner.run(database.close())
