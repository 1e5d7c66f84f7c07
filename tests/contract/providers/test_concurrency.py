"""Writers that meet: never two latest versions, never a lost or a doubled write."""

import asyncio

from provider_workers.domain.model import Draft, Include, Record, Stamp, Status
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, Subject, episode, fact, words


def codes(outcomes: list[Record | BaseException]) -> list[str]:
    return [one.code for one in outcomes if isinstance(one, GroveError)]


async def test_revisions_at_once_each_get_a_version_and_one_is_the_latest(subject: Subject):
    one = await subject.state(subject.memory(), "Acme renews in month 0.")
    await asyncio.gather(*(subject.revise(one, f"Acme renews in month {n}.") for n in range(1, 9)))
    versions = await subject.adapter.history(one.memory_id, one.id)
    assert [version.version for version in versions] == list(range(1, 10))
    assert [version.status for version in versions] == [Status.SUPERSEDED] * 8 + [Status.ACTIVE]
    assert len(await subject.listed(one.memory_id)) == 1
    answer = await subject.ask(one.memory_id, "renewal month")
    assert [hit.record for hit in answer.hits] == [versions[-1]]


async def test_of_revisions_that_expect_the_same_version_one_wins(subject: Subject):
    one = await subject.state(subject.memory(), "Acme renews in month 0.")
    outcomes = await asyncio.gather(
        *(subject.revise(one, f"Acme renews in month {n}.", expected=1) for n in range(1, 6)),
        return_exceptions=True,
    )
    assert codes(outcomes) == ["grovekeeper_conflict"] * 4
    assert len(await subject.adapter.history(one.memory_id, one.id)) == 2


async def test_of_records_that_supersede_the_same_one_wins(subject: Subject):
    memory = subject.memory()
    old = await subject.state(memory, "Acme renews in March.")
    drafts = [Draft("fact", words(f"Acme renews in month {n}."), supersedes=old.id) for n in range(5)]
    outcomes = await asyncio.gather(
        *(subject.adapter.remember(memory, draft, Stamp(ALICE)) for draft in drafts), return_exceptions=True
    )
    assert codes(outcomes) == ["grovekeeper_conflict"] * 4
    assert len(await subject.listed(memory)) == 1


async def test_a_forget_and_revisions_at_once_leave_a_closed_record(subject: Subject):
    one = await subject.state(subject.memory(), "Acme renews in month 0.")
    await asyncio.gather(
        *(subject.revise(one, f"Acme renews in month {n}.") for n in range(1, 5)),
        subject.forget(one),
        return_exceptions=True,
    )
    versions = await subject.adapter.history(one.memory_id, one.id)
    assert [version.status for version in versions[:-1]] == [Status.SUPERSEDED] * (len(versions) - 1)
    assert versions[-1].status is Status.FORGOTTEN
    assert await subject.listed(one.memory_id) == []


async def test_a_key_used_at_once_writes_once(subject: Subject):
    memory = subject.memory()
    stamp = Stamp(ALICE, subject.key(), b"hash")
    answers = await asyncio.gather(
        *(subject.adapter.remember(memory, fact("Acme renews in March."), stamp) for _ in range(6))
    )
    assert len(set(answers)) == 1
    assert len(await subject.listed(memory, include=Include.ALL)) == 1


async def test_erasing_while_others_write_leaves_nothing_of_it(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in month 0.")
    await asyncio.gather(
        *(subject.revise(one, f"Acme renews in month {n}.") for n in range(1, 5)),
        subject.adapter.erase(memory, [one.id], Stamp(ALICE)),
        return_exceptions=True,
    )
    assert await subject.listed(memory, include=Include.ALL) == []
    assert (await subject.ask(memory, "Acme renewal", include=Include.ALL)).hits == ()


async def test_erasing_an_episode_while_facts_are_derived_leaves_none_of_them(subject: Subject):
    memory = subject.memory()
    for n in range(5):
        observed = await subject.adapter.observe(
            memory, [episode(f"The hub number {n} is plugged in. Its light is amber today.")], Stamp(ALICE)
        )
        assert observed.job is not None
        (kept,) = (await subject.adapter.job(memory, observed.job.id)).records
        await asyncio.gather(subject.work(), subject.adapter.erase(memory, [kept.id], Stamp(ALICE)))
        assert await subject.listed(memory, include=Include.ALL) == []
        job = await subject.adapter.job(memory, observed.job.id)
        assert (job.status, job.records) == ("completed", ())
