"""What becomes of a record that a run closed in favour of another, when that other goes (Memories, sections 5.2, 9.2).

Neither a forget nor an erase makes it current again; an erase takes a duplicate along; a revert brings back what is left.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from provider_workers.domain.model import Draft, Include, Page, Record, Reference, Stamp, Status
from service_kit.db.pool import Database
from service_kit.db.tx import Tx
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, BOB, Subject, derived_from, episode, found, text_of, words
from tests.contract.providers.test_consolidation import ANNA, DAY, OCTOBER, changes, held, keeper, run

SENTENCE = "Acme renews in March."


async def duplicates(subject: Subject, memory: str) -> tuple[Record, Record]:
    """What stands, and what was closed in favour of it."""
    stands, closed = await subject.state(memory, SENTENCE), await subject.state(memory, SENTENCE)
    assert (await run(subject, memory)).superseded == 1
    assert (await subject.adapter.get(memory, closed.id, None)).status is Status.SUPERSEDED
    return stands, closed


async def derived(subject: Subject, memory: str, *said: str) -> tuple[Record, Record]:
    """The same of two facts of one speaker, each from an episode of its own: (what stands, what was closed)."""
    for day, text in enumerate(said):
        await subject.observe(memory, episode(text, ANNA, at=OCTOBER + day * DAY))
    done = await run(subject, memory)
    (change,) = await changes(subject, done)
    return await subject.adapter.get(memory, change.replaced_by, None), change.record


async def similar(subject: Subject, memory: str) -> tuple[Record, Record]:
    return await derived(
        subject, memory, "I live in the old town of Berlin.", "Well, I live in the old town of Berlin!"
    )


async def changed(subject: Subject, memory: str) -> tuple[Record, Record]:
    return await derived(subject, memory, "I live in Berlin with Tom.", "I live in Oslo with Tom.")


Pair = Callable[[Subject, str], Awaitable[tuple[Record, Record]]]
PAIRS: dict[str, Pair] = {"duplicate": duplicates, "similar": similar, "changed": changed}


async def erase(subject: Subject, one: Record) -> tuple[str, ...]:
    erased = await subject.adapter.erase(one.memory_id, [one.id], Stamp(ALICE))
    assert erased.unreachable == ()
    return erased.erased


async def reverted(subject: Subject, memory: str) -> tuple[int, int]:
    """How many records the run's reversal restored, and how many it left."""
    (done,) = (await keeper(subject).runs(memory, Page(50))).runs
    reversal = (await keeper(subject).revert(memory, done.id, Stamp(BOB))).reversal
    assert reversal is not None
    return reversal.restored, reversal.left_count


@pytest.mark.requirement("ME-5.2-04", "ME-5.2-05", "ME-9.2-04")
async def test_an_erase_takes_the_duplicates_and_no_revert_brings_the_words_back(subject: Subject):
    memory = subject.memory()
    stands, closed = await duplicates(subject, memory)
    copied = await subject.adapter.remember(
        memory, Draft("note", words("Renewals: Acme."), references=derived_from(closed)), Stamp(BOB)
    )
    bobs = await subject.adapter.remember(memory, Draft("fact", words(SENTENCE)), Stamp(BOB))
    assert set(await erase(subject, stands)) == {stands.id, closed.id, copied.id}
    assert await subject.listed(memory, include=Include.ALL) == [SENTENCE]
    assert [one.id for one in await held(subject, memory)] == [bobs.id]
    assert await reverted(subject, memory) == (0, 0)
    assert [one.id for one in await held(subject, memory)] == [bobs.id]
    assert (await subject.adapter.erase(memory, [bobs.id], Stamp(ALICE))).erased == (bobs.id,)
    assert await subject.listed(memory, include=Include.ALL) == []


@pytest.mark.requirement("ME-9.2-04")
@pytest.mark.parametrize("pair", [similar, changed], ids=["similar", "changed"])
async def test_what_rests_on_an_episode_of_its_own_stays_closed_until_a_revert(subject: Subject, pair: Pair):
    memory = subject.memory()
    stands, closed = await pair(subject, memory)
    assert await erase(subject, stands) == (stands.id,)
    facts = (await subject.ask(memory, "Where do I live?", types=("fact",))).hits
    assert [hit.record.id for hit in facts] == []
    # It was said, and what was said is found.
    assert text_of(closed) in found(await subject.ask(memory, "Where do I live?"))
    assert (await subject.adapter.get(memory, closed.id, None)).status is Status.SUPERSEDED
    assert await reverted(subject, memory) == (1, 0)
    again = await subject.adapter.get(memory, closed.id, None)
    assert (again.status, text_of(again)) == (Status.ACTIVE, text_of(closed))
    assert [hit.record.id for hit in (await subject.ask(memory, text="live", types=("fact",))).hits] == [
        closed.id
    ]


async def test_erasing_the_episode_takes_the_fact_that_was_closed(subject: Subject):
    memory = subject.memory()
    stands, closed = await similar(subject, memory)
    source = await subject.adapter.get(memory, closed.references[0].record_id, None)
    assert set(await erase(subject, source)) == {source.id, closed.id}
    assert stands.id in {one.id for one in await held(subject, memory)}
    assert await reverted(subject, memory) == (0, 0)


@pytest.mark.requirement("ME-5.2-02", "ME-9.2-04")
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
async def test_a_forget_brings_nothing_back_and_a_revert_does(subject: Subject, pair: Pair):
    memory = subject.memory()
    stands, closed = await pair(subject, memory)
    await subject.forget(stands)
    assert (await run(subject, memory)).created == 0
    facts = {one.id for one in await held(subject, memory) if one.type == "fact"}
    assert facts.isdisjoint({stands.id, closed.id})
    first = (await keeper(subject).runs(memory, Page(50))).runs[-1]
    reversal = (await keeper(subject).revert(memory, first.id, Stamp(BOB))).reversal
    assert reversal is not None
    assert (reversal.restored, reversal.left_count) == (1, 0)
    assert closed.id in {one.id for one in await held(subject, memory)}
    assert (await subject.adapter.get(memory, stands.id, None)).status is Status.FORGOTTEN


async def test_erasing_what_was_closed_takes_nothing_else(subject: Subject):
    memory = subject.memory()
    stands, closed = await duplicates(subject, memory)
    assert await erase(subject, closed) == (closed.id,)
    assert await held(subject, memory) == [stands]


async def test_what_was_taken_back_from_a_run_is_not_erased_with_the_other(subject: Subject):
    memory = subject.memory()
    stands, closed = await duplicates(subject, memory)
    assert await reverted(subject, memory) == (1, 0)
    assert await erase(subject, stands) == (stands.id,)
    assert [one.id for one in await held(subject, memory)] == [closed.id]


async def test_a_duplicate_that_was_forgotten_goes_too(subject: Subject):
    memory = subject.memory()
    stands, closed = await duplicates(subject, memory)
    await subject.forget(closed)
    assert set(await erase(subject, stands)) == {stands.id, closed.id}
    assert await subject.listed(memory, include=Include.ALL) == []


async def test_duplicates_of_duplicates_and_of_derived_copies_go_too(subject: Subject):
    """Two runs: the second closes what had stood for others in the first."""
    memory = subject.memory()
    oldest = await subject.state(memory, "Acme renews in May.")
    _, second = await subject.state(memory, SENTENCE), await subject.state(memory, SENTENCE)
    assert (await run(subject, memory)).superseded == 1
    await subject.adapter.erase(memory, [second.id], Stamp(ALICE))
    stood = (await held(subject, memory))[0]
    twin = await subject.state(memory, SENTENCE)
    assert (await run(subject, memory)).superseded == 1
    await subject.revise(oldest, "Something else entirely.")
    about = Reference("derived_from", memory, oldest.id)
    draft = Draft("note", words("A copy of it."), references=(about,))
    copies = [await subject.adapter.remember(memory, draft, Stamp(BOB)) for _ in range(2)]
    assert (await run(subject, memory)).superseded == 1
    assert set(await erase(subject, oldest)) == {oldest.id, *(one.id for one in copies)}
    assert set(await erase(subject, stood)) == {stood.id, twin.id}
    assert await subject.listed(memory, include=Include.ALL) == []


async def test_an_erase_waits_for_the_run_that_closes_a_duplicate_and_takes_it(
    subject: Subject, database: Database
):
    memory = subject.memory()
    stands, closed = await subject.state(memory, SENTENCE), await subject.state(memory, SENTENCE)
    async with database.begin() as tx:
        # The run has both records locked when it comes to write what it did.
        await tx.execute("lock table consolidation_change in exclusive mode")
        running = asyncio.ensure_future(run(subject, memory))
        await _waiting(tx, 1)
        erasing = asyncio.ensure_future(erase(subject, stands))
        await _waiting(tx, 2)
    assert set(await erasing) == {stands.id, closed.id}
    assert (await running).superseded == 1
    assert await subject.listed(memory, include=Include.ALL) == []


async def _waiting(tx: Tx, most: int) -> None:
    """Until so many wait for a lock."""
    async with asyncio.timeout(20):
        while (  # noqa: ASYNC110 - a wait of Postgres makes no event
            await tx.fetch_value("select count(distinct pid) from pg_locks where not granted") < most
        ):
            await asyncio.sleep(0.01)


async def test_a_repeated_erase_answers_the_same_duplicates(subject: Subject):
    memory = subject.memory()
    stands, closed = await duplicates(subject, memory)
    stamp = Stamp(ALICE, subject.key(), b"1" * 32)
    first = await subject.adapter.erase(memory, [stands.id], stamp)
    assert first.erased == (stands.id, closed.id)
    assert await subject.adapter.erase(memory, [stands.id], stamp) == first
    with pytest.raises(GroveError) as refused:
        await subject.adapter.get(memory, closed.id, None)
    assert refused.value.code == "memory_record_not_found"
