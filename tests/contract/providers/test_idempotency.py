"""A write repeated under its key is answered as the first time and written once (section 5.1)."""

import pytest

from provider_workers.domain.model import Changes, Include, Stamp
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, BOB, Subject, episode, fact, words


@pytest.mark.requirement("ME-5.1-07")
async def test_a_repeated_remember_answers_the_first_record_as_it_was(subject: Subject):
    memory, stamp = subject.memory(), Stamp(ALICE, subject.key(), b"hash")
    first = await subject.adapter.remember(memory, fact("Acme renews in March."), stamp)
    await subject.revise(first, "Acme renews in April.")
    assert await subject.adapter.remember(memory, fact("Acme renews in March."), stamp) == first
    assert len(await subject.adapter.history(memory, first.id)) == 2
    assert await subject.listed(memory) == ["Acme renews in April."]


@pytest.mark.requirement("ME-5.1-07")
async def test_a_repeated_revision_answers_the_version_it_made(subject: Subject):
    one, stamp = (
        await subject.state(subject.memory(), "Acme renews in March."),
        Stamp(BOB, subject.key(), b"hash"),
    )
    changes = Changes(content=words("Acme renews in April."))
    two = await subject.adapter.revise(one.memory_id, one.id, changes, 1, stamp)
    await subject.revise(one, "Acme renews in May.")
    assert await subject.adapter.revise(one.memory_id, one.id, changes, 1, stamp) == two
    assert len(await subject.adapter.history(one.memory_id, one.id)) == 3


@pytest.mark.requirement("ME-5.1-07")
async def test_a_repeated_forget_answers_the_closed_record(subject: Subject):
    one, stamp = (
        await subject.state(subject.memory(), "Acme renews in March."),
        Stamp(BOB, subject.key(), b"hash"),
    )
    closed = await subject.adapter.forget(one.memory_id, one.id, 1, stamp)
    assert await subject.adapter.forget(one.memory_id, one.id, 1, stamp) == closed


@pytest.mark.requirement("ME-5.1-07")
async def test_a_repeated_erase_answers_what_the_first_one_erased(subject: Subject):
    one, stamp = (
        await subject.state(subject.memory(), "Acme renews in March."),
        Stamp(ALICE, subject.key(), b"hash"),
    )
    first = await subject.adapter.erase(one.memory_id, [one.id], stamp)
    assert await subject.adapter.erase(one.memory_id, [one.id], stamp) == first
    with pytest.raises(GroveError) as refused:
        await subject.adapter.erase(one.memory_id, [one.id], Stamp(ALICE))
    assert refused.value.code == "memory_record_not_found"


@pytest.mark.requirement("ME-5.1-07")
async def test_a_repeated_observe_answers_the_first_job_and_appends_nothing(subject: Subject):
    memory, stamp = subject.memory(), Stamp(ALICE, subject.key(), b"hash")
    first = await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], stamp)
    await subject.work()
    assert await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], stamp) == first
    await subject.work()
    assert len(await subject.listed(memory, include=Include.ALL)) == 2


async def test_a_key_used_for_another_request_or_another_memory_is_refused(subject: Subject):
    memory, key = subject.memory(), subject.key()
    await subject.adapter.remember(memory, fact("Acme renews in March."), Stamp(ALICE, key, b"hash"))
    for place, request_hash in ((memory, b"other"), (subject.memory(), b"hash")):
        with pytest.raises(GroveError) as refused:
            await subject.adapter.remember(
                place, fact("Acme renews in April."), Stamp(ALICE, key, request_hash)
            )
        assert refused.value.code == "grovekeeper_idempotency_mismatch"
        assert "Acme renews in April." not in await subject.listed(place)


async def test_a_key_belongs_to_its_principal_and_operation(subject: Subject):
    memory, key = subject.memory(), subject.key()
    one = await subject.adapter.remember(memory, fact("Acme renews."), Stamp(ALICE, key, b"hash"))
    two = await subject.adapter.remember(memory, fact("Acme renews."), Stamp(BOB, key, b"hash"))
    assert one.id != two.id
    assert (await subject.adapter.forget(memory, one.id, 0, Stamp(ALICE, key, b"hash"))).id == one.id


async def test_a_request_that_failed_leaves_its_key_free(subject: Subject):
    memory, key = subject.memory(), subject.key()
    one = await subject.state(memory, "Acme renews in March.")
    changes = Changes(content=words("Acme renews in April."))
    with pytest.raises(GroveError):
        await subject.adapter.revise(memory, one.id, changes, 9, Stamp(ALICE, key, b"hash"))
    revised = await subject.adapter.revise(memory, one.id, changes, 1, Stamp(ALICE, key, b"other"))
    assert revised.version == 2
