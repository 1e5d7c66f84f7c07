"""Named queries, in Postgres."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, LiteralString

import psycopg

from memory_service.domain import errors
from memory_service.domain.model import Page, Privilege, Writer
from memory_service.domain.queries import NamedQuery, QueryPage
from memory_service.store.keyed import KeyedTransaction
from service_kit.db.pool import Database
from service_kit.db.tx import Row
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

_COLUMNS: Final[LiteralString] = (
    "name, description, params, requires, language, body, updated_at, writer_kind, writer_id"
)


class PostgresQueryTransaction(KeyedTransaction):
    """The verbs of ``domain.queries.QueryTransaction``."""

    async def put(self, memory_id: str, query: NamedQuery, most: int) -> bool:
        # Those that are there cannot change their number while the memory's row is held.
        await self._tx.execute("select 1 from memory where id = %s for update", (memory_id,))
        others = await self._tx.fetch_value(
            "select count(*) from named_query where memory_id = %s and name <> %s", (memory_id, query.name)
        )
        if others >= most:
            return False
        try:
            await self._tx.execute(
                "insert into named_query (memory_id, name, description, params, requires, language, body,"
                " updated_at, writer_kind, writer_id) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                " on conflict (memory_id, name) do update set description = excluded.description,"
                " params = excluded.params, requires = excluded.requires, language = excluded.language,"
                " body = excluded.body, updated_at = excluded.updated_at, writer_kind = excluded.writer_kind,"
                " writer_id = excluded.writer_id",
                (
                    memory_id,
                    query.name,
                    query.description,
                    query.params,
                    query.requires.value,
                    query.language,
                    query.body,
                    query.updated_at,
                    query.written_by.kind,
                    query.written_by.id,
                ),
            )
        except psycopg.errors.ForeignKeyViolation:
            raise errors.memory_not_found() from None
        return True

    async def remove(self, memory_id: str, name: str) -> NamedQuery | None:
        row = await self._tx.fetch_one(
            "delete from named_query where memory_id = %s and name = %s returning name, description, params,"
            " requires, language, body, updated_at, writer_kind, writer_id",
            (memory_id, name),
        )
        return None if row is None else _query(row)


class PostgresQueries:
    """The verbs of ``domain.queries.NamedQueries`` and ``domain.abilities.ListedQueries``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[PostgresQueryTransaction]:
        async with self._database.begin() as tx:
            yield PostgresQueryTransaction(tx)

    async def one(self, memory_id: str, name: str) -> NamedQuery | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                f"select {_COLUMNS} from named_query where memory_id = %s and name = %s",  # noqa: S608 - ours
                (memory_id, name),
            )
        return None if row is None else _query(row)

    async def of_memories(self, memory_ids: Sequence[str], most: int) -> dict[str, list[NamedQuery]]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                f"select memory_id, {_COLUMNS} from named_query where memory_id = any(%s)"  # noqa: S608 - ours
                " order by array_position(%s, memory_id), name limit %s",
                (list(memory_ids), list(memory_ids), most),
            )
        found: dict[str, list[NamedQuery]] = {}
        for row in rows:
            found.setdefault(row["memory_id"], []).append(_query(row))
        return found

    async def page(self, memory_id: str, page: Page) -> QueryPage:
        limit = clamp_limit(page.limit)
        after = str(decode_cursor(page.cursor, 1)[0]) if page.cursor else ""
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                f"select {_COLUMNS} from named_query where memory_id = %s and name > %s"  # noqa: S608 - ours
                " order by name limit %s",
                (memory_id, after, limit + 1),
            )
        queries = tuple(_query(row) for row in rows[:limit])
        return QueryPage(queries, encode_cursor(queries[-1].name) if len(rows) > limit else "")


def _query(row: Row) -> NamedQuery:
    return NamedQuery(
        row["name"],
        row["description"],
        bytes(row["params"]),
        Privilege(row["requires"]),
        row["language"],
        row["body"],
        row["updated_at"],
        Writer(row["writer_kind"], row["writer_id"]),
    )
