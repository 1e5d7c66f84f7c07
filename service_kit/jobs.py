"""Background work of one service: jobs in its own schema, enqueued in the transaction that causes them.

Over procrastinate. A job runs at least once: it is run again when its process dies, when it fails (with
exponential backoff), and when its worker falls silent. Jobs are therefore idempotent by construction.
After the last attempt a job is quarantined: it stays in the table as ``failed``, is counted, and is
logged once; jobs behind it under the same lock go on.

Each task has a queue of its own (``<service>.<task>``), so that a process of an older release never
fetches a job it does not know. The pool is procrastinate's own and is not traced: polling is no request.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import procrastinate
import psycopg
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, StatusCode
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, ProcrastinateException
from procrastinate.jobs import Job
from procrastinate.types import JSONDict
from procrastinate.worker import Worker
from psycopg_pool import AsyncConnectionPool

from service_kit import semconv, telemetry
from service_kit.db.pool import queue_pool
from service_kit.db.tx import Tx
from service_kit.jobs_keeper import Keeper
from service_kit.jobs_library import Backoff, Connector, MendedWorker
from service_kit.settings import Settings
from service_kit.tasks import let_cancellation_pass

__all__ = ["Identity", "Jobs", "Payload", "Work"]

Payload = dict[str, Any]
"""A job's arguments as they were given: JSON, small (ids, not contents)."""
Work = Callable[[Payload], Awaitable[None]]
Identity = Callable[[], AbstractAsyncContextManager[object]]

_MAX_QUEUE: Final = 40  # what Postgres leaves of a channel name after procrastinate's prefix
_STOP_EVERY_S: Final = 0.1
_RESTART_S: Final = (0.2, 5.0)
_RESTARTABLE: Final = (ProcrastinateException, psycopg.Error, OSError)

_log: Final = logging.getLogger(__name__)
# A failed attempt is told of here, once and without its arguments.
logging.getLogger("procrastinate.worker").addFilter(
    lambda record: record.__dict__.get("action") != "job_error"
)
_tracer: Final = telemetry.tracer(__name__)
_duration: Final = telemetry.meter(__name__).create_histogram(
    semconv.MESSAGING_PROCESS_DURATION,
    unit="s",
    description="Duration of job attempts.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)
_failed: Final = telemetry.meter(__name__).create_counter(
    semconv.GROVE_JOBS_FAILED, unit="{attempt}", description="Attempts of jobs that failed."
)
_deferred: Final = telemetry.meter(__name__).create_counter(
    semconv.MESSAGING_CLIENT_SENT_MESSAGES, unit="{message}", description="Jobs enqueued."
)


@dataclass(frozen=True, slots=True)
class _Task:
    name: str
    queue: str
    lock: str | None
    attempts: int
    registered: Any


@dataclass(frozen=True, slots=True)
class _Periodic:
    task: _Task
    every_s: float


@dataclass
class _Running:
    """The worker of this process, while there is one."""

    worker: Worker | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class Jobs:
    """The job queue of one service.

    ``identity`` is what jobs run as: ``ServicePassport(...).as_service``. ``settings.database_url`` is the
    service's own. Register every task before :meth:`work`; put ``jobs.work`` in the wiring's background.
    """

    def __init__(self, service: str, settings: Settings, *, identity: Identity | None = None) -> None:
        self._service: str = service
        self._settings: Settings = settings
        self._identity: Identity = identity or nullcontext
        self._tasks: dict[str, _Task] = {}
        self._periodic: list[_Periodic] = []
        self._running: _Running = _Running()
        self._app: procrastinate.App = procrastinate.App(connector=Connector())
        self._dsn: str = settings.dsn()

    def task(self, name: str, work: Work, lock: str | None = None, *, attempts: int | None = None) -> None:
        """Register what runs the jobs called ``name``; ``lock`` is the default of :meth:`defer`'s."""
        self._register(name, work, lock, attempts or self._settings.jobs_max_attempts)

    def periodic(self, name: str, work: Callable[[], Awaitable[None]], *, every_s: float) -> None:
        """Run ``work`` every so often, in one of the processes, one run at a time. A failed run is not
        repeated: the next one comes anyway.
        """

        async def once(_: Payload) -> None:
            await work()

        task = self._register(name, once, f"periodic {self._service}.{name}", 1)
        self._periodic.append(_Periodic(task, every_s))

    async def defer(  # noqa: PLR0913 - keywords only, each one choice of the caller
        self,
        tx: Tx,
        name: str,
        payload: Mapping[str, object],
        *,
        lock: str | None = None,
        after_s: float = 0.0,
        priority: int = 0,
        once: str | None = None,
    ) -> bool:
        """Enqueue a job in the caller's transaction: it exists if and only if that commits.

        Of jobs with the same ``lock`` one runs at a time, in the order they were enqueued. With ``once``
        nothing is enqueued (False) while another job with that key waits. The trace goes along.
        """
        task = self._tasks[name]
        with _tracer.start_as_current_span(
            f"send {task.queue}", kind=SpanKind.PRODUCER, attributes=_attributes(task, "send", "send")
        ):
            deferrer = task.registered.configure(
                lock=lock or task.lock,
                queueing_lock=once,
                priority=priority,
                schedule_at=datetime.now(UTC) + timedelta(seconds=after_s) if after_s > 0 else None,
                connection=tx.connection,
            )
            sent = deferrer.defer_async(payload=cast("JSONDict", dict(payload)), carrier=telemetry.carrier())
            try:
                if once is None:
                    await sent
                else:
                    # A second job under the key breaks the statement, and would break the transaction.
                    async with tx.nested():
                        await sent
            except AlreadyEnqueued:
                return False
            except ConnectorException as error:
                # Whoever began the transaction knows what psycopg's errors mean.
                raise error.__cause__ or error from None
        _deferred.add(1, _attributes(task, "send", "send"))
        return True

    async def work(self) -> None:
        """Run jobs until cancelled, whatever becomes of the database meanwhile."""
        self._running.stopping.clear()
        working = asyncio.create_task(self._keep_working(), name=f"{self._service} jobs")
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError:
            await self._stop(working)
            raise
        working.result()

    async def _keep_working(self) -> None:
        pause = _RESTART_S[0]
        while not self._running.stopping.is_set():
            began = time.monotonic()
            try:
                async with self._session():
                    await self._work(wait=True)
                    if not self._running.stopping.is_set():
                        _log.warning("the job worker stopped by itself and starts again")
            except _RESTARTABLE as error:
                _log.warning("the job worker lost its database and starts again: %s", type(error).__name__)
            pause = _RESTART_S[0] if time.monotonic() - began > 30 else min(pause * 2, _RESTART_S[1])
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._running.stopping.wait()

    async def _stop(self, working: asyncio.Task[None]) -> None:
        """Stop in order. Nothing is cancelled, because that cuts the order short and can get lost (Python
        3.11's ``wait_for``); the worker is asked again and again, because it forgets while it starts.
        """
        self._running.stopping.set()
        while not working.done():
            if self._running.worker is not None:
                self._running.worker.stop()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({working}, timeout=_STOP_EVERY_S)

    async def run_pending(self) -> None:
        """Run every job that is due, then return; for tests and one-shot tools."""
        async with self._open():
            await self._work(wait=False)

    def _register(self, name: str, work: Work, lock: str | None, attempts: int) -> _Task:
        queue = f"{self._service}.{name}"
        if len(queue) > _MAX_QUEUE:
            raise ValueError(f"the job name {queue!r} is longer than {_MAX_QUEUE} characters")

        async def run(
            context: procrastinate.JobContext,
            *,
            payload: Payload,
            carrier: dict[str, str],
            timestamp: int | None = None,  # noqa: ARG001 - procrastinate gives it to a periodic job
        ) -> None:
            async with self._attempt(task, context.job, carrier):
                await work(payload)

        registered = self._app.task(
            name=queue,
            queue=queue,
            pass_context=True,
            retry=Backoff(attempts, self._settings.jobs_backoff_s),
        )(run)
        task = self._tasks[name] = _Task(name, queue, lock, attempts, registered)
        return task

    @asynccontextmanager
    async def _attempt(self, task: _Task, job: Job, carrier: dict[str, str]) -> AsyncGenerator[None]:
        """One attempt: continues the trace of whoever enqueued it, as this service."""
        parent = telemetry.context_from(carrier)
        cause = trace.get_current_span(parent).get_span_context()
        attributes = _attributes(task, "process", "process")
        started = time.perf_counter()
        with _tracer.start_as_current_span(
            f"process {task.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            links=[Link(cause)] if cause.is_valid else None,
            attributes={**attributes, semconv.MESSAGING_MESSAGE_ID: str(job.id)},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                async with self._identity():
                    yield
            except Exception as error:
                attributes[semconv.ERROR_TYPE] = type(error).__name__
                span.set_attribute(semconv.ERROR_TYPE, type(error).__name__)
                span.set_status(StatusCode.ERROR)
                _failed.add(1, attributes)
                _log.warning(
                    "attempt %d of job %s of %s failed", job.attempts + 1, job.id, task.queue, exc_info=error
                )
                raise
            finally:
                _duration.record(time.perf_counter() - started, attributes)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[AsyncConnectionPool]:
        """The queue's library on a pool of ours; does not wait for Postgres."""
        settings = self._settings
        size = settings.jobs_concurrency + 3
        pool = queue_pool(self._dsn, f"{self._service} jobs", size, settings.db_pool_wait_s)
        await pool.open(wait=False)
        try:
            async with self._app.open_async(pool):
                yield pool
        finally:
            await pool.close()

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[None]:
        """The queue open, with what keeps it sound running beside the worker."""
        attempts = {task.queue: task.attempts for task in self._tasks.values()}
        async with self._open() as pool:
            keeper = Keeper(pool, self._settings, attempts)
            beside = [
                asyncio.create_task(keeper.beat(lambda: self._running.worker), name="jobs heartbeat"),
                asyncio.create_task(keeper.sweep(), name="jobs sweep"),
                asyncio.create_task(keeper.measure(), name="jobs measure"),
                *(asyncio.create_task(self._repeat(one)) for one in self._periodic),
            ]
            try:
                yield
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)

    async def _work(self, *, wait: bool) -> None:
        settings = self._settings
        worker = MendedWorker(
            self._app,
            queues=[task.queue for task in self._tasks.values()],
            name=self._service,
            concurrency=settings.jobs_concurrency,
            wait=wait,
            fetch_job_polling_interval=settings.jobs_poll_s,
            shutdown_graceful_timeout=settings.stop_grace_s,
            listen_notify=wait,
            delete_jobs="successful",
            install_signal_handlers=False,
            # The keeper beats: procrastinate's own heart can stop unseen.
            update_heartbeat_interval=3600.0,
            stalled_worker_timeout=settings.jobs_stalled_after_s,
        )
        self._running.worker = worker
        try:
            await worker.run()
        finally:
            self._running.worker = None

    async def _repeat(self, periodic: _Periodic) -> None:
        """Enqueue a periodic job once in each slot of time; the table's key decides between processes."""
        task, every_s = periodic.task, periodic.every_s
        while True:
            slot = int(time.time() // every_s)
            job = Job(
                id=None,
                queue=task.queue,
                task_name=task.queue,
                lock=task.lock,
                queueing_lock=task.lock,
                task_kwargs={"timestamp": slot, "payload": {}, "carrier": {}},
            )
            try:
                await self._app.job_manager.defer_periodic_job(job, f"every {every_s:g} s", slot)
            except AlreadyEnqueued:
                _log.debug("%s still waits for its last run", task.queue)
            except ConnectorException:
                _log.warning("%s could not be enqueued in time", task.queue)
            let_cancellation_pass()
            await asyncio.sleep(max(0.01, (slot + 1) * every_s - time.time()))


def _attributes(task: _Task, name: str, kind: str) -> dict[str, str]:
    return {
        semconv.MESSAGING_SYSTEM: semconv.MESSAGING_SYSTEM_PROCRASTINATE,
        semconv.MESSAGING_DESTINATION_NAME: task.queue,
        semconv.MESSAGING_OPERATION_NAME: name,
        semconv.MESSAGING_OPERATION_TYPE: kind,
    }
