"""Consolidation runs (Memories, section 9.2) of the native provider: what they do, and that it is undone."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.consolidation.due import When
from provider_workers.adapters.native.consolidation.keeper import Consolidation, Tidy
from provider_workers.domain.consolidations import Budget, Change, Run, Wanted
from provider_workers.domain.model import Draft, Include, Page, Record, Selection, Stamp, Status
from service_kit.db.pool import Database
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import ALICE, BOB, Subject, derived_from, episode, fact, text_of, words

OCTOBER = datetime(2026, 10, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)
ANNA = b'{"speaker":"Anna"}'


def keeper(subject: Subject) -> Consolidation:
    assert isinstance(subject.adapter, NativeProvider)
    return subject.adapter.consolidation


async def start(subject: Subject, memory: str, budget: Budget | None = None, key: str = "") -> Run:
    return await keeper(subject).start(
        memory, Wanted(new_id("hcon"), "api", budget), Stamp(ALICE, key, b"1" * 32)
    )


async def run(subject: Subject, memory: str, budget: Budget | None = None) -> Run:
    """A run that has ended."""
    queued = await start(subject, memory, budget)
    assert (queued.status, queued.started_at) == ("queued", None)
    while (ended := await keeper(subject).run(memory, queued.id)).status in ("queued", "running"):
        await subject.work()
    assert ended.finished_at is not None
    return ended


async def changes(subject: Subject, one: Run) -> tuple[Change, ...]:
    return (await keeper(subject).changes(one.memory_id, one.id, Page(200))).changes


async def held(subject: Subject, memory: str) -> list[Record]:
    page = await subject.adapter.list(memory, Selection(include=Include.ACTIVE), Page(200))
    return list(page.records)


async def active(subject: Subject, memory: str, kind: str = "fact") -> list[str]:
    return [text_of(one) for one in await held(subject, memory) if one.type == kind]


@pytest.mark.requirement("ME-9.2-01", "ME-9.2-02", "ME-9.2-03")
async def test_the_same_stated_twice_by_one_writer_is_kept_once_and_linked(subject: Subject):
    memory = subject.memory()
    first = await subject.state(memory, "Acme renews in March.")
    second = await subject.state(memory, "Acme renews in March.")
    bobs = await subject.adapter.remember(memory, fact("Acme renews in March."), Stamp(BOB))
    other = await subject.state(memory, "Acme renews in March.", b'{"account":"acme"}')
    dated = await subject.state(memory, "Acme renews in March.", valid_from=OCTOBER)
    done = await run(subject, memory)
    assert (done.status, done.created, done.superseded, done.forgotten) == ("completed", 0, 1, 0)
    assert {one.id for one in await held(subject, memory)} == {first.id, bobs.id, other.id, dated.id}
    (change,) = await changes(subject, done)
    assert (change.change, change.reason, change.replaced_by) == ("superseded", "duplicate", first.id)
    history = await subject.adapter.history(memory, second.id)
    assert [one.status for one in history] == [Status.SUPERSEDED, Status.SUPERSEDED]
    assert change.record == history[1]
    assert (history[0].written_by, history[1].written_by.kind, history[1].written_by.id) == (
        ALICE,
        "consolidator",
        "native",
    )
    (link,) = history[1].references
    assert (link.rel, link.record_id) == ("duplicate_of", first.id)
    assert await subject.adapter.get(memory, first.id, None) == first


async def test_derived_facts_that_differ_in_fillers_only_are_merged_and_others_are_not(subject: Subject):
    memory = subject.memory()
    for day, said in enumerate(
        [
            "I live in the old town of Berlin.",
            "Well, I live in the old town of Berlin!",
            "I do not live in the old town of Berlin.",
            "I love the old town of Berlin a lot.",
        ]
    ):
        await subject.observe(memory, episode(said, ANNA, at=OCTOBER + day * DAY))
    await subject.observe(
        memory, episode("I live in an old town of Berlin.", b'{"speaker":"Bob"}', at=OCTOBER)
    )
    done = await run(subject, memory)
    assert [(one.reason, text_of(one.record)) for one in await changes(subject, done)] == [
        ("similar", "Well, I live in the old town of Berlin!")
    ]
    assert len(await active(subject, memory)) == 4
    assert len(await active(subject, memory, "episode")) == 5


async def test_a_changed_value_supersedes_the_one_said_before_among_derived_facts_only(subject: Subject):
    memory = subject.memory()
    await subject.observe(memory, episode("I now live in Oslo with Tom.", ANNA, at=OCTOBER + DAY))
    # Said before, and told later.
    await subject.observe(memory, episode("I live in Berlin with Tom.", ANNA, at=OCTOBER))
    stated = await subject.state(memory, "I live in Paris with Tom.", ANNA)
    await subject.observe(memory, episode("I visited Berlin with Tom.", ANNA, at=OCTOBER))
    await subject.observe(memory, episode("I visited Oslo with Tom.", ANNA, at=OCTOBER + DAY))
    done = await run(subject, memory)
    (change,) = await changes(subject, done)
    assert (change.reason, text_of(change.record)) == ("changed", "I live in Berlin with Tom.")
    assert change.record.references[-1].rel == "superseded_by"
    assert stated.id in {one.id for one in await held(subject, memory)}
    assert "I now live in Oslo with Tom." in await active(subject, memory)


async def test_what_ended_is_closed_and_what_was_stated_as_past_stays(subject: Subject):
    memory, now = subject.memory(), datetime.now(UTC)
    ending = await subject.state(memory, "The offer holds.", valid_to=now + timedelta(seconds=0.8))
    await subject.state(
        memory, "Anna worked at Acme.", valid_from=OCTOBER - 900 * DAY, valid_to=OCTOBER - 90 * DAY
    )
    await subject.state(memory, "The contract holds.", valid_to=now + 900 * DAY)
    await asyncio.sleep(1)
    done = await run(subject, memory)
    assert (done.forgotten, sorted(await active(subject, memory))) == (
        1,
        ["Anna worked at Acme.", "The contract holds."],
    )
    assert (await subject.adapter.get(memory, ending.id, None)).status is Status.FORGOTTEN
    reverted = await keeper(subject).revert(memory, done.id, Stamp(ALICE))
    assert reverted.reversal is not None
    assert (reverted.reversal.restored, (await subject.adapter.get(memory, ending.id, None)).status) == (
        1,
        Status.ACTIVE,
    )
    # What was undone is not done again.
    assert (await run(subject, memory)).forgotten == 0


PENGUINS = [
    "Penguins swim in the cold sea near the ice.",
    "The penguins near the ice swim fast in cold water.",
    "A penguin dives deep below the cold ice to feed.",
    "My bicycle has a flat tyre since this morning.",
    "Penguins raise their chicks on the cold ice.",
    "The tax return is due in the spring this year.",
]


def summing(bench: Bench, least: int = 6) -> Subject:
    return bench.native(options=Options(objects=bench.objects, tidy=Tidy(summary_episodes=least)))


@pytest.mark.requirement("ME-9.2-03")
async def test_a_session_is_summed_up_by_its_central_sentences_and_again_when_it_grew(bench: Bench):
    subject = summing(bench)
    memory, session = subject.memory(), b'{"speaker":"Anna","session_id":"s1"}'
    await subject.observe(memory, *(episode(one, session, at=OCTOBER) for one in PENGUINS))
    await subject.observe(memory, episode("A tool said penguins swim in the cold sea.", session, role="tool"))
    await subject.observe(memory, *(episode(f"Other day {one}", at=OCTOBER - DAY) for one in PENGUINS[:5]))
    done = await run(subject, memory)
    assert (done.status, done.created, done.episodes) == ("completed", 1, 12)
    (note,) = [one for one in await held(subject, memory) if one.type == "note"]
    assert (note.written_by.kind, note.written_by.id) == ("consolidator", "native")
    lines = text_of(note).split("\n")
    assert len(lines) <= 5
    assert set(lines) <= {f"Anna: {one}" for one in PENGUINS}
    assert sum("enguin" in one for one in lines) >= 3
    sources = {one.record_id for one in note.references if one.rel == "derived_from"}
    assert len(sources) == len(lines)
    assert note.id not in {one.id for one in await subject.adapter.prime(memory)}
    assert (await run(subject, memory)).created == 0
    await subject.observe(
        memory, episode("Penguins eat fish that they catch below the ice.", session, at=OCTOBER)
    )
    again = await run(subject, memory)
    assert (again.created, again.superseded) == (1, 1)
    (grown,) = [one for one in await held(subject, memory) if one.type == "note"]
    assert grown.id != note.id
    reverted = await keeper(subject).revert(memory, again.id, Stamp(ALICE))
    assert reverted.reversal is not None
    assert (reverted.reversal.restored, reverted.reversal.forgotten) == (1, 1)
    assert [text_of(one) for one in await held(subject, memory) if one.type == "note"] == [text_of(note)]


async def test_an_erase_takes_the_note_and_leaves_nothing_of_it_in_the_changes(bench: Bench):
    subject = summing(bench)
    memory = subject.memory()
    await subject.observe(memory, *(episode(one, ANNA, at=OCTOBER) for one in PENGUINS))
    first = await subject.state(memory, "Acme renews in March.")
    second = await subject.state(memory, "Acme renews in March.")
    done = await run(subject, memory)
    (note,) = [one for one in await held(subject, memory) if one.type == "note"]
    source = next(one.record_id for one in note.references)
    erased = await subject.adapter.erase(memory, [source, first.id], Stamp(ALICE))
    assert note.id in erased.erased
    assert second.id in erased.erased
    assert await changes(subject, done) == ()
    assert (await keeper(subject).run(memory, done.id)).created == 1
    await keeper(subject).revert(memory, done.id, Stamp(ALICE))
    assert await active(subject, memory, "note") == []


@pytest.mark.requirement("ME-9.2-06")
async def test_a_run_whose_budget_ran_out_stops_and_the_next_goes_on_from_there(subject: Subject):
    memory = subject.memory()
    for n in range(10):
        await subject.state(memory, f"Fact {n // 2} of the list.")
    first = await run(subject, memory, Budget(4, "records"))
    assert (first.status, first.budget, first.superseded) == (
        "stopped",
        Budget(4, "records", exhausted=True),
        2,
    )
    assert first.through is not None
    second = await run(subject, memory)
    assert (second.status, second.superseded, second.budget) == ("completed", 3, Budget(600, "seconds"))
    assert second.through is not None
    assert second.through > first.through
    assert len(await active(subject, memory)) == 5
    listed = await keeper(subject).runs(memory, Page(1))
    assert [one.id for one in listed.runs] == [second.id]
    rest = await keeper(subject).runs(memory, Page(1, listed.next_cursor))
    assert ([one.id for one in rest.runs], rest.next_cursor) == ([first.id], "")
    assert (await run(subject, memory, Budget(5, "tokens"))).status == "completed"


@pytest.mark.requirement("ME-9.2-04")
async def test_a_reversal_leaves_what_was_revised_since_and_says_so(subject: Subject):
    memory = subject.memory()
    for _ in range(3):
        await subject.state(memory, "Acme renews in March.")
    done = await run(subject, memory)
    gone = [one.record for one in await changes(subject, done)]
    await subject.forget(gone[0])
    reverted = await keeper(subject).revert(memory, done.id, Stamp(BOB, "k", b"2" * 32))
    assert reverted.reversal is not None
    assert (reverted.reversal.by, reverted.reversal.restored, reverted.reversal.left_count) == (BOB, 1, 1)
    assert [(one.record_id, one.reason) for one in reverted.reversal.left] == [(gone[0].id, "forgotten")]
    restored = await subject.adapter.get(memory, gone[1].id, None)
    assert (restored.version, restored.written_by, restored.references) == (3, ALICE, ())
    assert len(await subject.adapter.history(memory, gone[1].id)) == 3
    for key in ("k", ""):
        assert await keeper(subject).revert(memory, done.id, Stamp(BOB, key, b"2" * 32)) == reverted
    assert [one.undone for one in await changes(subject, done)] == ["forgotten", ""]


async def test_a_second_run_waits_and_too_many_are_refused(subject: Subject):
    memory = subject.memory()
    await subject.state(memory, "Acme renews in March.")
    first = await start(subject, memory, key="one")
    assert (await start(subject, memory, key="one")).id == first.id
    with pytest.raises(GroveError) as refused:
        await keeper(subject).revert(memory, first.id, Stamp(ALICE))
    assert refused.value.code == "grovekeeper_conflict"
    waiting = [await start(subject, memory) for _ in range(3)]
    with pytest.raises(GroveError) as refused:
        await start(subject, memory)
    assert refused.value.code == "grovekeeper_conflict"
    async with asyncio.timeout(60):
        while (await keeper(subject).run(memory, waiting[-1].id)).status != "completed":
            await subject.work()
    runs = [await keeper(subject).run(memory, one.id) for one in (first, *waiting)]
    for before, after in itertools.pairwise(runs):
        assert before.finished_at is not None
        assert after.started_at is not None
        assert before.finished_at <= after.started_at


async def test_a_revision_under_way_wins_over_the_run(subject: Subject, database: Database):
    memory = subject.memory()
    await subject.state(memory, "Acme renews in March.")
    twin = await subject.state(memory, "Acme renews in March.")
    begun = await start(subject, memory)
    async with database.begin() as tx:
        await tx.execute("select 1 from record where record_id = %s for no key update", (twin.id,))
        working = asyncio.ensure_future(subject.work())
        async with asyncio.timeout(20):
            while not await tx.fetch_value(  # noqa: ASYNC110 - a wait of Postgres makes no event
                "select exists (select from pg_locks where not granted)"
            ):
                await asyncio.sleep(0.01)
        # As a revision does it: another version, the one before closed.
        await tx.execute(
            "update version set status = 'superseded', invalidated_at = clock_timestamp() where record_id = %s",
            (twin.id,),
        )
        await tx.execute(
            "insert into version select n.* from version v, jsonb_populate_record(v,"
            """ '{"version": 2, "status": "active", "invalidated_at": null}') n where v.record_id = %s""",
            (twin.id,),
        )
    await working
    now = await subject.adapter.get(memory, twin.id, None)
    assert (now.version, now.status) == (2, Status.ACTIVE)
    done = await keeper(subject).run(memory, begun.id)
    assert (done.status, done.superseded) == ("completed", 0)


async def test_runs_know_only_their_own_memory(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    for memory in (mine, theirs):
        await subject.state(memory, "Acme renews in March.")
    done = await run(subject, mine)
    assert (done.superseded, done.episodes) == (0, 0)
    for call in (
        keeper(subject).run(theirs, done.id),
        keeper(subject).changes(theirs, done.id, Page()),
        keeper(subject).revert(theirs, done.id, Stamp(ALICE)),
    ):
        with pytest.raises(GroveError) as refused:
            await call
        assert refused.value.code == "grovekeeper_not_found"
    assert (await keeper(subject).runs(theirs, Page())).runs == ()


async def test_a_purged_memory_keeps_nothing_of_its_runs(bench: Bench, database: Database):
    subject = summing(bench)
    memory = subject.memory()
    await subject.observe(memory, *(episode(one, ANNA, at=OCTOBER) for one in PENGUINS))
    await run(subject, memory)
    await start(subject, memory)
    await subject.adapter.purge(memory)
    await subject.work()
    async with database.read() as tx:
        for table in (
            "consolidation",
            "consolidation_change",
            "consolidation_due",
            "summary_group",
            "record",
        ):
            counted = await tx.fetch_value(f"select count(*) from {table} where memory_id = %s", (memory,))
            assert counted == 0, table


@pytest.mark.requirement("ME-9.1-17")
async def test_memories_with_news_are_due_by_schedule_and_when_idle(bench: Bench, database: Database):
    when = When(every_h=1, idle_min=10, idle_episodes=3, at_once=5)
    subject = bench.native(options=Options(objects=bench.objects, tidy=Tidy(when=when)))
    busy, idle, old, stale = (subject.memory() for _ in range(4))
    for memory in (busy, idle, stale):
        await subject.observe(memory, *(episode(f"{n} is a number here.") for n in range(3)))
    await subject.observe(old, episode("One is a number here."))
    await run(subject, stale)
    assert await keeper(subject).due() == []
    async with database.begin() as tx:
        await tx.execute(
            "update consolidation_due set changed_at = changed_at - interval '11 minutes',"
            " checked_at = '-infinity' where memory_id = any(%s)",
            ([idle, old],),
        )
        await tx.execute(
            "update version set created_at = created_at - interval '11 minutes' where memory_id = any(%s)",
            ([idle, old],),
        )
        await tx.execute("update consolidation_sweep set at = clock_timestamp() + interval '10 minutes'")
        assert (
            await tx.fetch_value("select count(*) from consolidation_due where memory_id = %s", (stale,)) == 0
        )
    assert [(one.memory_id, one.trigger) for one in await keeper(subject).due()] == [(idle, "idle")]
    async with database.begin() as tx:
        await tx.execute(
            "update consolidation_due set since = since - interval '2 hours' where memory_id = %s", (old,)
        )
    found = {one.memory_id: one.trigger for one in await keeper(subject).due()}
    assert found == {idle: "idle", old: "schedule"}


async def test_a_note_of_ours_is_never_a_source_of_another(bench: Bench):
    subject = summing(bench, 1)
    memory = subject.memory()
    await subject.observe(memory, *(episode(one, ANNA, at=OCTOBER) for one in PENGUINS))
    await run(subject, memory)
    for _ in range(3):
        assert (await run(subject, memory)).created == 0
    (note,) = [one for one in await held(subject, memory) if one.type == "note"]
    draft = Draft("fact", words("Penguins, in short."), references=derived_from(note))
    stated = await subject.adapter.remember(memory, draft, Stamp(ALICE))
    erased = await subject.adapter.erase(memory, [note.id], Stamp(ALICE))
    assert stated.id in erased.erased


@pytest.mark.parametrize(
    "attributes", [rb'{"session":"\ud800"}', b'{"a":' * 600 + b"1" + b"}" * 600], ids=["half", "deep"]
)
async def test_attributes_that_cannot_be_read_stop_no_run(subject: Subject, attributes: bytes):
    memory = subject.memory()
    await subject.observe(memory, episode("The hub is plugged in at Mill Street.", attributes))
    assert (await run(subject, memory)).status == "completed"
