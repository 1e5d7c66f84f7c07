"""Snapshots, in Postgres. They go with the memory they are of."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg

from memory_service.domain import errors
from memory_service.domain.model import Page, Snapshot, SnapshotPage, Writer
from memory_service.store.keyed import KeyedTransaction
from service_kit.db.pool import Database
from service_kit.db.tx import Row
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresSnapshotTransaction(KeyedTransaction):
    """The verbs of ``domain.ports.SnapshotTransaction``."""

    async def add(self, snapshot: Snapshot, most: int) -> None:
        # The memory's row is held, so that there are never more than that and never one of a memory that is gone.
        held = await self._tx.fetch_one(
            "select (select count(*) from snapshot where memory_id = memory.id) as kept from memory"
            " where id = %s for no key update",
            (snapshot.memory_id,),
        )
        if held is None:
            raise errors.memory_not_found()
        if held["kept"] >= most:
            raise errors.too_many_snapshots(most)
        try:
            await self._tx.execute(
                "insert into snapshot (memory_id, id, name, message, at, writer_kind, writer_id)"
                " values (%s, %s, %s, %s, %s, %s, %s)",
                (
                    snapshot.memory_id,
                    snapshot.id,
                    snapshot.name,
                    snapshot.message,
                    snapshot.at,
                    snapshot.writer.kind,
                    snapshot.writer.id,
                ),
            )
        except psycopg.errors.UniqueViolation:
            raise errors.snapshot_name_taken() from None

    async def remove(self, memory_id: str, snapshot_id: str) -> Snapshot | None:
        row = await self._tx.fetch_one(
            "delete from snapshot where memory_id = %s and id = %s"
            " returning memory_id, id, name, message, at, writer_kind, writer_id",
            (memory_id, snapshot_id),
        )
        return None if row is None else _snapshot(row)


class PostgresSnapshots:
    """The verbs of ``domain.ports.SnapshotStore``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[PostgresSnapshotTransaction]:
        async with self._database.begin() as tx:
            yield PostgresSnapshotTransaction(tx)

    async def get(self, memory_id: str, snapshot_id: str) -> Snapshot | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select memory_id, id, name, message, at, writer_kind, writer_id from snapshot"
                " where memory_id = %s and id = %s",
                (memory_id, snapshot_id),
            )
        return None if row is None else _snapshot(row)

    async def list(self, memory_id: str, page: Page) -> SnapshotPage:
        limit, after = clamp_limit(page.limit), _after(page.cursor)
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select memory_id, id, name, message, at, writer_kind, writer_id from snapshot"
                " where memory_id = %s and (%s::timestamptz is null or (at, id) < (%s, %s))"
                " order by at desc, id desc limit %s",
                (memory_id, after[0], *after, limit + 1),
            )
        found = tuple(_snapshot(row) for row in rows[:limit])
        return SnapshotPage(found, _cursor(found[-1]) if len(rows) > limit else "")


def _after(cursor: str) -> tuple[datetime | None, str]:
    if not cursor:
        return None, ""
    microseconds, snapshot_id = decode_cursor(cursor, 2)
    if not (isinstance(microseconds, int) and isinstance(snapshot_id, str)):
        raise errors.invalid("The cursor is not one this server gave out.", "cursor")
    try:
        return _EPOCH + timedelta(microseconds=microseconds), snapshot_id
    except OverflowError:
        raise errors.invalid("The cursor is not one this server gave out.", "cursor") from None


def _cursor(last: Snapshot) -> str:
    return encode_cursor((last.at - _EPOCH) // timedelta(microseconds=1), last.id)


def _snapshot(row: Row) -> Snapshot:
    return Snapshot(
        row["id"],
        row["memory_id"],
        row["name"],
        row["message"],
        row["at"].astimezone(UTC),
        Writer(row["writer_kind"], row["writer_id"]),
    )
