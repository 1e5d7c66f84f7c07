"""Random operations by several principals, done to authz_service and to the model, and every answer compared.

Two processes' worth of the service stand on one database: one decides in SQL, the other from its replica. A
change goes to either, every question to both.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from authz_service.store.postgres import PostgresStore
from protos.authz.v1 import authz_pb2 as wire
from service_kit.errors import GroveError
from service_kit.identity import Narrowing, PassportSigner
from tests.api.authz_service.service import Authz, Bearer
from tests.contract.access.model import ALL, CREATE, DELETE, READ, WRITE, Model, Seen, Who, Why

MOST = 10
"""Nodes are numbered below this; the last number never names one."""
_WIRE = {
    0: wire.PRIVILEGE_UNSPECIFIED,
    READ: wire.PRIVILEGE_READ,
    WRITE: wire.PRIVILEGE_WRITE,
    CREATE: wire.PRIVILEGE_CREATE,
    DELETE: wire.PRIVILEGE_DELETE,
}
_BIT = {number: mask for mask, number in _WIRE.items() if mask}
_Answer = TypeVar("_Answer")


class World(Protocol):
    """What a run stands on."""

    signer: PassportSigner
    services: Sequence[Authz]
    store: PostgresStore

    def run(self, call: Awaitable[_Answer]) -> _Answer:
        """Run to the end."""
        ...


@dataclass(frozen=True)
class Start:
    """The node numbered as it stands in the list; ``above`` picks one of those before it, or none."""

    above: int
    restricted: bool
    creator: str


PERSONS = ("person:a", "person:b")
GROUPS = ("group:g", "group:h")
HARNESS = "harness:"
# A harness comes often: a narrowing hides what has only those. So do privileges without read.
Names = st.sampled_from((*PERSONS, *GROUPS, HARNESS, HARNESS))
Bearers = st.sampled_from((*PERSONS, HARNESS))
Masks = st.sampled_from([READ, WRITE, WRITE, READ | WRITE, CREATE, DELETE, READ | CREATE, ALL])
Needs = st.sampled_from([0, READ, WRITE, CREATE, DELETE])
Nodes = st.integers(0, MOST - 1)
Asked = st.integers(0, MOST)
Entries = st.lists(
    st.tuples(Asked, st.sampled_from(["read", "write"])), max_size=3, unique_by=lambda pair: pair[0]
)


@st.composite
def callers(draw: st.DrawFn) -> tuple[Any, ...]:
    """(principal, groups its credential names) or (harness, what it is narrowed to)."""
    principal = draw(Bearers)
    if principal == HARNESS:
        return principal, tuple(draw(Entries))
    return principal, tuple(draw(st.lists(st.sampled_from(GROUPS), max_size=2, unique=True)))


class AccessMachine(RuleBasedStateMachine):
    """One example; its principals and nodes are named apart from those of every other."""

    world: World
    examples: Iterator[int] = itertools.count()
    steps: int = 0

    def __init__(self) -> None:
        super().__init__()
        self.number: int = next(self.examples)
        self.model: Model = Model()
        self.generation: list[int] = [0] * (MOST + 1)
        self.turn: Iterator[int] = itertools.count()
        self.kept: set[str] = set()

    # Names.

    def node(self, number: int) -> str:
        """Ids in an order that has nothing to do with the tree's; one that was deleted is never used again."""
        text = f"{number}/{self.generation[number]}"
        digits = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        # The example comes last, so that the order is the same when one is played again.
        return f"hmem_{digits[:24]}{self.number:08x}"

    def principal(self, name: str) -> str:
        if name == HARNESS:
            return f"harness:chrn_{self.number:032x}"
        return f"{name}{self.number}"

    def who(self, drawn: tuple[Any, ...]) -> Who:
        name, more = drawn
        if name == HARNESS:
            return Who((self.principal(name),), self.entries(more))
        return Who((self.principal(name), *map(self.principal, more)))

    def entries(self, drawn: Sequence[tuple[int, str]]) -> tuple[tuple[str, str], ...]:
        return tuple((self.node(number), access) for number, access in drawn)

    # Callers.

    def bearer(self, service: Authz, who: Who) -> Bearer:
        narrowing = [
            Narrowing(memory, "write" if access == "write" else "read") for memory, access in who.narrow
        ]
        scopes = ("user", "admin") if who.admin else ("user",)
        passport = self.world.signer.sign(
            who.principals[0], groups=who.principals[1:], scopes=scopes, narrowing=narrowing
        )
        return Bearer(service.channel, passport)

    def admin(self, service: Authz) -> Bearer:
        return self.bearer(service, Who(("credential:admin",), admin=True))

    def service(self) -> Bearer:
        service = self.world.services[0]
        return Bearer(service.channel, self.world.signer.sign("service:memory", scopes=("service",)))

    def change(self, expected: str, call: Callable[[Authz], Awaitable[object]]) -> None:
        """Make a change through one of the services, each in turn."""
        self.count()
        service = self.world.services[next(self.turn) % len(self.world.services)]
        answer = self.world.run(refused(call(service)))
        assert answer == expected, f"the service answers {answer!r}, the model {expected!r}"

    def ask(self, expected: object, call: Callable[[Authz], Awaitable[object]]) -> None:
        """Ask all services at once: each must answer as the model does, whoever made the last change."""
        self.count()

        async def every() -> list[object]:
            return list(await asyncio.gather(*(call(service) for service in self.world.services)))

        for number, answer in enumerate(self.world.run(every())):
            assert answer == expected, f"service {number} answers {answer}, the model {expected}"

    def count(self) -> None:
        type(self).steps += 1

    # What is there to begin with.

    @initialize(
        starts=st.lists(
            st.builds(Start, st.integers(-1, MOST), st.booleans(), Names), min_size=1, max_size=MOST
        ),
        grants=st.lists(st.tuples(Nodes, Names, Masks), max_size=10),
        revoked=st.lists(Nodes, max_size=6),
    )
    def plant(self, starts: list[Start], grants: list[tuple[int, str, int]], revoked: list[int]) -> None:
        self.world.run(self._plant(starts, grants, revoked))

    async def _plant(
        self, starts: list[Start], grants: list[tuple[int, str, int]], revoked: list[int]
    ) -> None:
        now, model = datetime.now(UTC), self.model
        async with self.world.store.change() as tx:
            for number, start in enumerate(starts):
                above = None if start.above < 0 or number == 0 else self.node(start.above % number)
                node, creator = self.node(number), self.principal(start.creator)
                await tx.add_node(node, above or "", restricted=start.restricted, creator=creator, now=now)
                model.add(node, above, creator, restricted=start.restricted)
            for number, name, mask in grants:
                node, principal = self.node(number), self.principal(name)
                if node in model.parent:
                    await tx.grant(node, principal, mask, now)
                    model.grants[node, principal] = model.grants.get((node, principal), 0) | mask
            for node in map(self.node, revoked):
                if node in model.parent and node not in model.revoked:
                    await tx.revoke(node, creators(node))
                    model.revoked.add(node)

    # Changes.

    @rule(drawn=callers(), number=Nodes, above=st.none() | Asked, restricted=st.booleans())
    def create(self, drawn: tuple[Any, ...], number: int, above: int | None, restricted: bool) -> None:
        who, node = self.who(drawn), self.node(number)
        parent = None if above is None else self.node(above)
        expected = self.model.create(who, node, parent, restricted=restricted)
        self.change(
            expected,
            lambda service: self.bearer(service, who).create(parent or "", restricted=restricted, node=node),
        )

    @rule(
        drawn=callers(),
        number=Asked,
        above=st.none() | st.just(-1) | Asked,
        restricted=st.none() | st.booleans(),
        needs=Needs,
    )
    def update(
        self,
        drawn: tuple[Any, ...],
        number: int,
        above: int | None,
        restricted: bool | None,
        needs: int,
    ) -> None:
        who, node = self.who(drawn), self.node(number)
        parent = None if above is None else "" if above < 0 else self.node(above)
        expected = self.model.update(who, node, parent, restricted, needs)
        self.change(
            expected,
            lambda service: self.bearer(service, who).update(
                node, parent=parent, restricted=restricted, needs=_WIRE[needs]
            ),
        )

    @rule(drawn=callers(), number=Asked)
    def delete(self, drawn: tuple[Any, ...], number: int) -> None:
        who, node = self.who(drawn), self.node(number)
        before = set(self.model.parent)
        expected = self.model.delete(who, node)
        self.change(expected, lambda service: self.bearer(service, who).delete(node))
        for one in range(MOST):
            if self.node(one) in before - set(self.model.parent):
                self.generation[one] += 1

    @rule(drawn=callers(), number=Asked, name=Names, mask=Masks)
    def grant(self, drawn: tuple[Any, ...], number: int, name: str, mask: int) -> None:
        who, node, principal = self.who(drawn), self.node(number), self.principal(name)
        expected = self.model.grant(who, node, principal, mask)
        self.change(
            expected,
            lambda service: self.bearer(service, who).grant(node, principal, *named(mask)),
        )

    @rule(drawn=callers(), number=Asked, name=Names, creator=st.booleans())
    def revoke(self, drawn: tuple[Any, ...], number: int, name: str, creator: bool) -> None:
        who, node, principal = self.who(drawn), self.node(number), self.principal(name)
        grant_id = creators(node) if creator else self.world.run(self.grant_id(node, principal))
        expected = self.model.revoke(who, node, principal, creator=creator)
        self.change(expected, lambda service: self.bearer(service, who).revoke(node, grant_id))

    async def grant_id(self, node: str, principal: str) -> str:
        async with self.world.store.view() as view:
            there = [one for one in await view.grants_on([node]) if not one.creator]
        return next((one.id for one in there if one.principal == principal), "hgrt_none")

    @rule(drawn=callers(), entries=Entries)
    def attach(self, drawn: tuple[Any, ...], entries: list[tuple[int, str]]) -> None:
        who, named_ = self.who(drawn), self.entries(entries)
        harness = self.principal(HARNESS)
        expected = self.model.attach(who, harness, list(named_))
        self.change(
            expected,
            lambda service: self.bearer(service, who).attach(harness.removeprefix(HARNESS), *named_),
        )

    @rule(name=Bearers, group=st.sampled_from(GROUPS))
    def join(self, name: str, group: str) -> None:
        principal, joined = self.principal(name), self.principal(group)
        if joined not in self.kept:
            self.kept.add(joined)
            self.change("", lambda service: self.admin(service).create_group(joined))
        self.model.members.add((principal, joined))
        self.change("", lambda service: self.admin(service).add_member(joined, principal))

    @rule(name=Bearers, group=st.sampled_from(GROUPS))
    def leave(self, name: str, group: str) -> None:
        pair = self.principal(name), self.principal(group)
        expected = "" if pair in self.model.members else "grovekeeper_not_found"
        self.model.members.discard(pair)
        self.change(expected, lambda service: self.admin(service).remove_member(pair[1], pair[0]))

    @rule(group=st.sampled_from(GROUPS))
    def drop_group(self, group: str) -> None:
        name = self.principal(group)
        expected = "" if name in self.kept else "grovekeeper_not_found"
        if name in self.kept:
            self.kept.discard(name)
            self.model.drop_group(name)
        self.change(expected, lambda service: self.admin(service).delete_group(name))

    @rule(number=Asked)
    def hold(self, number: int) -> None:
        node = self.node(number)
        expected = "" if node in self.model.parent else "memory_not_found"
        if not expected:
            self.model.held.add(node)
        self.change(expected, lambda _: self.service().hold(node))

    @rule()
    def release_all(self) -> None:
        for node in sorted(self.model.held):
            self.change("", lambda _, node=node: self.service().release(node))
        self.model.held.clear()

    @rule()
    def purge(self) -> None:
        """Rows of what was deleted are let go of; nobody's answers change."""

        async def purge(_: Authz) -> None:
            while deleted := await self.service().deleted():
                await self.service().purge(deleted)

        self.change("", purge)

    # Questions.

    @rule(drawn=callers(), number=Asked)
    def check(self, drawn: tuple[Any, ...], number: int) -> None:
        who, node, model = self.who(drawn), self.node(number), self.model
        expected = [model.refusal(who, node, needs) for needs in _WIRE]
        seen_as = model.seen(who, node) if not expected[0] else None

        async def answers(service: Authz) -> list[object]:
            bearer = self.bearer(service, who)
            refusals = [refused(bearer.check(node, needs)) for needs in _WIRE.values()]
            shown = await either(bearer.check(node))
            return [*await asyncio.gather(*refusals), shown if isinstance(shown, str) else seen(shown)]

        self.ask([*expected, expected[0] or seen_as], answers)

    @rule(drawn=callers(), needs=Needs)
    def check_many(self, drawn: tuple[Any, ...], needs: int) -> None:
        who, model = self.who(drawn), self.model
        every = [self.node(number) for number in range(MOST + 1)]
        expected = [one for one in every if one in model.parent and model.mask(who, one) & (needs or ALL)]
        self.ask(expected, lambda service: self.bearer(service, who).check_many(every, _WIRE[needs]))

    @rule(drawn=callers(), number=Asked, needs=Needs)
    def children(self, drawn: tuple[Any, ...], number: int, needs: int) -> None:
        who, node, model = self.who(drawn), self.node(number), self.model
        expected: object = model.refusal(who, node, 0)
        if not expected:
            expected = [model.seen(who, one) for one in model.children(who, node, needs or ALL)]

        async def answer(service: Authz) -> object:
            bearer = self.bearer(service, who)
            found = await pages(lambda cursor: bearer.children(node, _WIRE[needs], 2, cursor))
            return found if isinstance(found, str) else [seen(one) for one in found]

        self.ask(expected, answer)

    @rule(drawn=callers())
    def entry_points(self, drawn: tuple[Any, ...]) -> None:
        who, model = self.who(drawn), self.model
        expected = [model.seen(who, one) for one in model.entry_points(who)]

        async def answer(service: Authz) -> object:
            bearer = self.bearer(service, who)
            found = await pages(lambda cursor: bearer.entry_points(2, cursor))
            return found if isinstance(found, str) else [seen(one) for one in found]

        self.ask(expected, answer)

    @rule(drawn=callers(), number=Asked, needs=Needs, levels=st.integers(0, 3))
    def descendants(self, drawn: tuple[Any, ...], number: int, needs: int, levels: int) -> None:
        who, node, model = self.who(drawn), self.node(number), self.model
        expected: object = model.refusal(who, node, 0)
        if not expected:
            found = model.descendants(who, node, needs or ALL, levels)
            expected = [(depth, model.seen(who, one)) for depth, one in found]

        async def answer(service: Authz) -> object:
            bearer = self.bearer(service, who)
            found = await pages(lambda cursor: bearer.descendants(node, _WIRE[needs], levels, 2, cursor))
            return found if isinstance(found, str) else [(one.depth, seen(one)) for one in found]

        self.ask(expected, answer)

    @rule(drawn=callers(), number=Asked, needs=Needs, levels=st.integers(0, 3), most=st.integers(1, 9))
    def reach(self, drawn: tuple[Any, ...], number: int, needs: int, levels: int, most: int) -> None:
        who, node, model = self.who(drawn), self.node(number), self.model
        expected: object = model.refusal(who, node, 0)
        if not expected:
            found = [one for _, one in model.descendants(who, node, needs or ALL, levels)]
            expected = (found[:most], len(found) > most)

        async def answer(service: Authz) -> object:
            bearer = self.bearer(service, who)
            told = await either(bearer.reach(node, _WIRE[needs], levels, most))
            return told if isinstance(told, str) else (list(told.memory_ids), told.more)

        self.ask(expected, answer)

    @rule(drawn=callers(), number=Asked)
    def grants(self, drawn: tuple[Any, ...], number: int) -> None:
        who, node, model = self.who(drawn), self.node(number), self.model
        expected: object = model.refusal(who, node, 0) or model.grants_reaching(who, node)

        async def answer(service: Authz) -> object:
            bearer = self.bearer(service, who)
            found = await grant_pages(bearer, node)
            if isinstance(found, str):
                return found
            line = [one.memory_id for one in found]
            assert line == sorted(line, key=model.line(node).index)
            return sorted(
                (one.memory_id, one.principal, mask_of(one.privileges), one.creator) for one in found
            )

        self.ask(expected, answer)

    @rule(
        drawn=callers(),
        admin=st.booleans(),
        number=Asked,
        name=Names,
        groups=st.lists(st.sampled_from(GROUPS), unique=True),
    )
    def explain(self, drawn: tuple[Any, ...], admin: bool, number: int, name: str, groups: list[str]) -> None:
        who = Who(("credential:admin",), admin=True) if admin else self.who(drawn)
        node, principal = self.node(number), self.principal(name)
        extra = [self.principal(one) for one in groups]
        there = "" if node in self.model.parent else "memory_not_found"
        expected: object = there if admin else self.model.refusal(who, node, DELETE)
        if not expected:
            held, reasons = self.model.explanation(who, node, principal, set(extra))
            expected = (held, reasons, admin)

        async def answer(service: Authz) -> object:
            told = await either(self.bearer(service, who).explain(node, principal, extra))
            if isinstance(told, str):
                return told
            return mask_of(told.privileges), sorted(map(why, told.reasons)), told.complete

        self.ask(expected, answer)


def creators(node: str) -> str:
    """The id of the implicit grant of whoever created a node."""
    return f"hgrt_{node.removeprefix('hmem_')}"


def named(mask: int) -> list[wire.Privilege.ValueType]:
    return [number for number, bit in _BIT.items() if mask & bit]


def mask_of(privileges: Sequence[wire.Privilege.ValueType]) -> int:
    return sum(_BIT[one] for one in privileges)


def seen(node: wire.Node) -> Seen:
    return Seen(
        node.id,
        node.parent_id,
        tuple(node.ancestors),
        node.restricted,
        mask_of(node.privileges),
        node.children_count,
    )


def why(reason: wire.Reason) -> Why:
    grant = reason.grant
    return Why(
        grant.memory_id,
        grant.principal,
        mask_of(grant.privileges),
        grant.creator,
        reason.via_group,
        reason.stopped_at,
    )


async def either(call: Awaitable[_Answer]) -> _Answer | str:
    """The answer, or the code of the refusal."""
    try:
        return await call
    except GroveError as error:
        return error.code


async def refused(call: Awaitable[object]) -> str:
    """The code of the refusal, "" when there is none."""
    answer = await either(call)
    return answer if isinstance(answer, str) else ""


async def pages(listing: Callable[[str], Awaitable[wire.NodePage]]) -> list[wire.Node] | str:
    """All pages of a listing of two nodes each."""
    found, cursor = list[wire.Node](), ""
    while True:
        page = await either(listing(cursor))
        if isinstance(page, str):
            return page
        assert len(page.nodes) <= 2
        found += page.nodes
        cursor = page.next_cursor
        if not cursor:
            return found
        assert page.nodes


async def grant_pages(bearer: Bearer, node: str) -> list[wire.Grant] | str:
    """All pages of a listing of grants, three each."""
    found, cursor = list[wire.Grant](), ""
    while True:
        page = await either(bearer.grants_page(node, 3, cursor))
        if isinstance(page, str):
            return page
        found += page.grants
        cursor = page.next_cursor
        if not cursor:
            return found
