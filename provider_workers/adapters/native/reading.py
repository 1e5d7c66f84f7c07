"""The reads: by id, in order, counted; and what is always relevant."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
from psycopg import sql

from provider_workers.adapters.native.rows import COLUMNS, record_of
from provider_workers.adapters.native.scope import Arguments, scope, undecided
from provider_workers.domain import errors, limits
from provider_workers.domain.model import (
    Counts,
    Job,
    Page,
    Record,
    RecordAddress,
    RecordPage,
    Selection,
)
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

__all__ = ["UNDECIDED", "Reading", "filtered", "fit", "left_out"]

UNDECIDED: Final = "filters:attributes_not_comparable"
"""Some records were left out: their attributes are kept, and cannot be looked into."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PRIMED: Final = 200
_OVERHEAD_TOKENS: Final = 8


class Reading:
    """``answer_bytes`` bounds one answer's content, so that it fits a message between services."""

    def __init__(self, database: Database, *, answer_bytes: int, prime_tokens: int) -> None:
        self._database = database
        self._answer_bytes = answer_bytes
        self._prime_tokens = prime_tokens

    async def get(self, memory_id: str, record_id: str, as_of: datetime | None) -> Record:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                sql.SQL(
                    "select {columns} from version v where memory_id = %s and record_id = %s"
                    " and (%s::timestamptz is null or written_at <= %s) order by version desc limit 1"
                ).format(columns=sql.SQL(COLUMNS)),
                (memory_id, record_id, as_of, as_of),
            )
        if row is None:
            raise errors.record_not_found()
        return record_of(row, as_of)

    async def history(
        self, memory_id: str, record_id: str, as_of: datetime | None = None
    ) -> tuple[Record, ...]:
        asked = (memory_id, record_id, as_of, as_of)
        async with self._database.read(snapshot=True) as tx:
            size = await tx.fetch_value(
                "select sum(size) from version where memory_id = %s and record_id = %s"
                " and (%s::timestamptz is null or written_at <= %s)",
                asked,
            )
            if size is None:
                raise errors.record_not_found()
            if size > self._answer_bytes:
                raise errors.too_large("The history of this record is too large for one answer.", "record_id")
            rows = await tx.fetch_all(
                sql.SQL(
                    "select {columns} from version v where memory_id = %s and record_id = %s"
                    " and (%s::timestamptz is null or written_at <= %s) order by version"
                ).format(columns=sql.SQL(COLUMNS)),
                asked,
            )
        return tuple(record_of(row, as_of) for row in rows)

    async def list(self, memory_id: str, selection: Selection, page: Page) -> RecordPage:
        bind, limit, query = Arguments(), clamp_limit(page.limit), _named(memory_id, selection)
        conditions: list[sql.Composable] = [scope([memory_id], selection, bind).condition]
        if page.cursor:
            conditions.append(_after(page.cursor, query, bind))
        statement = sql.SQL(
            "select * from (select page.*, count(*) over () as found,"
            " sum(size) over (order by created_at desc, record_id desc, version desc) as running"
            " from (select {columns}, v.size from version v where {condition}"
            " order by v.created_at desc, v.record_id desc, v.version desc limit {limit}) page) sized"
            " where running <= {bytes} or running = size"
            " order by created_at desc, record_id desc, version desc"
        ).format(
            columns=sql.SQL(COLUMNS),
            condition=sql.SQL(" and ").join(conditions),
            limit=bind(limit + 1),
            bytes=bind(self._answer_bytes),
        )
        async with self._database.read() as tx:
            rows = await filtered(tx, statement, bind, selection)
            degraded = await left_out(tx, [memory_id], selection)
        kept = rows[:limit]
        records = tuple(record_of(row, selection.as_of) for row in kept)
        more = bool(rows) and rows[0]["found"] > len(kept)
        return RecordPage(records, _cursor(kept[-1], query) if more else "", degraded)

    async def job(self, memory_id: str, job_id: str) -> Job:
        async with self._database.read(snapshot=True) as tx:
            job = await tx.fetch_one(
                "select job_id, status, created_at, finished_at, error from job"
                " where memory_id = %s and job_id = %s",
                (memory_id, job_id),
            )
            if job is None:
                raise errors.job_not_found()
            rows = await tx.fetch_all(
                sql.SQL(
                    "with made as (select record_id, 0 as kind, position, 0 as sentence from job_episode"
                    " where memory_id = %(memory)s and job_id = %(job)s"
                    " union all select record_id, 1, position, sentence from job_fact"
                    " where memory_id = %(memory)s and job_id = %(job)s)"
                    " select {columns}, v.size from made"
                    " cross join lateral (select * from version where memory_id = %(memory)s"
                    " and record_id = made.record_id order by version desc limit 1) v"
                    " order by kind, position, sentence limit %(limit)s"
                ).format(columns=sql.SQL(COLUMNS)),
                {"memory": memory_id, "job": job_id, "limit": limits.MAX_JOB_RECORDS},
            )
        finished_at = job["finished_at"]
        return Job(
            job["job_id"],
            job["status"],
            tuple(record_of(row) for row in fit(rows, self._answer_bytes)),
            job["created_at"].astimezone(UTC),
            None if finished_at is None else finished_at.astimezone(UTC),
            job["error"],
        )

    async def count(self, memory_ids: Sequence[str]) -> Counts:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select memory_id, count(*) as count from version"
                " where memory_id = any(%s) and invalidated_at is null group by memory_id",
                (list(memory_ids),),
            )
        return {row["memory_id"]: row["count"] for row in rows}

    async def exist(self, records: Sequence[RecordAddress]) -> frozenset[RecordAddress]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select memory_id, record_id from record"
                " where (memory_id, record_id) in (select * from unnest(%s::text[], %s::text[]))",
                ([memory for memory, _ in records], [record for _, record in records]),
            )
        return frozenset((row["memory_id"], row["record_id"]) for row in rows)

    async def prime(self, memory_id: str) -> tuple[Record, ...]:
        """Procedures and notes, then stated facts, the newest first, as far as the budget goes.

        A record that does not fit is passed over. A token is estimated as four bytes.
        """
        async with self._database.read(snapshot=True) as tx:
            sized = await tx.fetch_all(
                "select record_id, size from version where memory_id = %s and invalidated_at is null"
                " and (type in ('procedure', 'note') or (type = 'fact' and not derived)) and not derived"
                " and size <= %s order by type = 'fact', written_at desc, record_id desc limit %s",
                (memory_id, self._prime_tokens * 4, _PRIMED),
            )
            chosen, left = list[str](), self._prime_tokens
            for row in sized:
                tokens = row["size"] // 4 + _OVERHEAD_TOKENS
                if tokens <= left:
                    chosen.append(row["record_id"])
                    left -= tokens
            rows = await tx.fetch_all(
                sql.SQL(
                    "select {columns} from version v where memory_id = %s and record_id = any(%s)"
                    " and invalidated_at is null order by array_position(%s, record_id)"
                ).format(columns=sql.SQL(COLUMNS)),
                (memory_id, chosen, chosen),
            )
        return tuple(record_of(row) for row in rows)


def fit(rows: Sequence[Row], most: int) -> Sequence[Row]:
    """The first rows whose ``size`` together is at most ``most``; always one, if there is one."""
    total = 0
    for kept, row in enumerate(rows):
        total += row["size"]
        if total > most and kept:
            return rows[:kept]
    return rows


async def filtered(tx: Tx, statement: sql.Composed, bind: Arguments, selection: Selection) -> list[Row]:
    """Run a statement that may hold a caller's filter: a value Postgres cannot compare is the caller's."""
    try:
        return await tx.fetch_all(statement, bind.values)
    except psycopg.DataError as error:
        if selection.filter is None:
            raise
        raise errors.invalid("The filter holds a value that cannot be compared.", "filters") from error


async def left_out(tx: Tx, memory_ids: Sequence[str], selection: Selection) -> tuple[str, ...]:
    """Whether a filter left out records it could not be decided for; there are hardly ever any."""
    if selection.filter is None:
        return ()
    bind = Arguments()
    statement = sql.SQL("select exists (select from version v where {}) as some").format(
        undecided(memory_ids, selection, bind)
    )
    rows = await filtered(tx, statement, bind, selection)
    return (UNDECIDED,) if rows[0]["some"] else ()


def _named(memory_id: str, selection: Selection) -> str:
    """What tells the cursor of one listing from that of another."""
    return hashlib.sha256(f"{memory_id}{selection!r}".encode()).hexdigest()[:16]


def _after(cursor: str, query: str, bind: Arguments) -> sql.Composed:
    asked, microseconds, record_id, version = decode_cursor(cursor, 4)
    if asked != query:
        raise errors.invalid("The cursor is of another listing.", "cursor")
    try:
        if not (isinstance(microseconds, int) and isinstance(record_id, str) and isinstance(version, int)):
            raise TypeError(cursor)
        created_at = _EPOCH + timedelta(microseconds=microseconds)
    except (TypeError, OverflowError):
        raise errors.invalid("The cursor is not one this server gave out.", "cursor") from None
    return sql.SQL("(v.created_at, v.record_id, v.version) < ({}, {}, {})").format(
        bind(created_at), bind(record_id), bind(version)
    )


def _cursor(row: Row, query: str) -> str:
    microseconds = (row["created_at"] - _EPOCH) // timedelta(microseconds=1)
    return encode_cursor(query, microseconds, row["record_id"], row["version"])
