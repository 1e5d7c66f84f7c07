"""Observe keeps what was said, at once; what it means is derived behind it (section 5.1)."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.derivation import derive
from provider_workers.adapters.native.lateness import Lateness
from provider_workers.adapters.native.sentences import MAX_FACTS
from provider_workers.adapters.native.tidying import Tidying
from provider_workers.domain.model import Draft, Include, Job, Page, Part, Record, Stamp, Writer
from provider_workers.domain.work import BackgroundWork
from service_kit.db.pool import Database
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import ALICE, Subject, derived_from, episode, found, text_of

HARNESS = Writer("harness", "chrn_41c0")
NOON = datetime(2026, 9, 30, 12, tzinfo=UTC)


def facts(job: Job) -> list[str]:
    return [text_of(one) for one in job.records if one.type == "fact"]


@pytest.mark.requirement("ME-5.1-02")
async def test_an_observe_answers_a_pending_job_and_no_records_yet(subject: Subject):
    memory = subject.memory()
    observed = await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], Stamp(ALICE))
    assert observed.records == ()
    assert observed.job is not None
    assert (observed.job.status, observed.job.records, observed.job.finished_at) == ("pending", (), None)
    pending = await subject.adapter.job(memory, observed.job.id)
    assert pending.status == "pending"


@pytest.mark.requirement("ME-5.1-01")
async def test_episodes_are_kept_verbatim_and_in_order_before_anything_is_derived(subject: Subject):
    memory = subject.memory()
    parts = (Part("text", "Is it on?", "user"), Part("text", "  It is.\n", "assistant"))
    first = Draft("episode", parts, b'{"speaker":"Sam","n":1.50}', NOON)
    await subject.adapter.observe(memory, [first, episode("The second thing that was said.")], Stamp(ALICE))
    assert await subject.listed(memory) == ["The second thing that was said.", "Is it on?\n  It is.\n"]
    hits = (await subject.ask(memory, text="second thing")).hits
    assert [text_of(hit.record) for hit in hits] == ["The second thing that was said."]
    (hit,) = (await subject.ask(memory, text="on")).hits
    kept = hit.record
    assert (kept.type, kept.content, kept.attributes, kept.valid_from) == (
        "episode",
        parts,
        first.attributes,
        NOON,
    )
    assert kept.written_by == ALICE


@pytest.mark.requirement("ME-5.1-03")
async def test_a_finished_job_lists_its_episodes_and_then_its_facts(subject: Subject):
    memory = subject.memory()
    job = await subject.observe(
        memory,
        episode(
            "Morning. The hub is plugged in at Mill Street. Did anything change?",
            b'{"speaker":"Sam"}',
            at=NOON,
        ),
        episode("Greta had the broadband people in."),
    )
    assert (job.status, job.error) == ("completed", "")
    assert job.finished_at is not None
    assert [one.type for one in job.records] == ["episode", "episode", "fact", "fact"]
    assert facts(job) == ["The hub is plugged in at Mill Street.", "Greta had the broadband people in."]


async def test_a_derived_fact_says_who_said_it_when_and_where_it_comes_from(subject: Subject):
    job = await subject.observe(
        subject.memory(),
        episode("The hub is plugged in at Mill Street.", b'{"speaker":"Sam","x":1}', "user", NOON),
    )
    kept, derived = job.records
    assert (derived.type, text_of(derived)) == ("fact", "The hub is plugged in at Mill Street.")
    assert (derived.attributes, derived.valid_from) == (b'{"speaker":"Sam"}', NOON)
    assert derived.references == derived_from(kept)
    assert derived.written_by == Writer("service", subject.adapter.capabilities.id)


async def test_an_episode_without_a_time_of_its_own_dates_its_facts_by_its_arrival(subject: Subject):
    kept, derived = (await subject.observe(subject.memory(), episode("The hub is plugged in there."))).records
    assert kept.valid_from is None
    assert derived.valid_from == kept.written_at


async def test_questions_greetings_requests_code_and_quotes_are_no_facts(subject: Subject):
    text = (
        "Hi there, everybody! Thanks a lot for that. Is the hub plugged in now? Please send me the invoice today.\n"
        "> Somebody else wrote this line here.\n```\nthe hub = plugged_in(now)\n```\nOk.\n"
        "- The hub stands in the kitchen now.\n"
    )
    job = await subject.observe(subject.memory(), episode(text))
    assert facts(job) == ["The hub stands in the kitchen now."]


@pytest.mark.parametrize("role", ["tool", "system"])
async def test_what_a_tool_or_the_system_says_is_never_derived_from(subject: Subject, role: str):
    parts = (
        Part("text", "The hub is plugged in there.", "user"),
        Part("text", "Recalled: Acme renews in March.", role),
    )
    job = await subject.observe(subject.memory(), Draft("episode", parts, b'{"speaker":"Sam"}'))
    assert facts(job) == ["The hub is plugged in there."]


@pytest.mark.parametrize(
    ("writer", "attributes", "derives"),
    [
        (HARNESS, b"", False),
        (HARNESS, b'{"speaker":"helper"}', False),
        (ALICE, b"", False),
        (ALICE, b'{"speaker":"Tom Adeyemi"}', True),
    ],
    ids=["a turn", "a named harness", "an unnamed assistant", "a person who assists"],
)
async def test_an_assistants_words_are_facts_only_when_a_person_is_named(
    subject: Subject, writer: Writer, attributes: bytes, *, derives: bool
):
    """An agent's answer may repeat what it recalled; a memory must not feed on itself."""
    said = episode("Blinking amber means the hub has power.", attributes, "assistant")
    job = await subject.observe(subject.memory(), said, writer=writer)
    assert bool(facts(job)) is derives


async def test_an_unnamed_assistant_in_a_transcript_is_not_derived_from(subject: Subject):
    parts = (
        Part("text", "The hub is plugged in there.", "user"),
        Part("text", "Recalled: Acme renews in March.", "assistant"),
    )
    job = await subject.observe(subject.memory(), Draft("episode", parts))
    assert facts(job) == ["The hub is plugged in there."]


async def test_the_same_sentence_of_the_same_speaker_is_a_fact_once(subject: Subject):
    memory = subject.memory()
    sam, ann = b'{"speaker":"Sam"}', b'{"speaker":"Ann"}'
    first = await subject.observe(memory, episode("I live in Berlin now. I live in Berlin now.", sam))
    second = await subject.observe(
        memory, episode("I live in Berlin now.", sam), episode("I live in Berlin now.", sam)
    )
    third = await subject.observe(memory, episode("I live in Berlin now.", ann))
    assert [len(facts(job)) for job in (first, second, third)] == [1, 0, 1]


async def test_a_fact_is_of_the_past_day_it_names(subject: Subject):
    memory = subject.memory()
    sam = b'{"speaker":"Sam"}'
    days = [NOON, NOON + timedelta(days=7), NOON + timedelta(days=7)]
    said = [episode("I ran ten miles yesterday. The hub is in the kitchen.", sam, "user", at) for at in days]
    job = await subject.observe(memory, *said)
    ran = [one for one in job.records if one.type == "fact" and "ran" in one.content[0].text]
    midnight = NOON.replace(hour=0)
    assert [one.valid_from for one in ran] == [
        midnight - timedelta(days=1),
        midnight + timedelta(days=6),
    ]
    assert {one.attributes for one in ran} == {b'{"speaker":"Sam","subject":"Sam"}'}
    (hub,) = [one for one in job.records if one.type == "fact" and "hub" in one.content[0].text]
    assert (hub.attributes, hub.valid_from) == (sam, NOON)


async def test_what_is_stated_already_is_not_derived_again(subject: Subject):
    memory = subject.memory()
    await subject.state(memory, "I live in Berlin now.", b'{"speaker":"Sam"}')
    job = await subject.observe(memory, episode("I live in Berlin now.", b'{"speaker":"Sam"}'))
    assert facts(job) == []


async def test_a_forgotten_episode_is_not_derived_from(subject: Subject):
    memory = subject.memory()
    observed = await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], Stamp(ALICE))
    assert observed.job is not None
    (kept,) = (await subject.adapter.job(memory, observed.job.id)).records
    await subject.forget(kept)
    await subject.work()
    job = await subject.adapter.job(memory, observed.job.id)
    assert (job.status, facts(job)) == ("completed", [])


async def test_facts_are_recalled_beside_their_episodes(subject: Subject):
    memory = subject.memory()
    await subject.observe(
        memory, episode("Morning. The hub is plugged in at Mill Street. Did anything change?")
    )
    answer = await subject.ask(memory, "where is the hub?", text="hub")
    assert [hit.record.type for hit in answer.hits] == ["episode", "fact"]
    assert answer.degraded == ()


@pytest.mark.parametrize("when", ["", " since yesterday", " yesterday"])
async def test_a_sentence_that_is_a_whole_episode_is_answered_once_as_it_was_said(
    subject: Subject, when: str
):
    memory = subject.memory()
    await subject.observe(memory, episode(f"The hub is plugged in at Mill Street{when}."))
    answer = await subject.ask(memory, "where is the hub?", text="hub")
    assert [hit.record.type for hit in answer.hits] == ["episode"]
    only = await subject.ask(memory, "where is the hub?", types=("fact",))
    assert [hit.record.type for hit in only.hits] == ["fact"]


async def test_many_episodes_with_any_text_are_worked_through(subject: Subject):
    memory = subject.memory()
    said = [
        episode(f"Sensor number {n} reports a normal value." if n % 2 else "🎉\0 我们在三月续约。")
        for n in range(40)
    ]
    job = await subject.observe(memory, *said)
    assert (job.status, len(facts(job))) == ("completed", 21)
    assert found(await subject.ask(memory, text="续约", types=("fact",))) == ["🎉 我们在三月续约。"]


@pytest.mark.requirement("ME-5.1-06")
async def test_with_derivation_off_episodes_are_kept_and_recalled(bench: Bench):
    subject = bench.native(options=Options(derivation="none"))
    assert subject.adapter.capabilities.derivation == "none"
    memory = subject.memory()
    job = await subject.observe(memory, episode("The hub is plugged in at Mill Street."))
    assert (job.status, [one.type for one in job.records]) == ("completed", ["episode"])
    answer = await subject.ask(memory, "where is the hub?")
    assert ([hit.record.type for hit in answer.hits], answer.degraded) == (["episode"], ())


def _poisoned(record: Record) -> Sequence[Draft]:
    if "poison" in text_of(record):
        raise ZeroDivisionError
    return derive(record)


@pytest.mark.requirement("ME-5.1-03")
async def test_a_poisoned_episode_fails_its_job_in_words_and_the_others_go_on(bench: Bench):
    subject = bench.native(derived_by=_poisoned)
    memory = subject.memory()
    said = ["The first thing is fine here.", "This one is poison for us.", "The third thing is fine here."]
    job = await subject.observe(memory, *(episode(text) for text in said))
    assert job.status == "failed"
    assert job.error == "1 of 3 episodes could not be worked on and are kept as they are."
    assert facts(job) == ["The first thing is fine here.", "The third thing is fine here."]
    assert said[1] in await subject.listed(memory, include=Include.ACTIVE)
    assert facts(await subject.observe(memory, episode("A later thing is fine too."))) == [
        "A later thing is fine too."
    ]
    assert said[1] in found(await subject.ask(memory, "is this poison?", text="poison"))


async def test_an_episode_that_took_the_worker_down_each_time_is_set_aside(bench: Bench, database: Database):
    subject = bench.native()
    memory = subject.memory()
    observed = await subject.adapter.observe(
        memory, [episode("The first thing is fine here."), episode("The second thing is not.")], Stamp(ALICE)
    )
    assert observed.job is not None
    async with database.begin() as tx:
        await tx.execute("update job_episode set attempts = 3 where position = 1")
    await subject.work()
    job = await subject.adapter.job(memory, observed.job.id)
    assert (job.status, facts(job)) == ("failed", ["The first thing is fine here."])


async def test_a_job_that_never_gets_anywhere_ends_and_says_so(bench: Bench, database: Database):
    subject = bench.native()
    memory = subject.memory()
    observed = await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], Stamp(ALICE))
    assert observed.job is not None
    async with database.begin() as tx:
        await tx.execute("update job set runs = 1000")
    await subject.work()
    job = await subject.adapter.job(memory, observed.job.id)
    assert (job.status, job.error) == ("failed", "The episodes could not be worked on.")
    assert job.finished_at is not None


class _Sick:
    """A derivation that fails on what it is told to, until it is cured."""

    def __init__(self) -> None:
        self.well = False

    def __call__(self, record: Record) -> Sequence[Draft]:
        return derive(record) if self.well else _poisoned(record)


async def test_a_failed_job_that_is_retried_is_completed_and_nothing_is_derived_twice(bench: Bench):
    sick = _Sick()
    subject = bench.native(derived_by=sick)
    work, memory = _work(subject), subject.memory()
    said = ["The first thing is fine here.", "This one is poison for us.", "The third thing is fine here."]
    failed = await subject.observe(memory, *(episode(text) for text in said))
    (told,) = (await work.list("", (), Page())).jobs
    assert (told.id, told.memory_id, told.status) == (failed.id, memory, "failed")
    assert (told.runs, told.quarantined, told.error) == (1, 1, failed.error)
    assert (told.records, told.pending_since) == ((), None)
    sick.well = True
    begun = await work.retry(failed.id)
    assert (begun.status, begun.error, begun.quarantined) == ("pending", "", 0)
    assert begun.pending_since is not None
    assert failed.finished_at is not None
    assert begun.pending_since >= failed.finished_at > begun.created_at
    await subject.work()
    done = await subject.adapter.job(memory, failed.id)
    assert (done.status, done.error) == ("completed", "")
    assert facts(done) == [said[0], said[1], said[2]]
    assert sorted(await subject.listed(memory, include=Include.ALL)) == sorted(said * 2)
    for _ in range(2):
        with pytest.raises(GroveError) as refused:
            await work.retry(failed.id)
        assert refused.value.code == "grovekeeper_conflict"
    with pytest.raises(GroveError) as unknown:
        await work.retry(new_id("hjob"))
    assert unknown.value.code == "grovekeeper_not_found"


async def test_of_retries_at_once_one_begins_the_job(bench: Bench):
    subject = bench.native(derived_by=_poisoned)
    work, memory = _work(subject), subject.memory()
    failed = await subject.observe(memory, episode("This one is poison for us."))
    results = await asyncio.gather(*(work.retry(failed.id) for _ in range(5)), return_exceptions=True)
    assert [isinstance(one, GroveError) for one in results].count(False) == 1
    await subject.work()
    assert (await subject.adapter.job(memory, failed.id)).status == "failed"


async def test_jobs_are_listed_newest_first_in_pages_and_by_status(bench: Bench):
    subject = bench.native()
    work = _work(subject)
    done = [(await subject.observe(subject.memory(), episode("It is fine here."))).id for _ in range(3)]
    waiting: list[str] = []
    for _ in range(4):
        observed = await subject.adapter.observe(subject.memory(), [episode("It waits here.")], Stamp(ALICE))
        assert observed.job is not None
        waiting.append(observed.job.id)
    first = await work.list("", (), Page(3))
    rest = await work.list("native", ("pending",), Page(3, first.next_cursor))
    assert [one.id for one in (*first.jobs, *rest.jobs)] == waiting[::-1]
    assert {one.pending_since for one in first.jobs} == {one.created_at for one in first.jobs}
    assert rest.next_cursor == ""
    assert [one.id for one in (await work.list("", ("completed",), Page())).jobs] == done[::-1]
    assert not (await work.list("another", (), Page())).jobs
    for statuses, page in ((("finished",), Page()), ((), Page(0, "nonsense"))):
        with pytest.raises(GroveError) as refused:
            await work.list("", statuses, page)
        assert refused.value.code == "invalid_input"


def _work(subject: Subject) -> BackgroundWork:
    assert isinstance(subject.adapter, NativeProvider)
    return BackgroundWork({"native": subject.adapter.work})


async def test_the_age_of_the_oldest_pending_derivation_is_measured(bench: Bench, database: Database):
    subject, lateness = bench.native(), Lateness(database)
    await subject.adapter.observe(subject.memory(), [episode("It waits here.")], Stamp(ALICE))
    async with database.begin() as tx:
        await tx.execute("update job set created_at = created_at - interval '1 hour'")
    assert 3_600 <= (await lateness.measure()).oldest_s < 4_000
    await subject.work()
    assert (await lateness.measure()).oldest_s == 0


async def test_finished_jobs_and_old_keys_are_kept_for_a_while_only(bench: Bench, database: Database):
    subject = bench.native()
    memory, stamp = subject.memory(), Stamp(ALICE, subject.key(), b"hash")
    observed = await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], stamp)
    assert observed.job is not None
    await subject.work()
    tidying = Tidying(database, keep_jobs_days=30, keep_keys_hours=48)
    await tidying.run()
    assert (await subject.adapter.job(memory, observed.job.id)).status == "completed"
    assert await subject.adapter.observe(memory, [], stamp) == observed
    async with database.begin() as tx:
        await tx.execute("update job set finished_at = finished_at - interval '31 days'")
        await tx.execute("update idempotency set created_at = created_at - interval '3 days'")
    await tidying.run()
    with pytest.raises(GroveError) as refused:
        await subject.adapter.job(memory, observed.job.id)
    assert refused.value.code == "grovekeeper_not_found"
    async with database.read() as tx:
        assert await tx.fetch_value("select count(*) from idempotency") == 0
    assert len(await subject.listed(memory)) == 2


async def test_a_huge_episode_is_derived_from_in_bounds_and_holds_up_no_other(subject: Subject):
    memory = subject.memory()
    huge = " ".join(f"Sensor number {n} reports a normal value." for n in range(15_000))
    endless = "word " * 100_000
    job = await subject.observe(
        memory, episode(huge), episode(endless), episode("The hub is plugged in at Mill Street.")
    )
    assert (job.status, len(facts(job))) == ("completed", MAX_FACTS + 1)
    assert found(await subject.ask(memory, text="hub", types=("fact",))) == [
        "The hub is plugged in at Mill Street."
    ]
