"""Runs and their changes, as rows and as what is answered of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString

from psycopg import sql

from provider_workers.adapters.native.capabilities import NAME
from provider_workers.adapters.native.rows import COLUMNS, record_of
from provider_workers.domain import errors
from provider_workers.domain.consolidations import (
    Budget,
    Change,
    ChangePage,
    Left,
    Reversal,
    Run,
    RunPage,
    Wanted,
)
from provider_workers.domain.model import Page, Writer
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

__all__ = ["WRITER", "Runs", "add", "of_run", "open_runs"]

WRITER: Final = Writer("consolidator", NAME)
"""Who wrote what a run wrote."""

_RUN: Final[LiteralString] = "select r.* from consolidation r where r.memory_id = %s and r.run_id = %s"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_LEFT: Final = 100


async def add(tx: Tx, memory_id: str, wanted: Wanted, budget: Budget) -> None:
    """Queue a run."""
    await tx.execute(
        "insert into consolidation (memory_id, run_id, status, trigger, budget_limit, budget_unit)"
        " values (%s, %s, 'queued', %s, %s, %s)",
        (memory_id, wanted.run_id, wanted.trigger, budget.limit, budget.unit),
    )


async def open_runs(tx: Tx, memory_id: str) -> int:
    """How many of a memory wait or work."""
    return await tx.fetch_value(
        "select count(*) from consolidation where memory_id = %s and status in ('queued', 'running')",
        (memory_id,),
    )


async def of_run(tx: Tx, memory_id: str, run_id: str, *, lock: bool = False) -> Run:
    """One as it is answered. ``grovekeeper_not_found``."""
    row = await tx.fetch_one(_RUN + " for update" if lock else _RUN, (memory_id, run_id))
    if row is None:
        raise errors.run_not_found()
    return _run(row, await _reversal(tx, row))


class Runs:
    """The reads."""

    def __init__(self, database: Database, answer_bytes: int) -> None:
        self._database = database
        self._answer_bytes = answer_bytes

    async def run(self, memory_id: str, run_id: str) -> Run:
        async with self._database.read(snapshot=True) as tx:
            return await of_run(tx, memory_id, run_id)

    async def runs(self, memory_id: str, page: Page) -> RunPage:
        limit, after = clamp_limit(page.limit), _after(page.cursor)
        async with self._database.read(snapshot=True) as tx:
            rows = await tx.fetch_all(
                "select * from consolidation where memory_id = %s and (created_at, run_id) < (%s, %s)"
                " order by created_at desc, run_id desc limit %s",
                (memory_id, *after, limit + 1),
            )
            kept = rows[:limit]
            found = tuple([_run(row, await _reversal(tx, row)) for row in kept])
        return RunPage(
            found, _cursor(kept[-1]["created_at"], kept[-1]["run_id"]) if len(rows) > limit else ""
        )

    async def changes(self, memory_id: str, run_id: str, page: Page) -> ChangePage:
        """A page is cut short where its records would not fit one answer."""
        limit = clamp_limit(page.limit)
        at, record_id = _after(page.cursor) if page.cursor else (_EPOCH, "")
        async with self._database.read(snapshot=True) as tx:
            await of_run(tx, memory_id, run_id)
            rows = await tx.fetch_all(
                sql.SQL(
                    "select c.change, c.reason, c.other_id, c.undone, c.at, v.size, {columns} from consolidation_change c"
                    " join version v using (memory_id, record_id, version) where c.memory_id = %s and c.run_id = %s"
                    " and (c.at, c.record_id) > (%s, %s) order by c.at, c.record_id limit %s"
                ).format(columns=sql.SQL(COLUMNS)),
                (memory_id, run_id, at, record_id, limit + 1),
            )
        kept = _fitting(rows[:limit], self._answer_bytes)
        more = len(rows) > len(kept)
        return ChangePage(
            tuple(_change(row) for row in kept),
            _cursor(kept[-1]["at"], kept[-1]["record_id"]) if more else "",
        )


def _fitting(rows: Sequence[Row], most: int) -> Sequence[Row]:
    total = 0
    for kept, row in enumerate(rows):
        total += row["size"]
        if total > most and kept:
            return rows[:kept]
    return rows


def _change(row: Row) -> Change:
    return Change(row["change"], row["reason"], record_of(row), row["other_id"] or "", row["undone"])


def _run(row: Row, reversal: Reversal | None) -> Run:
    return Run(
        id=row["run_id"],
        memory_id=row["memory_id"],
        status=row["status"],
        trigger=row["trigger"],
        started_at=_utc(row["started_at"]),
        finished_at=_utc(row["finished_at"]),
        episodes=row["episodes"],
        through=_utc(row["through"]),
        created=row["created"],
        superseded=row["superseded"],
        forgotten=row["forgotten"],
        budget=Budget(row["budget_limit"], row["budget_unit"], row["exhausted"]),
        written_by=WRITER,
        error=row["error"],
        degraded=tuple(row["degraded"]),
        reversal=reversal,
    )


async def _reversal(tx: Tx, run: Row) -> Reversal | None:
    if run["reverted_at"] is None:
        return None
    key = (run["memory_id"], run["run_id"])
    counts = await tx.fetch_one(
        "select count(*) filter (where undone = '' and change <> 'created') as restored,"
        " count(*) filter (where undone = '' and change = 'created') as forgotten,"
        " count(*) filter (where undone <> '') as kept from consolidation_change"
        " where memory_id = %s and run_id = %s",
        key,
    )
    left = await tx.fetch_all(
        "select record_id, undone from consolidation_change where memory_id = %s and run_id = %s"
        " and undone <> '' order by at, record_id limit %s",
        (*key, _LEFT),
    )
    if counts is None:
        raise errors.run_not_found()
    return Reversal(
        run["reverted_at"].astimezone(UTC),
        Writer(run["reverted_by_kind"], run["reverted_by_id"]),
        counts["restored"],
        counts["forgotten"],
        counts["kept"],
        tuple(Left(one["record_id"], one["undone"]) for one in left),
    )


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)


def _cursor(at: datetime, key: str) -> str:
    return encode_cursor((at - _EPOCH) // _TICK, key)


def _after(cursor: str) -> tuple[datetime, str]:
    """Where a page begins; without a cursor, before everything."""
    if not cursor:
        return datetime.max.replace(tzinfo=UTC), ""
    ticks, key = decode_cursor(cursor, 2)
    if not isinstance(ticks, int) or not isinstance(key, str) or not 0 <= ticks < 253_402_300_799_000_000:
        raise errors.invalid("The cursor is not one this server gave out.", "cursor")
    return _EPOCH + timedelta(microseconds=ticks), key
