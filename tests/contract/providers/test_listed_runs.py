"""Consolidation runs among the background work of every memory, as an operator lists it."""

from provider_workers.adapters.native.adapter import NativeProvider
from provider_workers.domain.model import Job, Page, Stamp
from provider_workers.domain.work import BackgroundWork
from service_kit.db.pool import Database
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import ALICE, Subject, episode
from tests.contract.providers.test_consolidation import run, start


async def listed(subject: Subject, *statuses: str, page: int = 200) -> list[Job]:
    """All of them, page after page."""
    assert isinstance(subject.adapter, NativeProvider)
    work, found, cursor = BackgroundWork({"native": subject.adapter.work}), list[Job](), ""
    while True:
        answer = await work.list("", statuses, Page(page, cursor))
        found += answer.jobs
        cursor = answer.next_cursor
        if not cursor:
            return found


async def observed(subject: Subject) -> str:
    answer = await subject.adapter.observe(subject.memory(), [episode("It waits here.")], Stamp(ALICE))
    assert answer.job is not None
    return answer.job.id


async def test_runs_and_derivations_are_one_list_newest_first_whatever_the_pages(bench: Bench):
    subject = bench.native()
    made = list[str]()
    for _ in range(3):
        made.append(await observed(subject))
        made.append((await start(subject, subject.memory())).id)
    for page in (1, 2, 200):
        found = await listed(subject, page=page)
        assert [one.id for one in found] == made[::-1]
    assert {one.kind for one in found if one.id.startswith("hcon_")} == {"consolidation"}
    assert {one.kind for one in found if one.id.startswith("hjob_")} == {"derivation"}
    assert [one.id for one in await listed(subject, "queued")] == made[1::2][::-1]
    assert [one.id for one in await listed(subject, "pending")] == made[0::2][::-1]


async def test_a_run_is_listed_with_its_memory_since_when_it_waits_or_works_and_what_failed(
    bench: Bench, database: Database
):
    subject = bench.native()
    memory = subject.memory()
    waiting = await start(subject, memory)
    (told,) = await listed(subject)
    assert (told.id, told.memory_id, told.status, told.error, told.runs) == (
        waiting.id,
        memory,
        "queued",
        "",
        0,
    )
    assert told.pending_since == told.created_at
    async with database.begin() as tx:
        await tx.execute(
            "update consolidation set status = 'running', started_at = created_at + interval '1 hour', epoch = 2"
        )
    (told,) = await listed(subject, "running")
    assert (told.status, told.runs) == ("running", 2)
    assert told.pending_since is not None
    assert (told.pending_since - told.created_at).total_seconds() == 3_600
    async with database.begin() as tx:
        await tx.execute(
            "update consolidation set status = 'failed', error = 'It broke.', finished_at = clock_timestamp()"
        )
    (told,) = await listed(subject)
    assert (told.status, told.error, told.pending_since) == ("failed", "It broke.", None)
    assert told.finished_at is not None


async def test_what_a_run_had_to_leave_is_told_and_one_that_ended_well_is_not_among_what_has_not(
    bench: Bench, database: Database
):
    subject = bench.native()
    done = await run(subject, subject.memory())
    assert await listed(subject) == []
    (told,) = await listed(subject, "completed")
    assert (told.id, told.error) == (done.id, "")
    async with database.begin() as tx:
        await tx.execute(
            "update consolidation set status = 'stopped', degraded = '{summary:embedding_unavailable}'"
        )
    assert await listed(subject) == []
    (told,) = await listed(subject, "stopped")
    assert told.error == "Left to a later run: summary:embedding_unavailable."
