"""A run with the embeddings endpoint away (Memories, section 9.2): the exact part is done, the rest is said and made up for."""

import asyncio

import pytest

from provider_workers.adapters.native.adapter import Options
from provider_workers.adapters.native.consolidation.keeper import Tidy
from provider_workers.adapters.native.embedding.remote import OpenAIEmbedder
from provider_workers.domain.consolidations import Budget
from provider_workers.domain.model import Page, Selection, Stamp
from service_kit.db.pool import Database
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import ALICE, Subject, episode
from tests.contract.providers.test_consolidation import ANNA, DAY, OCTOBER, active, changes, run
from tests.contract.providers.test_native_endpoint import sweep
from tests.fixtures.embeddings import Endpoint

SESSION = b'{"speaker":"Anna","session_id":"s1"}'
COMPARING = ("changed:embedding_pending", "similar:embedding_pending")
WEATHER = (
    "It rains on the harbour since the morning.",
    "The wind comes from the west today.",
    "Everybody at the harbour stays inside.",
)
SUMMING = "summary:embedding_unavailable"


@pytest.fixture
def embedder(endpoint: Endpoint) -> OpenAIEmbedder:
    return endpoint.embedder("model-97", 97)


@pytest.fixture
def subject(bench: Bench, embedder: OpenAIEmbedder) -> Subject:
    told = Options(objects=bench.objects, embed_timeout_s=0.3, tidy=Tidy(summary_episodes=3))
    return bench.native(embedder=embedder, options=told)


async def said(subject: Subject, memory: str, *texts: str, attributes: bytes = ANNA, day: int = 0) -> None:
    for number, text in enumerate(texts):
        await subject.observe(memory, episode(text, attributes, at=OCTOBER + (day + number) * DAY))


async def sessions(subject: Subject, memory: str) -> None:
    """Three that can be summed up, each in words of its own."""
    for number, drink in enumerate(("poison", "water", "wine")):
        texts = [f"{text[:-1]} and drinks {drink}." for text in WEATHER]
        await said(subject, memory, *texts, attributes=SESSION.replace(b"s1", b"s%d" % number), day=number)


async def test_the_exact_part_is_done_and_the_rest_is_said_and_made_up_for(
    subject: Subject, endpoint: Endpoint, embedder: OpenAIEmbedder, database: Database
):
    memory = subject.memory()
    await endpoint.die()
    for _ in range(2):
        await subject.state(memory, "Acme renews in March.")
    await said(
        subject, memory, "I live in the old town of Berlin.", "Well, I live in the old town of Berlin!"
    )
    await said(
        subject, memory, "The deadline is on Monday for all.", "The deadline is on Friday for all.", day=5
    )
    await said(subject, memory, *WEATHER, attributes=SESSION, day=9)
    async with asyncio.timeout(30):
        done = await run(subject, memory)
    assert (done.status, done.superseded, done.created) == ("completed", 1, 0)
    assert set(done.degraded) == {*COMPARING, SUMMING}
    assert [one.reason for one in await changes(subject, done)] == ["duplicate"]
    # As long as nobody answers a later run does no more, and says the same.
    assert (await run(subject, memory)).degraded == done.degraded
    await endpoint.start()
    await sweep(database, embedder)
    again = await run(subject, memory)
    assert (again.status, again.degraded, again.created) == ("completed", (), 1)
    assert sorted(one.reason for one in await changes(subject, again)) == ["changed", "similar", "summary"]
    assert await active(subject, memory, "note") != []
    assert (await run(subject, memory)).superseded == 0


async def test_an_endpoint_that_falls_silent_in_the_middle_costs_the_notes_and_nothing_else(
    subject: Subject, endpoint: Endpoint
):
    memory = subject.memory()
    await said(
        subject, memory, "I live in the old town of Berlin.", "Well, I live in the old town of Berlin!"
    )
    await sessions(subject, memory)
    endpoint.hang_after = len(endpoint.requests)
    async with asyncio.timeout(30):
        done = await run(subject, memory)
    assert (done.status, done.superseded, done.created, done.degraded) == ("completed", 1, 0, (SUMMING,))
    # It is asked once, not once for each session.
    assert len(endpoint.requests) == endpoint.hang_after + 1
    endpoint.hang_after = None
    endpoint.let_go.set()
    again = await run(subject, memory)
    assert (again.created, again.degraded) == (3, ())


async def test_a_session_whose_texts_are_refused_holds_up_no_other(subject: Subject, endpoint: Endpoint):
    memory = subject.memory()
    endpoint.refused = "poison"
    await sessions(subject, memory)
    done = await run(subject, memory)
    assert (done.status, done.created) == ("completed", 2)
    assert SUMMING in done.degraded
    again = await run(subject, memory)
    assert (again.status, again.created, SUMMING in again.degraded) == ("completed", 0, True)
    endpoint.refused = ""
    assert (await run(subject, memory)).created == 1


async def test_a_fact_without_a_vector_is_compared_when_it_has_one_with_newer_ones_too(
    subject: Subject, endpoint: Endpoint, embedder: OpenAIEmbedder, database: Database
):
    memory = subject.memory()
    endpoint.refused = "Well"
    await said(subject, memory, "Well, I live in the old town of Berlin!")
    for _ in range(4):
        await sweep(database, embedder)
    await said(
        subject, memory, "The deadline is on Monday for all.", "The deadline is on Friday for all.", day=1
    )
    await said(subject, memory, "I live in the old town of Berlin.", day=5)
    done = await run(subject, memory)
    assert [one.reason for one in await changes(subject, done)] == ["changed"]
    assert done.degraded == COMPARING
    assert len(await active(subject, memory)) == 3
    # The one that was late is the older of the two by now: it is compared with what is newer.
    endpoint.refused = ""
    await sweep(database, embedder)
    again = await run(subject, memory)
    assert [one.reason for one in await changes(subject, again)] == ["similar"]
    assert (again.degraded, len(await active(subject, memory))) == ((), 2)


async def test_what_was_put_off_is_compared_though_another_never_gets_a_vector(
    subject: Subject, endpoint: Endpoint, embedder: OpenAIEmbedder, database: Database
):
    memory = subject.memory()
    endpoint.refused = "Alas"
    await said(subject, memory, "Alas, the sea is cold near the ice.")
    for _ in range(4):
        await sweep(database, embedder)
    await endpoint.die()
    await said(
        subject, memory, "I live in the old town of Berlin.", "Well, I live in the old town of Berlin!"
    )
    assert (await run(subject, memory)).superseded == 0
    await endpoint.start()
    await sweep(database, embedder)
    done = await run(subject, memory)
    assert [one.reason for one in await changes(subject, done)] == ["similar"]
    assert done.degraded == COMPARING


async def test_what_comes_while_a_model_is_changed_is_compared_after_it(
    bench: Bench, subject: Subject, endpoint: Endpoint, embedder: OpenAIEmbedder, database: Database
):
    memory = subject.memory()
    await sweep(database, embedder)
    await said(subject, memory, "I live in the old town of Berlin.")
    assert (await run(subject, memory)).degraded == ()
    other = endpoint.embedder("other-61", 61)
    after = bench.native(embedder=other, options=Options(objects=bench.objects, embed_timeout_s=0.3))
    await said(after, memory, "Well, I live in the old town of Berlin!", day=1)
    done = await run(after, memory)
    assert (done.superseded, done.degraded) == (0, COMPARING)
    await sweep(database, other)
    again = await run(after, memory)
    assert (again.superseded, again.degraded) == (1, ())


async def test_catching_up_keeps_within_a_budget_and_goes_on_from_there(
    subject: Subject, endpoint: Endpoint, embedder: OpenAIEmbedder, database: Database
):
    memory = subject.memory()
    await endpoint.die()
    for day, one in enumerate((*WEATHER, "The penguins swim in the cold sea near the ice.")):
        await said(subject, memory, one, f"Well, {one}", day=day)
    assert (await run(subject, memory)).superseded == 0
    await endpoint.start()
    await sweep(database, embedder)
    first = await run(subject, memory, Budget(4, "records"))
    assert (first.status, first.budget.exhausted, first.degraded) == ("stopped", True, COMPARING)
    second = await run(subject, memory)
    assert (second.status, second.degraded) == ("completed", ())
    assert first.superseded + second.superseded == 4


async def test_what_was_erased_or_forgotten_meanwhile_is_not_waited_for(subject: Subject, endpoint: Endpoint):
    memory = subject.memory()
    await endpoint.die()
    await said(subject, memory, "I live in the old town of Berlin.", "The sea is cold near the ice.")
    assert (await run(subject, memory)).degraded == COMPARING
    page = await subject.adapter.list(memory, Selection(types=("fact",)), Page(10))
    first, second = page.records
    await subject.forget(first)
    await subject.adapter.erase(memory, [second.id], Stamp(ALICE))
    assert (await run(subject, memory)).degraded == ()
