"""A memory is reached through itself and through nothing else (sections 3.3 and 10.3)."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from provider_workers.domain.model import Changes, Include, Reference, Stamp
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.contract.providers.subject import ALICE, BOB, Subject, episode, found, words

Attempt = Callable[[Subject, str, str], Awaitable[object]]
ATTEMPTS: dict[str, Attempt] = {
    "get": lambda subject, memory, record: subject.adapter.get(memory, record, None),
    "get as of": lambda subject, memory, record: subject.adapter.get(memory, record, datetime.now(UTC)),
    "history": lambda subject, memory, record: subject.adapter.history(memory, record),
    "revise": lambda subject, memory, record: subject.adapter.revise(
        memory, record, Changes(content=words("Taken over.")), 0, Stamp(BOB)
    ),
    "forget": lambda subject, memory, record: subject.adapter.forget(memory, record, 0, Stamp(BOB)),
    "erase": lambda subject, memory, record: subject.adapter.erase(memory, [record], Stamp(ALICE)),
}


@pytest.mark.requirement("ME-3.3-03", "ME-10.3-01", "ME-12-03")
@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
async def test_a_record_of_another_memory_is_not_found_and_untouched(subject: Subject, attempt: Attempt):
    mine, theirs = subject.memory(), subject.memory()
    one = await subject.state(theirs, "Acme renews in March.")
    await subject.state(mine, "Something of my own.")
    for record in (one.id, new_id("hrec")):
        with pytest.raises(GroveError) as refused:
            await attempt(subject, mine, record)
        assert refused.value.code == "memory_record_not_found"
        assert refused.value.message == "There is no such record in this memory."
    assert await subject.adapter.history(theirs, one.id) == (one,)


async def test_erasing_with_one_foreign_id_erases_nothing(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    own, foreign = await subject.state(mine, "My own fact here."), await subject.state(theirs, "Their fact.")
    with pytest.raises(GroveError) as refused:
        await subject.adapter.erase(mine, [own.id, foreign.id], Stamp(ALICE))
    assert (refused.value.code, refused.value.param) == ("memory_record_not_found", "record_ids")
    assert await subject.adapter.get(mine, own.id, None) == own
    assert await subject.adapter.get(theirs, foreign.id, None) == foreign


@pytest.mark.requirement("ME-3.3-03", "ME-10.3-01", "ME-6.1-01")
async def test_reads_of_one_memory_show_nothing_of_another(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    await subject.state(theirs, "Acme renews in March.")
    own = await subject.state(mine, "The cat sleeps on the sofa.")
    assert await subject.listed(mine, include=Include.ALL) == ["The cat sleeps on the sofa."]
    answer = await subject.ask(mine, "when does Acme renew?", text="Acme March")
    assert [hit.record.id for hit in answer.hits] == [own.id]
    assert await subject.adapter.count([mine]) == {mine: 1}
    assert [one.id for one in await subject.adapter.prime(mine)] == [own.id]


@pytest.mark.requirement("ME-6.1-01", "ME-10.3-01")
async def test_a_recall_searches_exactly_the_memories_named(subject: Subject):
    memories = [subject.memory() for _ in range(3)]
    for n, memory in enumerate(memories):
        await subject.state(memory, f"Acme renews in month {n}.")
    answer = await subject.ask(memories[:2], "when does Acme renew?", text="Acme")
    assert {hit.record.memory_id for hit in answer.hits} == set(memories[:2])


async def test_what_other_memories_hold_changes_no_score(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    for text in (
        "Acme renews in March.",
        "Acme pays late each time.",
        "The renewal desk is closed in March.",
    ):
        await subject.state(mine, text)
    before = await subject.ask(mine, "Acme renewal in March", text="Acme March")
    for n in range(30):
        await subject.state(theirs, f"Acme Acme March renewal {n}.")
    assert await subject.ask(mine, "Acme renewal in March", text="Acme March") == before


async def test_a_job_is_read_through_its_own_memory_only(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    job = await subject.observe(theirs, episode("The hub is plugged in there."))
    for job_id in (job.id, new_id("hjob")):
        with pytest.raises(GroveError) as refused:
            await subject.adapter.job(mine, job_id)
        assert refused.value.code == "grovekeeper_not_found"


async def test_records_exist_only_under_their_own_memory(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    one, two = await subject.state(mine, "A fact of mine."), await subject.state(theirs, "A fact of theirs.")
    await subject.forget(two)
    asked = [(mine, one.id), (theirs, one.id), (theirs, two.id), (mine, new_id("hrec"))]
    assert await subject.adapter.exist(asked) == {(mine, one.id), (theirs, two.id)}
    assert await subject.adapter.exist([]) == frozenset()


async def test_a_reference_into_another_memory_is_kept_and_lets_nothing_through(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    secret = await subject.state(theirs, "The safe opens with 4711.")
    one = await subject.state(mine, "See the other memory.")
    reference = Reference("derived_from", theirs, secret.id)
    await subject.adapter.revise(mine, one.id, Changes(references=(reference,)), 0, Stamp(BOB))
    assert found(await subject.ask(mine, "what opens the safe?", text="4711")) == ["See the other memory."]
    assert (await subject.adapter.erase(mine, [one.id], Stamp(ALICE))).erased == (one.id,)
    assert await subject.adapter.get(theirs, secret.id, None) == secret


async def test_purging_one_memory_leaves_the_others(subject: Subject):
    mine, theirs = subject.memory(), subject.memory()
    stamp = Stamp(BOB, subject.key(), b"hash")
    job = await subject.observe(mine, episode("The hub is plugged in here."))
    await subject.adapter.forget(mine, job.records[0].id, 0, stamp)
    kept = await subject.state(theirs, "A fact of theirs.")
    for _ in range(2):
        await subject.adapter.purge(mine)
    assert await subject.listed(mine, include=Include.ALL) == []
    assert await subject.adapter.count([mine, theirs]) == {theirs: 1}
    assert await subject.adapter.get(theirs, kept.id, None) == kept
    with pytest.raises(GroveError):
        await subject.adapter.job(mine, job.id)
