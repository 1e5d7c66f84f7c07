"""Groups and who is in them in Postgres."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from authz_service.domain.audit import Act
from authz_service.domain.model import Group, Member
from authz_service.domain.ports import GroupsChange
from authz_service.store.audit import append
from service_kit.db.pool import Database, Row, Tx

_NAMES: Final = (0x61757468, 2)
"""The advisory lock of whoever adds a group ("auth", 2)."""
_PRINCIPAL: Final = 0x6D656D62
"""The first half of the advisory lock of a principal's memberships ("memb"); its hash is the other."""

_GROUP: Final = (
    "select name, description, created_at, (select count(*) from member m where m.group_name = g.name)"
    " as members_count from principal_group g"
)
_MEMBER: Final = "select group_name, principal, added_at, added_by from member"


class PostgresGroupsChange:
    """The verbs of ``domain.ports.GroupsChange`` in one transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx: Tx = tx

    async def hold_names(self) -> None:
        await self._tx.execute("select pg_advisory_xact_lock(%s, %s)", _NAMES)

    async def hold_principal(self, principal: str) -> None:
        await self._tx.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_PRINCIPAL, principal))

    async def hold_group(self, name: str) -> Group | None:
        # Two statements: what is counted is what there is once the row is ours.
        await self._tx.execute("select from principal_group where name = %s for update", (name,))
        row = await self._tx.fetch_one(_GROUP + " where name = %s", (name,))
        return None if row is None else _group(row)

    async def groups_count(self) -> int:
        return await self._tx.fetch_value("select count(*) from principal_group")

    async def memberships_count(self, principal: str) -> int:
        return await self._tx.fetch_value("select count(*) from member where principal = %s", (principal,))

    async def member(self, group: str, principal: str) -> Member | None:
        row = await self._tx.fetch_one(
            _MEMBER + " where group_name = %s and principal = %s", (group, principal)
        )
        return None if row is None else _member(row)

    async def add_group(self, group: Group) -> bool:
        added = await self._tx.execute(
            "insert into principal_group (name, description, created_at) values (%s, %s, %s)"
            " on conflict (name) do nothing",
            (group.name, group.description, group.created_at),
        )
        return added == 1

    async def add_member(self, member: Member) -> None:
        await self._tx.execute(
            "insert into member (group_name, principal, added_at, added_by) values (%s, %s, %s, %s)",
            (member.group, member.principal, member.added_at, member.added_by),
        )

    async def remove_member(self, group: str, principal: str) -> Member | None:
        row = await self._tx.fetch_one(
            "delete from member where group_name = %s and principal = %s"
            " returning group_name, principal, added_at, added_by",
            (group, principal),
        )
        return None if row is None else _member(row)

    async def remove_group(self, name: str) -> int:
        # Its memberships go with its row.
        await self._tx.execute("delete from principal_group where name = %s", (name,))
        return await self._tx.execute("delete from grants where principal = %s", (name,))

    async def record(self, act: Act) -> None:
        await append(self._tx, act)


class PostgresGroups:
    """``domain.ports.Groups``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database

    @asynccontextmanager
    async def change(self) -> AsyncGenerator[GroupsChange]:
        async with self._database.begin() as tx:
            yield PostgresGroupsChange(tx)

    async def get(self, name: str) -> Group | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(_GROUP + " where name = %s", (name,))
        return None if row is None else _group(row)

    async def page(self, member: str, after: str, limit: int) -> list[Group]:
        whose = " and name in (select group_name from member where principal = %(member)s)" if member else ""
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                _GROUP + " where name > %(after)s" + whose + " order by name limit %(limit)s",
                {"member": member, "after": after, "limit": limit},
            )
        return [_group(row) for row in rows]

    async def members(self, group: str, after: str, limit: int) -> list[Member] | None:
        async with self._database.read(snapshot=True) as tx:
            if await tx.fetch_one("select from principal_group where name = %s", (group,)) is None:
                return None
            rows = await tx.fetch_all(
                _MEMBER + " where group_name = %s and principal > %s order by principal limit %s",
                (group, after, limit),
            )
        return [_member(row) for row in rows]

    async def groups_of(self, principal: str) -> tuple[str, ...]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select group_name from member where principal = %s order by group_name", (principal,)
            )
        return tuple(row["group_name"] for row in rows)


def _group(row: Row) -> Group:
    return Group(row["name"], row["description"], row["created_at"], row["members_count"])


def _member(row: Row) -> Member:
    return Member(row["group_name"], row["principal"], row["added_at"], row["added_by"])
