"""Instants that can be named (Memories, section 5.3), of every provider that declares them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from provider_workers.domain.model import Draft, Include, Page, Record, Selection, Stamp, Status
from service_kit.db.pool import Database
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, Subject, episode, fact, found, text_of, words

HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


async def standing(subject: Subject, memory: str, at: datetime) -> list[Record]:
    """Everything the memory held then, whatever its status."""
    read, cursor = list[Record](), ""
    while True:
        page = await subject.adapter.list(memory, Selection(include=Include.ALL, as_of=at), Page(200, cursor))
        read += page.records
        cursor = page.next_cursor
        if not cursor:
            return read


async def test_what_was_acknowledged_is_in_it_and_what_follows_is_not(subject: Subject):
    memory = subject.memory()
    record = await subject.state(memory, "Before.")
    at = await subject.adapter.snapshot(memory)
    await subject.revise(record, "After.")
    await subject.state(memory, "Later.")
    assert [text_of(one) for one in await standing(subject, memory, at)] == ["Before."]
    assert text_of(await subject.adapter.get(memory, record.id, at)) == "Before."


async def test_a_snapshot_of_an_empty_memory_stays_empty(subject: Subject):
    memory = subject.memory()
    at = await subject.adapter.snapshot(memory)
    await subject.state(memory, "Later.")
    assert await standing(subject, memory, at) == []


async def test_snapshots_of_one_memory_are_never_the_same_instant(subject: Subject):
    memory = subject.memory()
    instants = await asyncio.gather(*(subject.adapter.snapshot(memory) for _ in range(8)))
    assert len(set(instants)) == len(instants)


async def write(subject: Subject, memory: str, ready: asyncio.Event, stop: asyncio.Event, name: str) -> None:
    """State, revise, supersede, forget and observe, one after another, until told to stop."""
    done = 0
    while not stop.is_set():
        first = await subject.state(memory, f"{name} {done}")
        revised = await subject.revise(first, f"{name} {done} revised")
        if done % 3 == 0:
            await subject.forget(revised)
        else:
            draft = Draft("fact", words(f"{name} {done} instead"), supersedes=first.id)
            await subject.adapter.remember(memory, draft, Stamp(ALICE))
            if done % 3 == 1:
                await subject.forget(first)
        await subject.adapter.observe(memory, [episode(f"{name} says it {done} times.")], Stamp(ALICE))
        done += 1
        ready.set()


@pytest.mark.requirement("ME-5.3-06")
async def test_a_snapshot_reads_the_same_for_ever_while_writers_run(subject: Subject):
    memory, stop = subject.memory(), asyncio.Event()
    started = [asyncio.Event() for _ in range(4)]
    writers = [
        asyncio.create_task(write(subject, memory, ready, stop, f"writer {place}"))
        for place, ready in enumerate(started)
    ]
    await asyncio.gather(*(one.wait() for one in started))
    deriving = asyncio.ensure_future(subject.work())
    seen: list[tuple[datetime, Sequence[Record]]] = []
    for _ in range(6):
        at = await subject.adapter.snapshot(memory)
        seen.append((at, await standing(subject, memory, at)))
    stop.set()
    await asyncio.gather(*writers, deriving)
    assert len({len(records) for _, records in seen}) > 1, "nothing was written meanwhile"
    for at, records in seen:
        assert await standing(subject, memory, at) == records
        assert all(one.written_at <= at for one in records)


async def test_every_write_is_wholly_in_a_snapshot_or_not_at_all(subject: Subject):
    memory, stop = subject.memory(), asyncio.Event()

    async def observing() -> None:
        while not stop.is_set():
            await subject.adapter.observe(memory, [episode(f"{n}") for n in range(20)], Stamp(ALICE))

    writers = [asyncio.create_task(observing()) for _ in range(3)]
    for _ in range(10):
        at = await subject.adapter.snapshot(memory)
        assert len(await standing(subject, memory, at)) % 20 == 0
    stop.set()
    await asyncio.gather(*writers)


async def test_a_write_that_follows_is_later_though_the_clock_was_set_back(
    subject: Subject, database: Database
):
    memory = subject.memory()
    record = await subject.state(memory, "Before.")
    async with database.begin() as tx:
        # As if it had been written an hour ago by a clock that was an hour and more ahead.
        await tx.execute(
            "update version set written_at = written_at + interval '1 hour' where memory_id = %s", (memory,)
        )
    at = await subject.adapter.snapshot(memory)
    assert at >= record.written_at + HOUR
    later = await subject.state(memory, "Later.")
    assert later.written_at > at
    assert [text_of(one) for one in await standing(subject, memory, at)] == ["Before."]


async def test_a_snapshot_waits_for_a_write_that_is_under_way(subject: Subject, database: Database):
    memory = subject.memory()
    async with database.begin() as tx:
        begun: datetime = await tx.fetch_value("select write_moment(%s)", (memory,))
        snapshot = asyncio.create_task(subject.adapter.snapshot(memory))
        async with asyncio.timeout(20):
            while not await tx.fetch_value(  # noqa: ASYNC110 - a wait of Postgres makes no event
                "select exists (select 1 from pg_locks where locktype = 'advisory' and not granted"
                " and objid = hashtext(%s)::bigint & 4294967295::bigint)",
                (memory,),
            ):
                await asyncio.sleep(0.01)
        assert not snapshot.done()
    assert await snapshot > begun


async def test_forgetting_what_was_superseded_changes_nothing_that_was(subject: Subject):
    memory = subject.memory()
    old = await subject.state(memory, "The old way.")
    draft = Draft("fact", words("The new way."), supersedes=old.id)
    await subject.adapter.remember(memory, draft, Stamp(ALICE))
    at = await subject.adapter.snapshot(memory)
    before = await standing(subject, memory, at)
    await subject.forget(old)
    assert await standing(subject, memory, at) == before
    then = await subject.adapter.get(memory, old.id, at)
    assert then.status is Status.SUPERSEDED
    assert (await subject.adapter.get(memory, old.id, None)).status is Status.FORGOTTEN
    for include, expected in ((Include.SUPERSEDED, ["The old way."]), (Include.FORGOTTEN, [])):
        page = await subject.adapter.list(memory, Selection(include=include, as_of=at), Page())
        assert [text_of(one) for one in page.records] == expected


async def test_recall_as_of_a_snapshot_ranks_as_it_did(subject: Subject):
    memory = subject.memory()
    record = await subject.state(memory, "The penguin swims in the cold sea.")
    await subject.state(memory, "A penguin is a bird.")
    await subject.work()
    at = await subject.adapter.snapshot(memory)
    before = await subject.ask(memory, "Where does the penguin swim?", as_of=at)
    await subject.revise(record, "Seals swim.")
    await subject.state(memory, "Penguins swim in the cold sea all winter.")
    await subject.work()
    after = await subject.ask(memory, "Where does the penguin swim?", as_of=at)
    assert found(after) == found(before)
    assert [(hit.score, hit.why, hit.record) for hit in after.hits] == [
        (hit.score, hit.why, hit.record) for hit in before.hits
    ]


@pytest.mark.requirement("ME-5.3-04")
async def test_history_as_of_reads_as_it_did_then(subject: Subject):
    memory = subject.memory()
    record = await subject.state(memory, "One.")
    second = await subject.revise(record, "Two.")
    then = await subject.adapter.history(memory, record.id)
    await subject.revise(record, "Three.")
    await subject.forget(record)
    assert await subject.adapter.history(memory, record.id, second.written_at) == then
    just_before = second.written_at - TICK
    (only,) = await subject.adapter.history(memory, record.id, just_before)
    assert (text_of(only), only.status, only.invalidated_at) == ("One.", Status.ACTIVE, None)
    assert len(await subject.adapter.history(memory, record.id, datetime(9999, 1, 1, tzinfo=UTC))) == 3
    for early in (record.written_at - TICK, datetime(1, 1, 1, tzinfo=UTC)):
        with pytest.raises(GroveError) as refused:
            await subject.adapter.history(memory, record.id, early)
        assert refused.value.code == "memory_record_not_found"


async def test_a_purged_memory_keeps_no_instant(subject: Subject, database: Database):
    memory = subject.memory()
    await subject.adapter.remember(memory, fact("Before."), Stamp(ALICE))
    await subject.adapter.snapshot(memory)
    await subject.adapter.purge(memory)
    async with database.read() as tx:
        assert (
            await tx.fetch_value("select count(*) from snapshot_floor where memory_id = %s", (memory,)) == 0
        )
