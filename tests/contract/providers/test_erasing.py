"""Erase removes content so that it cannot be read again (section 5.2)."""

import psycopg
import pytest
from psycopg import sql

from provider_workers.domain.model import Changes, Draft, Include, Page, Reference, Selection, Stamp
from provider_workers.settings import Settings
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.contract.providers.subject import ALICE, BOB, Subject, derived_from, episode, fact, words


def traces(settings: Settings, *needles: str) -> list[str]:
    """The tables of the provider's schema in whose rows, read as text, any of these still is.

    Job rows of the queue are included; bytea is looked into as what it holds.
    """
    with psycopg.connect(settings.dsn()) as connection:
        tables = [
            str(row[0])
            for row in connection.execute(
                "select table_name from information_schema.tables where table_schema = 'provider'"
            )
        ]
        holding = list[str]()
        for table in tables:
            rows = connection.execute(
                sql.SQL("select t.* from {} t").format(sql.Identifier("provider", table))
            )
            for row in rows:
                cells = (
                    bytes(cell).decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
                    for cell in row
                )
                if any(needle in cell for cell in cells for needle in needles):
                    holding.append(table)
                    break
    return holding


@pytest.mark.requirement("ME-5.2-04")
async def test_an_erased_record_is_gone_from_every_read(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    revised = await subject.revise(one, "Acme renews in April.")
    other = await subject.state(memory, "The cat sleeps on the sofa.")
    erased = await subject.adapter.erase(memory, [one.id], Stamp(ALICE))
    assert (erased.erased, erased.unreachable) == ((one.id,), ())
    assert await subject.listed(memory, include=Include.ALL) == ["The cat sleeps on the sofa."]
    answer = await subject.ask(memory, "when does Acme renew?", text="Acme", include=Include.ALL)
    assert [hit.record.id for hit in answer.hits] == [other.id]
    for instant in (one.written_at, revised.written_at):
        then = await subject.ask(memory, text="Acme", include=Include.ALL, as_of=instant)
        page = await subject.adapter.list(memory, Selection(include=Include.ALL, as_of=instant), Page())
        assert (then.hits, page.records) == ((), ())
    assert await subject.adapter.exist([(memory, one.id)]) == frozenset()
    assert [record.id for record in await subject.adapter.prime(memory)] == [other.id]
    for attempt in (
        subject.adapter.get(memory, one.id, None),
        subject.adapter.get(memory, one.id, one.written_at),
        subject.adapter.history(memory, one.id),
        subject.revise(one, "Acme renews in May."),
        subject.forget(one),
        subject.adapter.erase(memory, [one.id], Stamp(ALICE)),
    ):
        with pytest.raises(GroveError) as refused:
            await attempt
        assert refused.value.code == "memory_record_not_found"


async def test_a_forgotten_and_a_superseded_record_can_be_erased(subject: Subject):
    memory = subject.memory()
    one, two = (
        await subject.state(memory, "Acme renews in March."),
        await subject.state(memory, "Old value here."),
    )
    await subject.forget(one)
    await subject.adapter.remember(
        memory, Draft("fact", words("New value here."), supersedes=two.id), Stamp(BOB)
    )
    erased = await subject.adapter.erase(memory, [two.id, one.id, two.id], Stamp(ALICE))
    assert erased.erased == (two.id, one.id)
    assert await subject.listed(memory, include=Include.ALL) == ["New value here."]


@pytest.mark.requirement("ME-5.2-05")
async def test_erasing_an_episode_erases_what_was_derived_from_it(subject: Subject):
    memory = subject.memory()
    job = await subject.observe(
        memory,
        episode("The password hint is pelican. The hub stands in the kitchen."),
        episode("Greta likes the broadband people."),
    )
    first = next(one for one in job.records if one.type == "episode")
    facts = {one.id for one in job.records if derived_from(first) == one.references}
    assert len(facts) == 2
    erased = await subject.adapter.erase(memory, [first.id], Stamp(ALICE))
    assert erased.erased[0] == first.id
    assert set(erased.erased[1:]) == facts
    assert erased.unreachable == ()
    left = await subject.adapter.job(memory, job.id)
    assert {one.id for one in left.records} == {one.id for one in job.records} - set(erased.erased)
    assert not (await subject.ask(memory, text="pelican kitchen hub")).hits


@pytest.mark.requirement("ME-5.2-05")
async def test_derived_copies_are_followed_at_any_remove_and_in_any_version(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    two = await subject.adapter.remember(
        memory, Draft("note", words("Renewals: Acme, March."), references=derived_from(one)), Stamp(BOB)
    )
    three = await subject.adapter.remember(
        memory, Draft("note", words("Spring is busy."), references=derived_from(two)), Stamp(BOB)
    )
    await subject.adapter.revise(memory, three.id, Changes(references=()), 0, Stamp(BOB))
    about = Reference("about", memory, one.id)
    kept = await subject.adapter.remember(
        memory, Draft("note", words("Mentions it only."), references=(about,)), Stamp(BOB)
    )
    erased = await subject.adapter.erase(memory, [one.id], Stamp(ALICE))
    assert (erased.erased, erased.unreachable) == ((one.id, two.id, three.id), ())
    assert await subject.adapter.get(memory, kept.id, None) == kept


@pytest.mark.requirement("ME-5.2-08", "ME-10.3-03", "ME-5.2-09")
async def test_a_copy_in_another_memory_is_reported_and_not_touched(subject: Subject):
    private, shared = subject.memory(), subject.memory()
    source = await subject.state(private, "Acme renews in March.")
    copy = await subject.adapter.remember(
        shared, Draft("fact", words("Acme renews in spring."), references=derived_from(source)), Stamp(BOB)
    )
    erased = await subject.adapter.erase(private, [source.id], Stamp(ALICE))
    assert (erased.erased, erased.unreachable) == ((source.id,), (copy.id,))
    assert subject.adapter.capabilities.erase_unreachable == "reported"
    assert await subject.adapter.get(shared, copy.id, None) == copy


async def test_nothing_of_an_erased_record_is_left_in_any_table(
    subject: Subject, provider_settings: Settings
):
    memory, stamp = subject.memory(), Stamp(ALICE, subject.key(), b"hash")
    draft = Draft("fact", words("The pelican sleeps in Reykjavik."), b'{"hint":"walrus"}')
    one = await subject.adapter.remember(memory, draft, stamp)
    await subject.revise(one, "The pelican sleeps in Oslo.")
    observed = Stamp(ALICE, subject.key(), b"hash")
    begun = await subject.adapter.observe(
        memory, [episode("Everybody says the pelican is in Bergen now.")], observed
    )
    await subject.work()
    assert begun.job is not None
    records = (await subject.adapter.job(memory, begun.job.id)).records
    needles = ("pelican", "walrus", "Reykjavik", "Oslo", "Bergen", one.id, *(record.id for record in records))
    assert "version" in traces(provider_settings, *needles)
    await subject.adapter.erase(memory, [one.id, records[0].id], Stamp(ALICE))
    assert traces(provider_settings, *needles) == []


async def test_a_late_repeat_does_not_bring_back_what_was_erased(subject: Subject):
    memory, stamp = subject.memory(), Stamp(ALICE, subject.key(), b"hash")
    one = await subject.adapter.remember(memory, fact("Acme renews in March."), stamp)
    await subject.adapter.erase(memory, [one.id], Stamp(ALICE))
    with pytest.raises(GroveError) as refused:
        await subject.adapter.remember(memory, fact("Acme renews in March."), stamp)
    assert refused.value.code == "memory_record_not_found"
    assert await subject.listed(memory, include=Include.ALL) == []


async def test_a_late_repeat_of_an_observe_does_not_bring_back_erased_episodes(subject: Subject):
    memory, stamp = subject.memory(), Stamp(ALICE, subject.key(), b"hash")
    begun = await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], stamp)
    assert begun.job is not None
    (kept,) = (await subject.adapter.job(memory, begun.job.id)).records
    await subject.adapter.erase(memory, [kept.id], Stamp(ALICE))
    assert await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], stamp) == begun
    await subject.work()
    assert await subject.listed(memory, include=Include.ALL) == []


async def test_what_is_derived_is_not_derived_again_after_it_was_forgotten(subject: Subject):
    memory = subject.memory()
    job = await subject.observe(memory, episode("The hub is plugged in there."))
    (derived,) = [one for one in job.records if one.type == "fact"]
    await subject.forget(derived)
    await subject.work()
    page = await subject.adapter.list(memory, Selection(types=("fact",)), Page(10))
    assert page.records == ()


@pytest.mark.requirement("ME-12-03")
async def test_unknown_ids_are_refused_whole(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    with pytest.raises(GroveError) as refused:
        await subject.adapter.erase(memory, [one.id, new_id("hrec")], Stamp(ALICE))
    assert refused.value.code == "memory_record_not_found"
    assert await subject.adapter.get(memory, one.id, None) == one
