"""Background work: enqueued with its cause, run at least once, given up visibly. Real Postgres."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from pydantic import SecretStr

from service_kit import semconv, telemetry
from service_kit.db.pool import Database
from service_kit.identity import PassportSigner, current_passport, use_passport
from service_kit.jobs import Jobs, Payload
from service_kit.jobs_keeper import _depths
from service_kit.settings import Settings
from tests.unit.service_kit.cluster import Cluster

ROOT = Path(__file__).parents[3]


@pytest.fixture
def quick(service_dsn: str) -> Settings:
    """Settings that notice within a second what by default takes ten."""
    return Settings(
        database_url=SecretStr(service_dsn),
        jobs_heartbeat_s=0.2,
        jobs_stalled_after_s=1.0,
        jobs_poll_s=0.2,
        jobs_backoff_s=0.05,
        jobs_max_attempts=3,
        stop_grace_s=1.0,
        db_pool_wait_s=2.0,
    )


@asynccontextmanager
async def working(jobs: Jobs) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(jobs.work())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Recorder:
    """A task's work that remembers what it was given."""

    def __init__(self, also: Callable[[Payload], Awaitable[None]] | None = None) -> None:
        self.seen: list[Payload] = []
        self._queue: asyncio.Queue[Payload] = asyncio.Queue()
        self._also = also

    async def __call__(self, payload: Payload) -> None:
        self.seen.append(payload)
        self._queue.put_nowait(payload)
        if self._also:
            await self._also(payload)

    async def next(self, within: float = 10) -> Payload:
        return await asyncio.wait_for(self._queue.get(), within)


async def defer(database: Database, jobs: Jobs, name: str, payload: Payload, **how: Any) -> bool:
    async with database.begin() as tx:
        return await jobs.defer(tx, name, payload, **how)


async def statuses(database: Database) -> dict[str, int]:
    async with database.read() as tx:
        rows = await tx.fetch_all("select status::text, count(*) from procrastinate_jobs group by 1")
    return {row["status"]: row["count"] for row in rows}


async def until(condition: Callable[[], Awaitable[bool]], within: float = 10) -> None:
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110 - a table tells nobody
            await asyncio.sleep(0.02)


async def test_a_job_runs_soon_with_what_it_was_given(database: Database, quick: Settings):
    jobs, work = Jobs("things", quick.model_copy(update={"jobs_poll_s": 60.0})), Recorder()
    jobs.task("work", work)
    given = {"id": "hmem_1", "deep": [1, 2.5, None, {"é": True}]}
    async with working(jobs):
        await until(lambda: _listening(database))
        await defer(database, jobs, "work", given)
        assert await work.next(within=2) == given
    assert await statuses(database) == {}


async def test_a_job_exists_only_if_its_transaction_is_kept(database: Database, quick: Settings):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work)

    async def fail() -> None:
        async with database.begin() as tx:
            await jobs.defer(tx, "work", {"n": "never"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await defer(database, jobs, "work", {"n": "kept"})
    await jobs.run_pending()
    assert work.seen == [{"n": "kept"}]


async def test_a_job_that_fails_is_tried_again_and_in_the_end_quarantined(
    database: Database, quick: Settings, caplog: pytest.LogCaptureFixture
):
    async def fail(payload: Payload) -> None:
        raise RuntimeError(payload["n"])

    jobs, broken, after = Jobs("things", quick), Recorder(fail), Recorder()
    jobs.task("broken", broken)
    jobs.task("after", after)
    async with working(jobs):
        await defer(database, jobs, "broken", {"n": 1}, lock="one after another")
        await defer(database, jobs, "after", {"n": 2}, lock="one after another")
        assert await after.next() == {"n": 2}
    assert len(broken.seen) == 3
    assert await statuses(database) == {"failed": 1}
    quarantined = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(quarantined) == 1
    assert "quarantined after 3 attempts" in quarantined[0].getMessage()


async def test_jobs_under_one_lock_run_one_at_a_time_in_order(database: Database, quick: Settings):
    running, most = 0, 0

    async def count(_: Payload) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    jobs, work = Jobs("things", quick), Recorder(count)
    jobs.task("work", work, lock="all")
    async with working(jobs):
        for number in range(8):
            await defer(database, jobs, "work", {"n": number})
        assert [(await work.next())["n"] for _ in range(8)] == list(range(8))
    assert most == 1


async def test_jobs_without_a_lock_run_side_by_side(database: Database, quick: Settings):
    together = asyncio.Barrier(4)

    async def meet(_: Payload) -> None:
        await together.wait()

    jobs, work = Jobs("things", quick), Recorder(meet)
    jobs.task("work", work)
    async with working(jobs):
        for number in range(4):
            await defer(database, jobs, "work", {"n": number})
        for _ in range(4):
            await work.next()


async def test_once_means_that_one_waiting_is_enough_and_breaks_no_transaction(
    database: Database, quick: Settings
):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work)
    async with database.begin() as tx:
        assert await jobs.defer(tx, "work", {"n": 1}, once="key")
        assert not await jobs.defer(tx, "work", {"n": 2}, once="key")
        await tx.execute("insert into thing (id) values ('kept')")
    await jobs.run_pending()
    assert work.seen == [{"n": 1}]
    assert await defer(database, jobs, "work", {"n": 3}, once="key")
    async with database.read() as tx:
        assert await tx.fetch_value("select count(*) from thing") == 1


async def test_one_that_failed_and_one_that_came_meanwhile_under_its_key_both_run(
    database: Database, quick: Settings
):
    jobs = Jobs("things", quick)

    async def fail_first(payload: Payload) -> None:
        if payload == {"n": 1} and len(work.seen) == 1:
            assert await defer(database, jobs, "work", {"n": 2}, once="key")
            raise RuntimeError("once")

    work = Recorder(fail_first)
    jobs.task("work", work, lock="key")
    async with working(jobs):
        await defer(database, jobs, "work", {"n": 1}, once="key")
        seen = [(await work.next())["n"] for _ in range(3)]
    assert sorted(seen) == [1, 1, 2]


async def test_one_that_lost_its_worker_and_one_that_came_meanwhile_under_its_key_both_run(
    database: Database, quick: Settings
):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work, lock="key")
    await defer(database, jobs, "work", {"n": 1}, once="key")
    async with database.begin() as tx:
        await tx.execute("update procrastinate_jobs set status = 'doing'")
    assert await defer(database, jobs, "work", {"n": 2}, once="key")
    async with working(jobs):
        assert [(await work.next())["n"] for _ in range(2)] == [1, 2]


async def test_a_job_may_be_due_later(database: Database, quick: Settings):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work)
    await defer(database, jobs, "work", {"n": "later"}, after_s=0.5)
    await jobs.run_pending()
    assert work.seen == []
    async with working(jobs):
        assert await work.next() == {"n": "later"}


async def test_a_process_leaves_jobs_it_does_not_know_to_others(database: Database, quick: Settings):
    newer, older, work, known = Jobs("things", quick), Jobs("things", quick), Recorder(), Recorder()
    newer.task("new", work)
    newer.task("known", known)
    older.task("known", known)
    await defer(database, newer, "new", {"n": 1})
    await defer(database, newer, "known", {"n": 2})
    await older.run_pending()
    assert known.seen == [{"n": 2}]
    assert await statuses(database) == {"todo": 1}
    await newer.run_pending()
    assert work.seen == [{"n": 1}]


async def test_a_job_runs_as_its_service_in_the_trace_that_caused_it(
    database: Database, quick: Settings, signer: PassportSigner, spans: InMemorySpanExporter
):
    @asynccontextmanager
    async def identity() -> AsyncGenerator[None]:
        with use_passport(signer.sign("service:things", scopes=["service"])):
            yield

    seen: list[tuple[str, str]] = []

    async def look(_: Payload) -> None:
        seen.append((current_passport().principal, telemetry.trace_id()))

    jobs = Jobs("things", quick, identity=identity)
    jobs.task("work", look)
    with use_passport(signer.sign("person:alice")), telemetry.tracer("test").start_as_current_span("cause"):
        cause = telemetry.trace_id()
        await defer(database, jobs, "work", {"secret": "wish"})
    await jobs.run_pending()
    assert seen == [("service:things", cause)]
    (sent,) = [span for span in spans.get_finished_spans() if span.kind is SpanKind.PRODUCER]
    (run,) = [span for span in spans.get_finished_spans() if span.kind is SpanKind.CONSUMER]
    assert sent.context
    assert run.parent
    assert run.parent.span_id == sent.context.span_id == run.links[0].context.span_id
    assert (run.attributes or {})[semconv.MESSAGING_DESTINATION_NAME] == "things.work"
    assert not any("wish" in span.to_json() for span in spans.get_finished_spans())


async def test_polling_makes_no_traces(database: Database, quick: Settings, spans: InMemorySpanExporter):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work)
    async with working(jobs):
        await defer(database, jobs, "work", {})
        await work.next()
    assert {span.kind for span in spans.get_finished_spans()} <= {SpanKind.PRODUCER, SpanKind.CONSUMER}


async def test_a_periodic_job_runs_once_in_each_slot_however_many_processes(
    database: Database, quick: Settings
):
    runs = 0
    enough = asyncio.Event()

    async def tick() -> None:
        nonlocal runs
        runs += 1
        if runs >= 4:
            enough.set()

    processes = [Jobs("things", quick) for _ in range(3)]
    for jobs in processes:
        jobs.periodic("tick", tick, every_s=0.5)
    first = time.time() // 0.5
    async with working(processes[0]), working(processes[1]), working(processes[2]):
        await asyncio.wait_for(enough.wait(), 10)
        assert runs <= time.time() // 0.5 - first + 1


async def test_a_periodic_job_that_fails_is_not_repeated_but_comes_again(database: Database, quick: Settings):
    runs = 0
    again = asyncio.Event()

    async def tick() -> None:
        nonlocal runs
        runs += 1
        if runs > 1:
            again.set()
        raise RuntimeError

    jobs = Jobs("things", quick)
    jobs.periodic("tick", tick, every_s=0.5)
    async with working(jobs):
        await asyncio.wait_for(again.wait(), 10)


async def test_stopping_gives_a_job_its_time_and_then_hands_it_on(database: Database, quick: Settings):
    began = asyncio.Event()

    async def endless(_: Payload) -> None:
        began.set()
        await asyncio.Event().wait()

    jobs = Jobs("things", quick.model_copy(update={"stop_grace_s": 0.2}))
    jobs.task("work", endless)
    async with working(jobs):
        await defer(database, jobs, "work", {"n": 1})
        await asyncio.wait_for(began.wait(), 10)
    assert await statuses(database) == {"todo": 1}
    other, work = Jobs("things", quick), Recorder()
    other.task("work", work)
    async with working(other):
        assert await work.next() == {"n": 1}


async def test_the_worker_outlives_its_database(database: Database, quick: Settings, own_postgres: Cluster):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work)
    async with working(jobs) as task:
        await defer(database, jobs, "work", {"n": 1})
        await work.next()
        await until(lambda: _empty(database))
        own_postgres.stop()
        own_postgres.start()
        await defer(database, jobs, "work", {"n": 2})
        assert await work.next(within=20) == {"n": 2}
        assert not task.done()


async def test_a_job_whose_end_cannot_be_written_runs_again(
    database: Database, quick: Settings, owner_dsn: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("service_kit.jobs_library._PERSIST_PAUSES_S", (0.01, 0.01))
    refusing = "alter function things.procrastinate_finish_job_v1 rename to away"
    allowing = "alter function things.away rename to procrastinate_finish_job_v1"
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work)
    async with working(jobs), await psycopg.AsyncConnection.connect(owner_dsn, autocommit=True) as owner:
        await owner.execute("alter table things.procrastinate_jobs add constraint kept check (attempts < 1)")
        await owner.execute(refusing)
        await defer(database, jobs, "work", {"n": 1})
        await work.next()
        await owner.execute(allowing)
        await owner.execute("alter table things.procrastinate_jobs drop constraint kept")
        await until(lambda: _empty(database))
    assert 1 <= len(work.seen) <= 3


async def test_a_worker_that_was_silent_too_long_registers_again(
    database: Database, quick: Settings, owner_dsn: str
):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("work", work)
    async with working(jobs):
        await defer(database, jobs, "work", {"n": 1})
        await work.next()
        async with await psycopg.AsyncConnection.connect(owner_dsn, autocommit=True) as owner:
            await owner.execute("delete from things.procrastinate_workers")
        await defer(database, jobs, "work", {"n": 2})
        assert await work.next() == {"n": 2}


async def test_the_depth_of_the_queue_is_measured(database: Database, quick: Settings):
    jobs, work = Jobs("things", quick), Recorder()
    jobs.task("idle", work)
    jobs.task("work", work)
    await defer(database, jobs, "idle", {}, after_s=600)

    async def measured() -> bool:
        return _depths.pending.get("things.idle") == 1

    async with working(jobs):
        await until(measured)
    assert _depths.pending["things.work"] == 0
    assert _depths.oldest_s["things.idle"] == 0.0


def test_a_name_too_long_for_a_channel_is_refused(quick: Settings):
    with pytest.raises(ValueError, match="longer than"):
        Jobs("things", quick).task("x" * 40, Recorder())


class Process:
    """A worker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, settings: Settings) -> "Process":
        environment = {
            **os.environ,
            "GROVE_DATABASE_URL": settings.dsn(),
            "GROVE_JOBS_HEARTBEAT_S": str(settings.jobs_heartbeat_s),
            "GROVE_JOBS_STALLED_AFTER_S": str(settings.jobs_stalled_after_s),
            "GROVE_JOBS_POLL_S": str(settings.jobs_poll_s),
            "GROVE_JOBS_MAX_ATTEMPTS": str(settings.jobs_max_attempts),
        }
        program = [sys.executable, "-m", "tests.unit.service_kit.worker_process"]
        process = await asyncio.create_subprocess_exec(
            *program, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE
        )
        started = cls(process)
        await started.says("ready")
        return started

    async def says(self, line: str, within: float = 20) -> None:
        assert self._process.stdout
        async with asyncio.timeout(within):
            while (await self._process.stdout.readline()).decode().strip() != line:
                assert self._process.returncode is None

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process.returncode is None:
            self._process.send_signal(how)
        await self._process.wait()

    def signal(self, how: signal.Signals) -> None:
        self._process.send_signal(how)


@pytest.mark.slow
async def test_a_killed_worker_is_replaced_and_its_job_runs_again(database: Database, quick: Settings):
    jobs = Jobs("things", quick)
    jobs.task("work", Recorder())

    async def done() -> bool:
        async with database.read() as tx:
            return await tx.fetch_value("select count(*) from note where text = '1'") == 1

    first = await Process.start(quick)
    second = None
    try:
        await defer(database, jobs, "work", {"n": 1, "hang": True}, lock="held by the dead")
        await first.says("began 1")
        await until(lambda: _tried(database))
        await first.end(signal.SIGKILL)
        second = await Process.start(quick)
        await second.says("began 1", within=5)
        await until(done, within=5)
        await until(lambda: _empty(database))
    finally:
        await first.end()
        if second is not None:
            await second.end()


@pytest.mark.slow
async def test_a_paused_worker_that_wakes_up_harms_nothing(database: Database, quick: Settings):
    jobs = Jobs("things", quick)
    jobs.task("work", Recorder())
    first, second = await Process.start(quick), await Process.start(quick)
    try:
        await defer(database, jobs, "work", {"n": 1, "hang": True})
        holder, other = await _who_began(first, second)
        await until(lambda: _tried(database))
        holder.signal(signal.SIGSTOP)
        await other.says("began 1", within=5)
        holder.signal(signal.SIGCONT)
        await defer(database, jobs, "work", {"n": 2})
        await until(lambda: _empty(database))
    finally:
        for process in (first, second):
            process.signal(signal.SIGCONT)
            await process.end()


@pytest.mark.slow
async def test_a_job_that_kills_every_worker_is_quarantined(database: Database, quick: Settings):
    jobs = Jobs("things", quick.model_copy(update={"jobs_max_attempts": 1}))
    jobs.task("work", Recorder())
    poisoned = await Process.start(quick.model_copy(update={"jobs_max_attempts": 1}))
    try:
        await defer(database, jobs, "work", {"n": 1, "hang": True})
        await poisoned.says("began 1")
    finally:
        await poisoned.end()

    async def quarantined() -> bool:
        return await statuses(database) == {"failed": 1}

    async with working(jobs):
        await until(quarantined, within=5)


async def _tried(database: Database) -> bool:
    async with database.read() as tx:
        return await tx.fetch_value("select count(*) from thing") == 1


async def _listening(database: Database) -> bool:
    async with database.read() as tx:
        return await tx.fetch_value("select count(*) from pg_stat_activity where query ilike 'listen%'") > 0


async def _empty(database: Database) -> bool:
    return await statuses(database) == {}


async def _who_began(first: Process, second: Process) -> tuple[Process, Process]:
    asking = {asyncio.create_task(one.says("began 1")): one for one in (first, second)}
    done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    (holder,) = [asking[task] for task in done]
    return holder, second if holder is first else first
