"""What keeps a job queue sound: heartbeats, jobs of dead workers, old rows, and how deep it is.

Every process runs one keeper; all statements are safe to run in several at once.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import psycopg
from opentelemetry.metrics import CallbackOptions, Observation
from procrastinate.exceptions import ProcrastinateException
from procrastinate.worker import Worker
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from service_kit import semconv, telemetry
from service_kit.db.tx import Connection
from service_kit.jobs_library import UNKEYED
from service_kit.settings import Settings
from service_kit.tasks import let_cancellation_pass

__all__ = ["Keeper"]

_MEASURE_S: Final = 10.0
_PURGE_S: Final = 3600.0
_TRANSIENT: Final = (ProcrastinateException, psycopg.Error, OSError)
_log: Final = logging.getLogger(__name__)


@dataclass
class _Depths:
    """What the gauges of this process show; by queue."""

    pending: dict[str, int] = field(default_factory=dict[str, int])
    quarantined: dict[str, int] = field(default_factory=dict[str, int])
    oldest_s: dict[str, float] = field(default_factory=dict[str, float])


_depths: Final = _Depths()


def _gauge(name: str, unit: str, values: Callable[[], Mapping[str, float]]) -> None:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, {semconv.MESSAGING_DESTINATION_NAME: queue})
            for queue, value in values().items()
        ]

    telemetry.meter(__name__).create_observable_gauge(name, [read], unit=unit)


_gauge(semconv.GROVE_JOBS_PENDING, "{job}", lambda: _depths.pending)
_gauge(semconv.GROVE_JOBS_QUARANTINED, "{job}", lambda: _depths.quarantined)
_gauge(semconv.GROVE_JOBS_OLDEST_AGE, "s", lambda: _depths.oldest_s)


class Keeper:
    """Looks after the queues of one service; ``attempts`` is how often each may be tried."""

    def __init__(self, pool: AsyncConnectionPool, settings: Settings, attempts: Mapping[str, int]) -> None:
        self._pool: AsyncConnectionPool = pool
        self._settings: Settings = settings
        self._attempts: Mapping[str, int] = attempts
        self._purged: float = 0.0

    async def beat(self, worker: Callable[[], Worker | None]) -> None:
        """Say that the worker lives; one that was given up for dead meanwhile is told to start anew."""

        async def once() -> None:
            living = worker()
            if living is None or living.worker_id is None:
                return
            async with self._connection() as connection:
                cursor = await connection.execute(
                    "update procrastinate_workers set last_heartbeat = now() where id = %s",
                    (living.worker_id,),
                )
            if cursor.rowcount == 0:
                _log.warning("this job worker was silent for too long and registers again")
                living.stop()

        await self._every(self._settings.jobs_heartbeat_s, once)

    async def sweep(self) -> None:
        """Give the jobs of dead workers to the living, and remove rows nobody will look at."""

        async def once() -> None:
            async with self._connection() as connection:
                await self._rescue(connection)
                if time.monotonic() - self._purged > _PURGE_S or not self._purged:
                    await self._purge(connection)
                    self._purged = time.monotonic()

        await self._every(max(0.1, self._settings.jobs_stalled_after_s / 4), once)

    async def measure(self) -> None:
        """Keep the gauges current."""

        async def once() -> None:
            async with self._connection() as connection:
                await self._measure(connection)

        await self._every(_MEASURE_S, once)

    async def _every(self, seconds: float, once: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await once()
            except _TRANSIENT as error:
                let_cancellation_pass(error)
                _log.warning("the job queue cannot be looked after now: %s", type(error).__name__)
            let_cancellation_pass()  # `wait_for` of Python 3.11 can swallow it
            let_cancellation_pass()
            await asyncio.sleep(seconds)

    def _connection(self) -> Any:
        return self._pool.connection()

    async def _rescue(self, connection: Connection) -> None:
        """A job whose worker fell silent is due again at once, or quarantined if that was its last attempt.
        Rows another process is rescuing are skipped.
        """
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(
            "select job.id, job.queue_name, job.attempts from procrastinate_jobs job"
            " left join procrastinate_workers worker on worker.id = job.worker_id"
            " where job.status = 'doing' and job.queue_name = any(%s) and (worker.id is null"
            " or worker.last_heartbeat < now() - make_interval(secs => %s))"
            " order by job.id limit 500 for update of job skip locked",
            (list(self._attempts), self._settings.jobs_stalled_after_s),
        )
        for row in await cursor.fetchall():
            queue, job = str(row["queue_name"]), int(row["id"])
            if int(row["attempts"]) + 1 >= self._attempts[queue]:
                await cursor.execute("select procrastinate_finish_job_v1(%s, 'failed', false)", (job,))
                _log.error("job %d of %s is quarantined: its last worker died", job, queue)
                continue
            await cursor.execute(UNKEYED, {"job_id": job})
            await cursor.execute("select procrastinate_retry_job_v2(%s, now(), null, null, null)", (job,))
            await cursor.execute(
                "select pg_notify('procrastinate_queue_v1#' || %s, %s)",
                (queue, json.dumps({"type": "job_inserted", "job_id": job})),
            )
            _log.warning("job %d of %s lost its worker and runs again", job, queue)

    async def _purge(self, connection: Connection) -> None:
        cursor = await connection.execute(
            "delete from procrastinate_jobs job where job.queue_name = any(%s)"
            " and job.status in ('succeeded', 'failed', 'cancelled', 'aborted')"
            " and not exists (select 1 from procrastinate_events event where event.job_id = job.id"
            " and event.at > now() - make_interval(hours => %s))",
            (list(self._attempts), self._settings.jobs_keep_hours),
        )
        if cursor.rowcount:
            _log.info("removed %d old jobs", cursor.rowcount)

    async def _measure(self, connection: Connection) -> None:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(
            "select queue_name, count(*) filter (where status = 'todo') as pending,"
            " count(*) filter (where status = 'failed') as quarantined,"
            " min(id) filter (where status = 'todo' and coalesce(scheduled_at, now()) <= now()) as oldest"
            " from procrastinate_jobs where queue_name = any(%s) and status in ('todo', 'failed')"
            " group by queue_name",
            (list(self._attempts),),
        )
        found = {str(row["queue_name"]): row for row in await cursor.fetchall()}
        for queue in self._attempts:
            row = found.get(queue)
            _depths.pending[queue] = row["pending"] if row else 0
            _depths.quarantined[queue] = row["quarantined"] if row else 0
            _depths.oldest_s[queue] = await _age(cursor, row["oldest"]) if row and row["oldest"] else 0.0


async def _age(cursor: psycopg.AsyncCursor[dict[str, Any]], job: int) -> float:
    """Seconds since a waiting job became due."""
    await cursor.execute(
        "select extract(epoch from now() - greatest(job.scheduled_at, event.at))::float8 as age"
        " from procrastinate_jobs job join procrastinate_events event on event.job_id = job.id"
        " where job.id = %s and event.type = 'deferred'",
        (job,),
    )
    row = await cursor.fetchone()
    return cast("float", row["age"]) if row else 0.0
