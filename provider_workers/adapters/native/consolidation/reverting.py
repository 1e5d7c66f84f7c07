"""Undoing a run: appended in one transaction, and only where a record is as the run had left it."""

from datetime import UTC, datetime

from provider_workers.adapters.native.consolidation.pen import copy_version
from provider_workers.adapters.native.consolidation.runs import of_run
from provider_workers.adapters.native.keys import Claim, claim, settle
from provider_workers.adapters.native.moments import TICK, now
from provider_workers.adapters.native.rows import close
from provider_workers.domain import errors
from provider_workers.domain.consolidations import Run
from provider_workers.domain.model import Stamp, Status
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx

__all__ = ["revert"]


async def revert(database: Database, memory_id: str, run_id: str, stamp: Stamp) -> Run:
    """See ``provider_workers.domain.consolidations``. What is restored is written by who had written it: it says
    again what they said.
    """
    claimed = Claim(stamp, "revert", memory_id, run_id)
    async with database.begin() as tx:
        if await claim(tx, claimed) is None:
            run = await of_run(tx, memory_id, run_id, lock=True)
            if run.status in ("queued", "running"):
                raise errors.run_not_ended(run.status)
            if run.reversal is None:
                await _undo(tx, memory_id, run_id, stamp)
            await settle(tx, claimed, job_id=run_id)
        return await of_run(tx, memory_id, run_id)


async def _undo(tx: Tx, memory_id: str, run_id: str, stamp: Stamp) -> None:
    rows = await _changed(tx, memory_id, run_id)
    at = await now(tx, memory_id, *(row[when] for row in rows for when in ("written_at", "invalidated_at")))
    # Notes first: one that is forgotten makes room for the one it had replaced.
    for place, row in enumerate(sorted(rows, key=lambda one: one["change"] != "created")):
        left = await _why_left(tx, row)
        if not left:
            await _undo_one(tx, row, at + place * TICK)
        await tx.execute(
            "update consolidation_change set undone = %s where memory_id = %s and run_id = %s and record_id = %s",
            (left, memory_id, run_id, row["record_id"]),
        )
    await tx.execute(
        "update consolidation set reverted_at = %s, reverted_by_kind = %s, reverted_by_id = %s"
        " where memory_id = %s and run_id = %s",
        (datetime.now(UTC), stamp.writer.kind, stamp.writer.id, memory_id, run_id),
    )


async def _changed(tx: Tx, memory_id: str, run_id: str) -> list[Row]:
    """The run's changes, each with the latest version of its record, which is locked."""
    await tx.execute(
        "select 1 from record where memory_id = %(memory)s and record_id in (select record_id from consolidation_change"
        " where memory_id = %(memory)s and run_id = %(run)s) order by record_id for no key update",
        {"memory": memory_id, "run": run_id},
    )
    return await tx.fetch_all(
        "select c.memory_id, c.record_id, c.change, c.version, c.before, v.version as latest, v.status, v.derived,"
        " v.digest, v.written_at, v.invalidated_at, v.forgotten_at from consolidation_change c"
        " cross join lateral (select * from version v where v.memory_id = c.memory_id and v.record_id = c.record_id"
        " order by v.version desc limit 1) v where c.memory_id = %s and c.run_id = %s order by c.at, c.record_id",
        (memory_id, run_id),
    )


async def _why_left(tx: Tx, row: Row) -> str:
    """Empty where the record is as the run left it, and can be as it was before."""
    expected = "active" if row["change"] == "created" else row["change"]
    if row["latest"] != row["version"]:
        return "revised"
    if row["status"] != expected or row["forgotten_at"] is not None:
        return row["status"]
    if row["change"] == "created" or not row["derived"]:
        return ""
    again = await tx.fetch_value(
        "select exists (select from version where memory_id = %s and digest = %s and derived"
        " and invalidated_at is null)",
        (row["memory_id"], row["digest"]),
    )
    return "stated_again" if again else ""


async def _undo_one(tx: Tx, row: Row, at: datetime) -> None:
    memory_id, record_id = row["memory_id"], row["record_id"]
    if row["change"] == "created":
        await close(tx, memory_id, record_id, Status.FORGOTTEN, at)
        return
    await copy_version(
        tx,
        (memory_id, record_id, row["before"]),
        row["version"] + 1,
        at,
        {"status": "active", "invalidated_at": None},
    )
