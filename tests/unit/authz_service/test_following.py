"""Replicas on a real Postgres: never behind a change that was answered, never between two moments."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import LiteralString

import psycopg
import pytest

from authz_service.domain.caller import Caller
from authz_service.domain.model import ALL, Place
from authz_service.replica.tree import Tree
from authz_service.store import changes, following
from authz_service.store.following import Following
from authz_service.store.postgres import PostgresStore
from authz_service.store.replica import ReplicaStore
from authz_service.store.view import creator_grant_id
from service_kit.db.pool import Database, Limits
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.fixtures.databases import Databases

ALICE, BOB = Caller.whole("person:alice"), Caller.whole("person:bob")
CUT: LiteralString = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where application_name = 'grovekeeper authz' and datname = current_database()"
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Instance:
    """What one authz process has: a store that follows the database."""

    def __init__(self, database: Database, most: int) -> None:
        self.database = database
        self.following = Following(database, most)
        self.store = ReplicaStore(database, self.following)
        self.rows = PostgresStore(database)

    async def ready(self) -> Tree:
        """The replica, once it follows."""
        async with asyncio.timeout(20):
            while (tree := await self.following.fresh()) is None:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.005)
        return tree

    async def add(self, parent: str = "", *, restricted: bool = False, creator: str = "person:alice") -> str:
        node = new_id("hmem")
        async with self.store.change() as tx:
            await tx.add_node(node, parent, restricted=restricted, creator=creator, now=NOW)
        return node

    async def mask(self, caller: Caller, node: str) -> int:
        place = await self.store.place(caller, node)
        return 0 if place is None else place.mask


Start = Callable[..., AbstractAsyncContextManager[Instance]]


@pytest.fixture
def dsn(service_database: Callable[[str], str]) -> str:
    return service_database("authz")


@pytest.fixture
def start(dsn: str) -> Start:
    @asynccontextmanager
    async def started(most: int = 100_000) -> AsyncGenerator[Instance]:
        database = await Database.open(dsn, "authz", Limits(maximum=4))
        instance = Instance(database, most)
        running = asyncio.create_task(instance.following.run())
        try:
            yield instance
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            await database.close()

    return started


@pytest.fixture
async def one(start: Start) -> AsyncGenerator[Instance]:
    async with start() as instance:
        await instance.ready()
        yield instance


async def run(dsn: str, statement: LiteralString, *parameters: object) -> None:
    """In a transaction of its own, past the service."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(statement, parameters or None)


async def test_a_read_that_starts_after_a_change_was_answered_sees_it_on_every_instance(
    dsn: str, start: Start
):
    async with start() as writer, start() as reader, start() as other:
        for instance in (writer, reader, other):
            await instance.ready()
        await run(dsn, "insert into principal_group values ('group:g', '', now())")
        root = await writer.add()
        leaf = await writer.add(await writer.add(root))
        await run(dsn, "insert into grants values ('hgrt_g', %s, 'group:g', 1, now())", root)

        async def sees(expected: int) -> None:
            assert await reader.mask(BOB, leaf) == expected
            assert await other.mask(BOB, leaf) == expected

        for _ in range(150):
            async with writer.store.change() as tx:
                given = await tx.grant(root, "person:bob", 3, NOW)
            await sees(3)
            async with writer.store.change() as tx:
                await tx.restrict(leaf, restricted=True)
            await sees(0)
            async with writer.store.change() as tx:
                await tx.restrict(leaf, restricted=False)
                await tx.revoke(root, given.id)
            await sees(0)
            # A membership, written past the service.
            await run(dsn, "insert into member values ('person:bob', 'group:g', now(), '')")
            await sees(1)
            await run(dsn, "delete from member")
            await sees(0)
            moved = await reader.add(root, creator="person:bob")
            async with reader.store.change() as tx:
                await tx.move(leaf, moved)
            assert await writer.mask(BOB, leaf) == ALL
            await sees(ALL)
            async with reader.store.change() as tx:
                await tx.revoke(moved, creator_grant_id(moved))
            await sees(0)
            async with reader.store.change() as tx:
                await tx.move(leaf, root)
                await tx.delete(moved)
            assert await other.store.place(ALICE, moved) is None
            assert await writer.store.place(ALICE, moved) is None
        assert set(await served(reader)) == {"replica"}


async def served(instance: Instance) -> list[str]:
    """Which ways questions to an instance were answered."""
    return [path for path, count in instance.store._served.items() if count]


async def test_a_transaction_that_began_early_and_ends_late_is_seen_when_it_ended(dsn: str, one: Instance):
    root = await one.add()
    async with await psycopg.AsyncConnection.connect(dsn) as early:
        # Its number is the lower one, and others come and go while it is under way.
        await early.execute("insert into grants values ('hgrt_e', %s, 'person:bob', 2, now())", (root,))
        for number in range(3):
            await run(
                dsn,
                "insert into grants values (%s, %s, %s, 1, now())",
                f"h{number}",
                root,
                f"person:{number}",
            )
            assert await one.mask(Caller.whole(f"person:{number}"), root) == 1
            assert await one.mask(BOB, root) == 0
        await early.commit()
        assert await one.mask(BOB, root) == 2
        await early.execute("delete from grants where id = 'hgrt_e'")
        await early.rollback()
    assert await one.mask(BOB, root) == 2


async def test_under_many_writers_that_end_in_any_order_a_replica_is_what_the_rows_are(
    dsn: str, one: Instance
):
    chance = random.Random(11)  # noqa: S311 - the same every time
    nodes = [await one.add() for _ in range(8)]

    async def write(number: int) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            for turn in range(12):
                node = nodes[(number * 5 + turn) % len(nodes)]
                await connection.execute(
                    "insert into grants values (%s, %s, %s, %s, now())"
                    " on conflict (node, principal) do update set privs = excluded.privs",
                    (new_id("hgrt"), node, f"person:{number}", chance.randint(1, 15)),
                )
                await asyncio.sleep(chance.random() / 100)
                await (connection.commit() if chance.random() < 0.8 else connection.rollback())

    async def read() -> None:
        while not all(task.done() for task in writing):
            await one.store.place(BOB, nodes[0])

    writing = [asyncio.create_task(write(number)) for number in range(6)]
    await asyncio.gather(*writing, read(), read())
    for number in range(6):
        caller = Caller.whole(f"person:{number}")
        assert await one.store.places(caller, nodes) == await one.rows.places(caller, nodes)
    assert await served(one) == ["replica"]


async def test_a_view_is_one_moment_and_says_so_when_it_no_longer_can_be(one: Instance):
    root = await one.add()
    async with one.store.view() as view:
        before = await view.places(BOB, [root])
        async with one.store.change() as tx:
            await tx.grant(root, "person:bob", 1, NOW)
            assert await view.places(BOB, [root]) == before  # nothing ended yet
        assert await one.mask(BOB, root) == 1
        with pytest.raises(GroveError, match="met another one"):
            await view.places(BOB, [root])


async def test_questions_that_arrive_together_share_a_look_that_begins_after_them(one: Instance):
    root = await one.add()
    looks = one.following._looks
    places = await asyncio.gather(*(one.store.place(ALICE, root) for _ in range(40)))
    assert {place.mask for place in places if place} == {ALL}
    assert 1 <= one.following._looks - looks <= 3


async def test_a_database_that_goes_away_leaves_the_rows_to_answer_until_the_replica_is_back(
    dsn: str, one: Instance, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "RETRY_S", 0.01)
    root = await one.add()
    loads = one.following._reloads
    for turn in range(3):
        await run(dsn, CUT)
        with contextlib.suppress(GroveError):  # a connection of the rows may have been cut, too
            await one.store.place(ALICE, root)
        assert (await one.ready()).numbers.keys() == {root}
        await run(dsn, "update node set restricted = not restricted")
        place = await one.store.place(ALICE, root)
        assert isinstance(place, Place)
        assert place.restricted == (turn % 2 == 0)
    assert one.following._reloads == loads  # it caught up
    assert "lost the database" in caplog.text


async def test_what_cannot_be_followed_is_loaded_anew(
    dsn: str, one: Instance, monkeypatch: pytest.MonkeyPatch
):
    root = await one.add()
    loads = one.following._reloads

    async def loaded_again() -> None:
        nonlocal loads
        with contextlib.suppress(GroveError):  # a connection of the rows may have been cut
            await one.store.place(ALICE, root)
        tree = await one.ready()
        assert (one.following._reloads, list(tree.numbers)) == (loads + 1, [root])
        loads += 1

    # The log tells of everything at once …
    await run(dsn, "insert into change (kind, key) values ('a', '')")
    await loaded_again()
    # … the last look was so long ago that the log may have been shortened …
    one.following._at -= following.LONGEST_GAP_S + 1
    await loaded_again()
    # … the database was put back to an earlier time …
    newest = int(one.following._moment.split(":")[1])
    one.following._moment = f"{newest + 1000}:{newest + 1000}:"
    await loaded_again()
    # … or another server took its place, and the connection was lost with the first.
    monkeypatch.setattr(following, "RETRY_S", 0.01)
    one.following._cluster = "another"
    await run(dsn, CUT)
    await loaded_again()


async def test_more_nodes_than_a_replica_may_hold_are_read_as_rows(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "AGAIN_S", 0.01)
    async with start(most=2) as one:
        await one.ready()
        nodes = [await one.add() for _ in range(3)]
        assert [await one.mask(ALICE, node) for node in nodes] == [ALL] * 3
        assert await one.following.fresh() is None
        assert one.following._full
        async with one.store.change() as tx:
            await tx.discard(nodes[:1])
        assert list((await one.ready()).numbers) == nodes[1:]
        assert not one.following._full
    told = [record for record in caplog.records if "more nodes than" in record.message]
    assert [record.levelno for record in told] == [logging.WARNING]


async def test_a_view_with_its_grants_is_the_rows(one: Instance):
    root = await one.add()
    async with one.store.view(grants=True) as view:
        assert [grant.principal for grant in await view.grants_on([root])] == ["person:alice"]
    async with one.store.view() as view:
        with pytest.raises(RuntimeError):
            await view.grants_on([root])


async def test_the_height_of_what_is_moved_is_what_the_rows_say(one: Instance):
    root = await one.add()
    for _ in range(30):
        await one.add(root)
    deep = root
    for _ in range(5):
        deep = await one.add(deep, restricted=True)
    for most in (3, 64):
        async with one.store.change() as tx, one.rows.change() as other:
            await tx.hold_shape(alone=True)
            assert await tx.height(root, most) == await other.height(root, most) == min(most, 6)


async def test_the_log_is_kept_for_an_hour_after_a_transaction_ended(dsn: str, one: Instance):
    await run(dsn, "delete from change")
    root = await one.add()
    await changes.prune(one.database)
    await run(dsn, "update change set at = now() - interval '2 hours' where kind <> 's'")
    assert await changes.prune(one.database) == 0  # long ago is not long after its end
    await run(dsn, "update change set at = now() - interval '61 minutes' where kind = 's'")
    await run(dsn, "update node set restricted = true")
    removed = await asyncio.gather(*(changes.prune(one.database) for _ in range(3)))
    assert sum(removed) == 1  # the first, once; the second is younger than the snapshot
    # Numbers of another server's transactions, which came with its contents, are of no use.
    await run(
        dsn,
        "insert into change values ((pg_current_xact_id()::text::bigint + 1000)::text::xid8, now(), 'a', '')",
    )
    place = await one.store.place(ALICE, root)
    assert place is not None
    assert place.restricted
    assert await changes.prune(one.database) == 1


async def test_what_is_truncated_or_replicated_is_followed(databases: Databases, one: Instance):
    root = await one.add()
    assert await one.mask(ALICE, root) == ALL
    owner = databases.service("authz").owner_dsn
    await run(owner, "set session_replication_role = replica; update authz.node set creator_revoked = true")
    assert await one.mask(ALICE, root) == 0
    await run(owner, "truncate authz.node cascade")
    assert await one.store.place(ALICE, root) is None
    assert len(await one.ready()) == 0


async def test_a_server_that_does_not_tell_which_it_is_can_be_followed(
    databases: Databases, dsn: str, one: Instance, monkeypatch: pytest.MonkeyPatch
):
    owner = databases.service("authz").owner_dsn
    monkeypatch.setattr(following, "RETRY_S", 0.01)
    root = await one.add()
    try:
        await run(owner, "revoke execute on function pg_control_system() from public")
        await run(dsn, CUT)
        async with asyncio.timeout(20):
            while one.following._cluster != "":
                with contextlib.suppress(GroveError):
                    await one.store.place(ALICE, root)
                await one.ready()
    finally:
        await run(owner, "grant execute on function pg_control_system() to public")
    assert await one.mask(ALICE, root) == ALL
