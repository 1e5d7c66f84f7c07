"""Derivations and consolidation runs from outside: how far they are, and a failed derivation begun again. No contents."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from provider_workers.adapters.native.writing import DERIVE
from provider_workers.domain import errors
from provider_workers.domain.model import Backlog, Job, JobKey
from service_kit.db.pool import Database
from service_kit.db.tx import Row
from service_kit.jobs import Jobs

__all__ = ["Work"]

_COLUMNS: Final = (
    "select j.memory_id, j.job_id, j.status, j.created_at, j.finished_at, j.error, j.runs, j.retried_at,"
    " (select count(*) from job_episode e where e.memory_id = j.memory_id and e.job_id = j.job_id"
    " and e.state = 'quarantined') as quarantined from job j "
)


class Work:
    """``jobs`` must know the task :data:`DERIVE`."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    async def list(self, statuses: Sequence[str], after: JobKey | None, limit: int) -> tuple[Job, ...]:
        """Derivations and consolidation runs of every memory, newest first."""
        at, job_id = after or (datetime.max.replace(tzinfo=UTC), "")
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                _COLUMNS + "where j.status = any(%s) and (j.created_at, j.job_id) < (%s, %s)"
                " order by j.created_at desc, j.job_id desc limit %s",
                (list(statuses), at, job_id, limit),
            )
            runs = await tx.fetch_all(
                "select memory_id, run_id, status, created_at, started_at, finished_at, error, epoch, degraded"
                " from consolidation where status = any(%s) and (created_at, run_id) < (%s, %s)"
                " order by created_at desc, run_id desc limit %s",
                (list(statuses), at, job_id, limit),
            )
        found = [*map(_job, rows), *map(_run, runs)]
        found.sort(key=lambda one: (one.created_at, one.id), reverse=True)
        return tuple(found[:limit])

    async def find(self, job_id: str) -> Job | None:
        """A derivation of any memory."""
        async with self._database.read() as tx:
            row = await tx.fetch_one(_COLUMNS + "where j.job_id = %s", (job_id,))
        return None if row is None else _job(row)

    async def retry(self, job_id: str) -> Job:
        """Begin a failed job again: episodes that were set aside wait once more, those that are done stay done."""
        async with self._database.begin() as tx:
            row = await tx.fetch_one(
                "select memory_id, status from job where job_id = %s for update", (job_id,)
            )
            if row is None:
                raise errors.job_not_found()
            if row["status"] != "failed":
                raise errors.not_failed(row["status"])
            of = {"memory_id": row["memory_id"], "job_id": job_id}
            await tx.execute(
                "update job set status = 'pending', error = '', runs = 0, finished_at = null,"
                " retried_at = clock_timestamp() where memory_id = %(memory_id)s and job_id = %(job_id)s",
                of,
            )
            await tx.execute(
                "update job_episode set state = 'waiting', attempts = 0 where memory_id = %(memory_id)s"
                " and job_id = %(job_id)s and state <> 'done'",
                of,
            )
            await self._jobs.defer(tx, DERIVE, of)
            begun = await tx.fetch_one(_COLUMNS + "where j.job_id = %s", (job_id,))
        if begun is None:
            raise errors.job_not_found()
        return _job(begun)

    async def backlog(self, memory_id: str) -> Backlog:
        """What is still to be done in one memory."""
        async with self._database.read() as tx:
            oldest = await tx.fetch_one(
                "select coalesce(retried_at, created_at) as since, error, count(*) over () as pending from job"
                " where memory_id = %s and status = 'pending' order by coalesce(retried_at, created_at) limit 1",
                (memory_id,),
            )
            quarantined = await tx.fetch_value(
                "select count(*) from job_episode where memory_id = %s and state = 'quarantined'",
                (memory_id,),
            )
            tokens = await tx.fetch_value(
                "select tokens from derivation_usage where memory_id = %s"
                " and day = (clock_timestamp() at time zone 'utc')::date",
                (memory_id,),
            )
        if oldest is None:
            return Backlog(0, None, "", quarantined, tokens or 0)
        since = oldest["since"].astimezone(UTC)
        return Backlog(oldest["pending"], since, oldest["error"], quarantined, tokens or 0)


def _job(row: Row) -> Job:
    finished_at: datetime | None = row["finished_at"]
    since: datetime = row["retried_at"] or row["created_at"]
    return Job(
        row["job_id"],
        row["status"],
        (),
        row["created_at"].astimezone(UTC),
        None if finished_at is None else finished_at.astimezone(UTC),
        row["error"],
        memory_id=row["memory_id"],
        runs=row["runs"],
        quarantined=row["quarantined"],
        pending_since=since.astimezone(UTC) if row["status"] == "pending" else None,
    )


def _run(row: Row) -> Job:
    """A run, which is taken ``epoch`` times; ended, what it had to leave is told like what failed."""
    since: datetime | None = {"queued": row["created_at"], "running": row["started_at"]}.get(row["status"])
    left = f"Left to a later run: {', '.join(row['degraded'])}." if row["degraded"] else ""
    return Job(
        row["run_id"],
        row["status"],
        (),
        row["created_at"].astimezone(UTC),
        None if row["finished_at"] is None else row["finished_at"].astimezone(UTC),
        row["error"] or left,
        memory_id=row["memory_id"],
        runs=row["epoch"],
        pending_since=None if since is None else since.astimezone(UTC),
        kind="consolidation",
    )
