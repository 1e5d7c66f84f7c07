"""Sessions as wholes, in Postgres: listed, read, and rid of what is to go."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from psycopg import sql

from runner_service.domain.model import Response, Status
from runner_service.domain.session_ports import Active, Overview
from runner_service.store import rows
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx

__all__ = ["OF_ITS_TURNS", "OVERVIEW", "PostgresSessions", "overview_of", "remove_sessions"]

OVERVIEW: Final = sql.SQL("s.id, s.harness_id, first.title, last.status, s.created_at, s.updated_at")
"""What :func:`overview_of` reads, of a ``session s`` joined with :data:`OF_ITS_TURNS`."""
OF_ITS_TURNS: Final = sql.SQL(
    "cross join lateral (select title from response r where r.session_id = s.id"
    " and (r.store or r.finished_at is null) order by r.id limit 1) first"
    " cross join lateral (select status from response r where r.session_id = s.id"
    " and (r.store or r.finished_at is null) order by r.id desc limit 1) last"
)

_PAGE_BYTES: Final = 4 * 1024 * 1024
"""What a page of turns holds at most, unless one turn alone is larger: a message carries four times as much."""


class PostgresSessions:
    """The verbs of ``domain.session_ports.SessionStore``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database

    async def overviews(self, owner: str, harness_id: str, before: str, limit: int) -> tuple[Overview, ...]:
        async with self._database.read() as tx:
            found = await tx.fetch_all(
                sql.SQL(
                    "select {} from session s {}"
                    " where s.owner = %(owner)s and (%(harness)s = '' or s.harness_id = %(harness)s)"
                    " and (%(before)s = '' or s.id < %(before)s) order by s.id desc limit %(limit)s"
                ).format(OVERVIEW, OF_ITS_TURNS),
                {"owner": owner, "harness": harness_id, "before": before, "limit": limit},
            )
        return tuple(overview_of(row) for row in found)

    async def overview(self, owner: str, session_id: str) -> Overview | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                sql.SQL("select {} from session s {} where s.id = %s and s.owner = %s").format(
                    OVERVIEW, OF_ITS_TURNS
                ),
                (session_id, owner),
            )
        return None if row is None else overview_of(row)

    async def known(self, session_ids: Sequence[str]) -> frozenset[str]:
        async with self._database.read() as tx:
            found = await tx.fetch_all("select id from session where id = any(%s)", (list(session_ids),))
        return frozenset(row["id"] for row in found)

    async def turns(self, session_id: str, after: str, limit: int) -> tuple[tuple[Response, ...], bool]:
        async with self._database.read() as tx:
            found = await tx.fetch_all(
                "select * from (select r.*, count(*) over () as found, row_number() over (order by r.id) as place,"
                " sum(octet_length(r.input) + coalesce(octet_length(r.final), 0)) over (order by r.id) as bytes"
                " from (select * from response where session_id = %s and id > %s"
                " and (store or finished_at is null) order by id limit %s) r) sized"
                " where place <= %s and (place = 1 or bytes <= %s) order by id",
                (session_id, after, limit + 1, limit, _PAGE_BYTES),
            )
        return tuple(rows.response(row) for row in found), bool(found) and found[0]["found"] > len(found)

    async def active(self, owner: str, harness_id: str, since: datetime) -> tuple[Active, ...]:
        async with self._database.read() as tx:
            found = await tx.fetch_all(
                "select id, session_id, finished_at from response"
                " where harness_id = %s and owner = %s and (finished_at is null or finished_at > %s) order by id",
                (harness_id, owner, since),
            )
        return tuple(Active(row["id"], row["session_id"], row["finished_at"]) for row in found)

    async def last_status(self, session_id: str) -> Status | None:
        async with self._database.read() as tx:
            found = await tx.fetch_value(
                "select status from response where session_id = %s order by id desc limit 1", (session_id,)
            )
        return None if found is None else Status(found)

    async def delete_response(self, owner: str, response_id: str) -> Status | None:
        async with self._database.begin() as tx:
            session_id = await tx.fetch_value(
                "select session_id from response where id = %s and owner = %s", (response_id, owner)
            )
            # Nobody begins or ends a turn in it meanwhile.
            await tx.execute("select 1 from session where id = %s for update", (session_id,))
            row = await tx.fetch_one(
                "select status, previous_response_id from response"
                " where id = %s and (store or finished_at is null)",
                (response_id,),
            )
            if session_id is None or row is None:
                return None
            status = Status(row["status"])
            if status.terminal:
                await _take_out(tx, session_id, response_id, row["previous_response_id"])
        return status

    async def delete_session(self, owner: str, session_id: str) -> tuple[str, ...] | None:
        async with self._database.begin() as tx:
            found = await tx.fetch_one(
                "select 1 from session where id = %s and owner = %s for update", (session_id, owner)
            )
            if found is None:
                return None
            running = await tx.fetch_all(
                "select id from response where session_id = %s and finished_at is null", (session_id,)
            )
            await remove_sessions(tx, [session_id])
        return tuple(row["id"] for row in running)


async def remove_sessions(tx: Tx, session_ids: Sequence[str]) -> None:
    """Delete sessions that are locked, with everything of them: the one place where a session goes as a whole.

    Events go with their responses, and what else a table holds of a session goes with the session's row. Whatever lies
    outside the database is taken away by a job that looks for what has no session any more.
    """
    await tx.execute("delete from response where session_id = any(%s)", (list(session_ids),))
    await tx.execute("delete from session where id = any(%s)", (list(session_ids),))


async def _take_out(tx: Tx, session_id: str, response_id: str, previous: str) -> None:
    """Delete one response of a session that is locked; the session goes with its last one."""
    await tx.execute(
        "update response set previous_response_id = %s where session_id = %s and previous_response_id = %s",
        (previous, session_id, response_id),
    )
    await tx.execute("delete from response where id = %s", (response_id,))
    await tx.execute(
        "delete from session where id = %s and not exists (select from response where session_id = session.id)",
        (session_id,),
    )


def overview_of(row: Row) -> Overview:
    """A session as it is listed."""
    return Overview(
        row["id"],
        row["harness_id"],
        row["title"],
        Status(row["status"]),
        row["created_at"],
        row["updated_at"],
    )
