"""As of an instant, the memory reads as it stood then: by id, in lists and in recalls alike (section 5.3)."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from provider_workers.domain.model import Draft, Include, Page, Record, Selection, Stamp, Status
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, Subject, found, text_of, words

TICK = timedelta(microseconds=1)


async def at(
    subject: Subject, memory: str, instant: datetime, include: Include = Include.ACTIVE
) -> list[str]:
    """What a list and two recalls show of an instant; they agree."""
    selection = Selection(include=include, as_of=instant)
    listed = await subject.adapter.list(memory, selection, Page(50))
    texts = [text_of(one) for one in listed.records]
    for query, text in (("Acme renewal", ""), ("", "Acme")):
        answer = await subject.ask(memory, query, text=text, as_of=instant, include=include, limit=50)
        assert sorted(found(answer)) == sorted(texts)
    return texts


@pytest.mark.requirement("ME-5.3-03", "ME-5.3-04")
async def test_a_read_as_of_an_instant_sees_what_was_held_then(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    two = await subject.revise(one, "Acme renews in April.")
    closed = await subject.forget(one)
    assert closed.invalidated_at is not None
    assert await at(subject, memory, one.written_at - TICK) == []
    assert await at(subject, memory, one.written_at) == ["Acme renews in March."]
    assert await at(subject, memory, two.written_at - TICK) == ["Acme renews in March."]
    assert await at(subject, memory, two.written_at) == ["Acme renews in April."]
    assert await at(subject, memory, closed.invalidated_at - TICK) == ["Acme renews in April."]
    assert await at(subject, memory, closed.invalidated_at) == []
    assert await at(subject, memory, datetime(9999, 1, 1, tzinfo=UTC)) == []


@pytest.mark.requirement("ME-6.2-06")
async def test_what_was_closed_by_then_can_be_asked_for(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    two = await subject.revise(one, "Acme renews in April.")
    closed = await subject.forget(one)
    assert closed.invalidated_at is not None
    before, between, after = one.written_at, two.written_at, closed.invalidated_at
    assert await at(subject, memory, before, Include.SUPERSEDED) == []
    assert await at(subject, memory, between, Include.SUPERSEDED) == ["Acme renews in March."]
    assert await at(subject, memory, between, Include.FORGOTTEN) == []
    assert await at(subject, memory, after, Include.FORGOTTEN) == ["Acme renews in April."]
    assert await at(subject, memory, before, Include.ALL) == ["Acme renews in March."]
    assert await at(subject, memory, after, Include.ALL) == ["Acme renews in April.", "Acme renews in March."]


@pytest.mark.requirement("ME-5.3-04")
async def test_a_version_read_as_of_an_instant_is_as_it_was(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    two = await subject.revise(one, "Acme renews in April.")
    await subject.forget(one)

    async def then(instant: datetime) -> Record:
        return await subject.adapter.get(memory, one.id, instant)

    assert await then(one.written_at) == one
    assert await then(two.written_at) == two
    assert (await then(datetime.now(UTC) + timedelta(days=1))).status is Status.FORGOTTEN
    with pytest.raises(GroveError) as refused:
        await then(one.written_at - TICK)
    assert refused.value.code == "memory_record_not_found"


async def test_a_record_taken_over_by_another_reads_as_before_until_then(subject: Subject):
    memory = subject.memory()
    old = await subject.state(memory, "Acme renews in March.")
    draft = Draft("fact", words("Acme renews in April."), supersedes=old.id)
    new = await subject.adapter.remember(memory, draft, Stamp(ALICE))
    assert await at(subject, memory, new.written_at - TICK) == ["Acme renews in March."]
    assert await at(subject, memory, new.written_at) == ["Acme renews in April."]


@pytest.mark.requirement("ME-4-07")
async def test_the_times_of_a_record_strictly_increase(subject: Subject):
    one = await subject.state(subject.memory(), "Acme renews in month 0.")
    for n in range(1, 20):
        await subject.revise(one, f"Acme renews in month {n}.")
    versions = await subject.adapter.history(one.memory_id, one.id)
    assert [version.version for version in versions] == list(range(1, 21))
    for earlier, later in pairwise(versions):
        assert earlier.written_at < later.written_at
        assert earlier.invalidated_at == later.written_at
