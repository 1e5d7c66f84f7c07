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
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import procrastinate
import psycopg
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, StatusCode
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, ProcrastinateException
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.types import JSONDict
from procrastinate.worker import Worker

from service_kit import semconv, telemetry
from service_kit.db.tx import Tx
from service_kit.jobs_keeper import Keeper
from service_kit.settings import Settings

__all__ = ["Identity", "Jobs", "Payload", "Work"]

Payload = dict[str, Any]
"""A job's arguments as they were given: JSON, small (ids, not contents)."""
Work = Callable[[Payload], Awaitable[None]]
Identity = Callable[[], AbstractAsyncContextManager[object]]

_MAX_QUEUE: Final = 40  # what Postgres leaves of a channel name after procrastinate's prefix
_MAX_DELAY_S: Final = 300.0
_PERSIST_PAUSES_S: Final = (0.1, 0.5, 2.0)
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


@dataclass(frozen=True)
class _Backoff(BaseRetryStrategy):
    """When a failed attempt is followed by another: ``base``, doubled each time, with jitter."""

    attempts: int
    base_s: float

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if isinstance(exception, asyncio.CancelledError):
            # Cut short by our own stopping: nobody's fault, at once and always.
            return RetryDecision(retry_at=datetime.now(UTC))
        if job.attempts + 1 >= self.attempts:
            _log.error(
                "job %s of %s is quarantined after %d attempts", job.id, job.task_name, job.attempts + 1
            )
            return None
        delay = min(self.base_s * 2**job.attempts, _MAX_DELAY_S) * random.uniform(0.8, 1.2)  # noqa: S311
        return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=delay))


class _Worker(Worker):
    """procrastinate's worker, with two of its weak spots mended."""

    async def _periodic_deferrer(self) -> None:
        """Its watch over its side tasks ends when one of them returns, so this one, which has nothing to
        do (periodic jobs are ours), must not.
        """
        await asyncio.Event().wait()

    async def _persist_job_status(self, *args: Any, **kwargs: Any) -> None:
        """A job whose end is not written down would be held for as long as this worker lives: try again,
        and then let go of everything by registering anew.
        """
        for pause in _PERSIST_PAUSES_S:
            try:
                return await super()._persist_job_status(*args, **kwargs)
            except ConnectorException:
                await asyncio.sleep(pause)
        try:
            await super()._persist_job_status(*args, **kwargs)
        except ConnectorException:
            _log.warning("the end of a job could not be written down; it will run again")
            self.stop()


@dataclass
class _Running:
    """The worker of this process, while there is one."""

    worker: Worker | None = None


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
        self._connector: procrastinate.PsycopgConnector = procrastinate.PsycopgConnector(
            conninfo=settings.dsn(),
            min_size=1,
            max_size=settings.jobs_concurrency + 3,
            timeout=settings.db_pool_wait_s,
            name=f"{service}-jobs",
            kwargs={"application_name": f"grovekeeper {service} jobs"},
        )
        self._app: procrastinate.App = procrastinate.App(connector=self._connector)

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
        pause = _RESTART_S[0]
        while True:
            began = time.monotonic()
            try:
                async with self._session():
                    await self._work(wait=True)
                _log.warning("the job worker stopped by itself and starts again")
            except _RESTARTABLE as error:
                _let_cancellation_pass()
                _log.warning("the job worker lost its database and starts again: %s", type(error).__name__)
            pause = _RESTART_S[0] if time.monotonic() - began > 30 else min(pause * 2, _RESTART_S[1])
            await asyncio.sleep(pause)

    async def run_pending(self) -> None:
        """Run every job that is due, then return; for tests and one-shot tools."""
        async with self._app.open_async():
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
            retry=_Backoff(attempts, self._settings.jobs_backoff_s),
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
    async def _session(self) -> AsyncGenerator[None]:
        """The queue open, with what keeps it sound running beside the worker."""
        keeper = Keeper(
            self._connector,
            self._settings,
            {task.queue: task.attempts for task in self._tasks.values()},
        )
        async with self._app.open_async():
            beside = [
                asyncio.create_task(keeper.beat(lambda: self._running.worker), name="jobs heartbeat"),
                asyncio.create_task(keeper.sweep(), name="jobs sweep"),
                asyncio.create_task(keeper.measure(), name="jobs measure"),
                *(
                    asyncio.create_task(self._repeat(one), name=f"jobs {one.task.queue}")
                    for one in self._periodic
                ),
            ]
            try:
                yield
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)

    async def _work(self, *, wait: bool) -> None:
        settings = self._settings
        worker = _Worker(
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
            await asyncio.sleep(max(0.01, (slot + 1) * every_s - time.time()))


def _attributes(task: _Task, name: str, kind: str) -> dict[str, str]:
    return {
        semconv.MESSAGING_SYSTEM: semconv.MESSAGING_SYSTEM_PROCRASTINATE,
        semconv.MESSAGING_DESTINATION_NAME: task.queue,
        semconv.MESSAGING_OPERATION_NAME: name,
        semconv.MESSAGING_OPERATION_TYPE: kind,
    }


def _let_cancellation_pass() -> None:
    """A database lost while stopping must not hide that we were told to stop."""
    task = asyncio.current_task()
    if task is not None and task.cancelling() > 0:
        raise asyncio.CancelledError
