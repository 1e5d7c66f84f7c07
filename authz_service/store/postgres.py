"""The tree and its grants in Postgres."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

from psycopg import errors as postgres

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.caller import Caller
from authz_service.domain.model import Grant, Place
from authz_service.domain.ports import Change, View
from authz_service.store.audit import append
from authz_service.store.batch import Batcher
from authz_service.store.decide import Ask, decide
from authz_service.store.view import PostgresView, creator_grant_id, grant
from service_kit.db import keys
from service_kit.db.pool import Database
from service_kit.idempotency import Idempotency
from service_kit.ids import new_id

_SHAPE: Final = (0x61757468, 1)
"""The advisory lock of the tree's shape ("auth", 1)."""
PROMOTED: Final = 5_000
"""Most nodes that one purge lays bare."""


class PostgresChange(PostgresView):
    """The verbs of ``domain.ports.Change`` in one transaction."""

    async def hold_shape(self, *, alone: bool) -> None:
        await self._tx.execute(
            "select pg_advisory_xact_lock(%s, %s)"
            if alone
            else "select pg_advisory_xact_lock_shared(%s, %s)",
            _SHAPE,
        )

    async def creator_of(self, node: str) -> str | None:
        row = await self._tx.fetch_one("select creator from node where id = %s", (node,))
        return None if row is None else row["creator"]

    async def add_node(
        self, node: str, parent: str, *, restricted: bool, creator: str, now: datetime
    ) -> bool:
        added = await self._tx.execute(
            "insert into node (id, parent_id, restricted, creator, created_at)"
            " values (%s, nullif(%s, ''), %s, %s, %s) on conflict (id) do nothing",
            (node, parent, restricted, creator, now),
        )
        return added == 1

    async def move(self, node: str, parent: str) -> None:
        await self._tx.execute("update node set parent_id = nullif(%s, '') where id = %s", (parent, node))

    async def restrict(self, node: str, *, restricted: bool) -> bool:
        changed = await self._tx.execute(
            "update node set restricted = %(to)s where id = %(id)s and restricted <> %(to)s",
            {"id": node, "to": restricted},
        )
        return changed == 1

    async def height(self, node: str, most: int) -> int:
        return await self._tx.fetch_value(
            """
            with recursive level as (
                select %(node)s::text collate "C" as id, 1 as height
              union all
                select k.id, l.height + 1
                from level l cross join lateral (select id from node where parent_id = l.id offset 0) k
                where l.height < %(most)s
            )
            select max(height) from level
            """,
            {"node": node, "most": most},
        )

    async def delete(self, node: str) -> None:
        await self._tx.execute(
            "update node set parent_id = null, deleted_at = clock_timestamp() where id = %s", (node,)
        )

    async def purge(self, ids: Sequence[str]) -> None:
        gone = {"ids": list(ids), "most": PROMOTED}
        await self._tx.execute(
            "update node set parent_id = null, deleted_at = clock_timestamp() where id in ("
            " select k.id from node k join node d on d.id = k.parent_id"
            " where d.id = any (%(ids)s) and d.deleted_at is not null limit %(most)s)",
            gone,
        )
        rows = await self._tx.fetch_all(
            "select id from node d where d.id = any (%(ids)s) and d.deleted_at is not null"
            " and not exists (select from node k where k.parent_id = d.id)",
            gone,
        )
        bare = [row["id"] for row in rows]
        # By themselves first: in one go they would be removed node by node.
        await self._tx.execute("delete from grants where node = any (%s)", (bare,))
        await self._tx.execute("delete from node where id = any (%s)", (bare,))
        await keys.forget_memories(self._tx, bare)

    async def discard(self, ids: Sequence[str]) -> list[str]:
        wanted, gone = list(ids), list[str]()
        while rows := await self._tx.fetch_all(
            "delete from node n where n.id = any (%s)"
            " and not exists (select from node k where k.parent_id = n.id) returning id",
            (wanted,),
        ):
            gone += [row["id"] for row in rows]
        return gone

    async def exists(self, node: str) -> bool:
        return await self._tx.fetch_value(
            """
            with recursive up as (
                select parent_id, deleted_at from node where id = %(node)s
              union all
                select k.parent_id, k.deleted_at
                from up u cross join lateral (
                    select parent_id, deleted_at from node where node.id = u.parent_id offset 0
                ) k
            )
            select count(*) > 0 and count(deleted_at) = 0 from up
            """,
            {"node": node},
        )

    async def hold(self, node: str, holder: str, ttl: timedelta) -> None:
        await self._tx.execute("delete from hold where until <= clock_timestamp()")
        await self._tx.execute(
            "insert into hold (node, holder, until) values (%s, %s, clock_timestamp() + %s)"
            " on conflict (node, holder) do update set until = excluded.until",
            (node, holder, ttl),
        )

    async def release(self, node: str, holder: str) -> None:
        await self._tx.execute("delete from hold where node = %s and holder = %s", (node, holder))

    async def held_within(self, node: str) -> bool:
        return await self._tx.fetch_value(
            """
            with recursive up as (
                select node as id from hold where until > clock_timestamp()
              union
                select k.parent_id
                from up u cross join lateral (select parent_id from node where node.id = u.id offset 0) k
                where u.id <> %(node)s and k.parent_id is not null
            )
            select exists (select from up where id = %(node)s)
            """,
            {"node": node},
        )

    async def hold_line(self, nodes: Sequence[str]) -> None:
        await self.hold_shape(alone=False)
        await self._tx.execute("select hold_line(%s::text[])", (list(nodes),))

    async def held_grants(self, node: str, principal: str) -> tuple[int, int]:
        row = await self._tx.fetch_one(
            "select count(*) as grants, coalesce(max(privs) filter (where principal = %s), 0) as privs"
            " from grants where node = %s",
            (principal, node),
        )
        return (0, 0) if row is None else (row["grants"], row["privs"])

    async def grant(self, node: str, principal: str, mask: int, now: datetime) -> Grant:
        try:
            row = await self._tx.fetch_one(
                "insert into grants (id, node, principal, privs, created_at) values (%s, %s, %s, %s, %s)"
                " on conflict (node, principal) do update set privs = grants.privs | excluded.privs"
                " returning id, node, principal, privs, created_at, false as creator",
                (new_id("hgrt"), node, principal, mask, now),
            )
        except postgres.ForeignKeyViolation:
            raise errors.memory_not_found() from None
        if row is None:
            raise errors.memory_not_found()
        return grant(row)

    async def revoke(self, node: str, grant_id: str) -> Grant | None:
        if grant_id == creator_grant_id(node):
            row = await self._tx.fetch_one(
                "update node set creator_revoked = true where id = %(node)s and not creator_revoked"
                " returning %(grant)s::text as id, id as node, creator as principal, 15 as privs,"
                " created_at, true as creator",
                {"node": node, "grant": grant_id},
            )
        else:
            row = await self._tx.fetch_one(
                "delete from grants where id = %s and node = %s"
                " returning id, node, principal, privs, created_at, false as creator",
                (grant_id, node),
            )
        return None if row is None else grant(row)

    async def claim(self, principal: str, operation: str, idempotency: Idempotency) -> bytes | None:
        return await keys.claim(self._tx, principal, operation, idempotency)

    async def settle(
        self,
        principal: str,
        operation: str,
        idempotency: Idempotency,
        answer: bytes,
        *,
        memory_id: str | None = None,
    ) -> None:
        await keys.settle(self._tx, principal, operation, idempotency, answer, memory_id=memory_id)

    async def record(self, act: Act) -> None:
        await append(self._tx, act)


class PostgresStore:
    """``domain.ports.Store``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database
        self._places: Batcher[Ask, Place | None] = Batcher(database, decide)

    async def place(self, caller: Caller, node: str, *, count: bool = False) -> Place | None:
        return await self._places.ask(Ask(caller, node, count))

    async def places(self, caller: Caller, ids: Sequence[str]) -> list[Place | None]:
        async with self._database.read() as tx:
            return await PostgresView(tx).places(caller, ids)

    @asynccontextmanager
    async def view(self, *, grants: bool = False) -> AsyncGenerator[View]:
        del grants  # the rows have them in any case
        async with self._database.read(snapshot=True) as tx:
            yield PostgresView(tx)

    @asynccontextmanager
    async def change(self) -> AsyncGenerator[Change]:
        async with self._database.begin() as tx:
            yield PostgresChange(tx)

    async def existing(self, ids: Sequence[str]) -> list[str]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select id from node where id = any (%s) and deleted_at is null order by id", (list(ids),)
            )
        return [row["id"] for row in rows]

    async def created_before(self, moment: datetime, after: str, limit: int) -> list[str]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select id from node where id > %s and created_at < %s and deleted_at is null"
                " order by id limit %s",
                (after, moment, limit),
            )
        return [row["id"] for row in rows]

    async def deleted(self, limit: int) -> list[str]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select id from node where deleted_at is not null order by deleted_at limit %s", (limit,)
            )
        return [row["id"] for row in rows]
