"""Workers of the native provider with different embedding models on one database, as a rolling deployment has them."""

import asyncio

import pytest

from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.embedding.remote import OpenAIEmbedder
from provider_workers.adapters.native.lateness import Lateness
from provider_workers.adapters.native.vectors import Sweeper, Vectors
from service_kit.db.pool import Database
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import Subject, found
from tests.fixtures.embeddings import Endpoint, vectors_of

PENDING = "query:embedding_pending"
ZEBRA = "The zebra enclosure opens at nine."
GIVEN_UP_S = 0.5


class Workers:
    """Workers with the former model and with the next, and what they left in the database."""

    def __init__(self, bench: Bench, endpoint: Endpoint, database: Database) -> None:
        self.endpoint = endpoint
        self._bench = bench
        self._database = database
        self.former: OpenAIEmbedder = endpoint.embedder("former-97", 97)
        self.next: OpenAIEmbedder = endpoint.embedder("next-61", 61)

    def serving(self, embedder: OpenAIEmbedder) -> Subject:
        return self._bench.native(embedder=embedder, options=Options(embed_timeout_s=2.0))

    def started(self, embedder: OpenAIEmbedder, given_up_s: float = 600.0) -> Vectors:
        return vectors_of(self._database, embedder, 2.0, given_up_s=given_up_s)

    async def sweep(self, embedder: OpenAIEmbedder) -> None:
        """By a worker that was just started."""
        await Sweeper(self._database, self.started(embedder)).run()

    async def vectors(self) -> dict[str, int]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select generation, count(*) as kept from embedding group by generation"
            )
        return {row["generation"]: row["kept"] for row in rows}

    async def last_seen_an_hour_ago(self, *embedders: OpenAIEmbedder) -> None:
        async with self._database.begin() as tx:
            await tx.execute(
                "update vector_generation set seen_at = seen_at - interval '1 hour',"
                " placed_at = placed_at - interval '1 hour' where name = any(%s)",
                ([one.generation for one in embedders],),
            )

    async def known(self) -> set[str]:
        async with self._database.read() as tx:
            return {row["name"] for row in await tx.fetch_all("select name from vector_generation")}


@pytest.fixture
def workers(bench: Bench, endpoint: Endpoint, database: Database) -> Workers:
    return Workers(bench, endpoint, database)


async def test_a_worker_with_the_former_model_undoes_nothing_and_what_it_writes_is_not_lost(
    workers: Workers, database: Database
):
    old, new = workers.serving(workers.former), workers.serving(workers.next)
    memory = old.memory()
    await old.state(memory, ZEBRA)
    for n in range(5):
        await old.state(memory, f"The enclosure number {n} opens at ten.")
    assert await workers.vectors() == {workers.former.generation: 6}
    await workers.sweep(workers.next)
    assert await workers.vectors() == {workers.next.generation: 6}
    asked = len(workers.endpoint.requests)
    for embedder in (workers.former, workers.next, workers.former, workers.next):
        await workers.sweep(embedder)
    assert await workers.vectors() == {workers.next.generation: 6}
    assert len(workers.endpoint.requests) == asked
    late = workers.serving(workers.former)
    await late.state(memory, "The lion enclosure opens at noon.")
    assert await workers.vectors() == {workers.next.generation: 6}
    shown = await Lateness(database).measure()
    assert (shown.waiting, shown.generation) == (1, workers.next.generation)
    for subject in (late, new):
        answer = await subject.ask(memory, "lion", limit=1)
        assert (found(answer), answer.degraded) == (["The lion enclosure opens at noon."], (PENDING,))
    await workers.sweep(workers.next)
    assert await workers.vectors() == {workers.next.generation: 7}
    answer = await new.ask(memory, "striped", limit=1)
    assert (found(answer), answer.degraded) == ([ZEBRA], ())
    by_words = await late.ask(memory, "zebra", limit=1)
    assert (found(by_words), by_words.degraded) == ([ZEBRA], (PENDING,))


async def test_a_worker_that_has_not_heard_of_the_newer_model_yet_is_caught_up_with(workers: Workers):
    old, new = workers.serving(workers.former), workers.serving(workers.next)
    memory = old.memory()
    await old.state(memory, "The lion enclosure opens at noon.")
    await workers.sweep(workers.next)
    await old.state(memory, ZEBRA)
    assert await workers.vectors() == {workers.former.generation: 1, workers.next.generation: 1}
    answer = await new.ask(memory, "zebra", limit=1)
    assert (found(answer), answer.degraded) == ([ZEBRA], (PENDING,))
    await workers.sweep(workers.next)
    assert await workers.vectors() == {workers.next.generation: 2}
    answer = await new.ask(memory, "striped", limit=1)
    assert (found(answer), answer.degraded) == ([ZEBRA], ())


async def test_the_former_model_is_taken_up_again_once_nobody_has_the_newer_one(
    workers: Workers, database: Database
):
    memory = workers.serving(workers.former).memory()
    await workers.serving(workers.former).state(memory, ZEBRA)
    await workers.sweep(workers.next)
    former, newer = workers.started(workers.former, GIVEN_UP_S), workers.started(workers.next, GIVEN_UP_S)
    loop = asyncio.get_running_loop()
    began = loop.time()
    while loop.time() < began + 2 * GIVEN_UP_S:
        assert await newer.generations.tell()
        assert not await former.generations.tell()
        await asyncio.sleep(GIVEN_UP_S / 20)
    for _ in range(400):
        if await former.generations.tell():
            break
        await asyncio.sleep(0.05)
    await Sweeper(database, former).run()
    assert await workers.vectors() == {workers.former.generation: 1}
    assert not await newer.generations.tell()
    await workers.sweep(workers.next)
    assert await workers.vectors() == {workers.former.generation: 1}
    answer = await workers.serving(workers.former).ask(memory, "striped", limit=1)
    assert (found(answer), answer.degraded) == ([ZEBRA], ())


async def test_a_worker_takes_nothing_over_before_it_has_heard_of_nobody_for_long_enough(workers: Workers):
    """All are started at once after a night: those with the newer model may only be slower."""
    assert await workers.started(workers.former).generations.tell()
    assert await workers.started(workers.next).generations.tell()
    await workers.last_seen_an_hour_ago(workers.former, workers.next)
    assert not await workers.started(workers.former).generations.tell()
    assert await workers.started(workers.next).generations.tell()


async def test_a_model_that_was_given_up_counts_as_new_when_it_comes_back(workers: Workers):
    asleep = workers.serving(workers.former)
    memory = asleep.memory()
    await asleep.state(memory, ZEBRA)
    await workers.sweep(workers.next)
    assert await workers.known() == {workers.former.generation, workers.next.generation}
    await workers.last_seen_an_hour_ago(workers.former, workers.next)
    await workers.sweep(workers.next)
    assert await workers.known() == {workers.next.generation}
    # One that slept through all of it had made no new choice.
    assert isinstance(asleep.adapter, NativeProvider)
    assert not await asleep.adapter.generations.tell()
    await workers.last_seen_an_hour_ago(workers.former)
    await workers.sweep(workers.next)
    assert await workers.known() == {workers.next.generation}
    await workers.sweep(workers.former)
    assert await workers.vectors() == {workers.former.generation: 1}


async def test_what_was_dropped_is_not_looked_for_again_while_old_workers_live(
    workers: Workers, database: Database
):
    old = workers.serving(workers.former)
    await old.state(old.memory(), ZEBRA)
    newer = workers.started(workers.next)
    await Sweeper(database, newer).run()
    assert (await newer.generations.leaving()).names == [workers.former.generation]
    await workers.last_seen_an_hour_ago(workers.next)
    assert await newer.generations.tell()
    await Sweeper(database, newer).run()
    assert (await newer.generations.leaving()).names == []
    assert await workers.known() == {workers.former.generation, workers.next.generation}


async def test_a_model_that_was_left_and_taken_up_again_is_left_for_a_third_one(
    workers: Workers, database: Database
):
    old = workers.serving(workers.former)
    await old.state(old.memory(), ZEBRA)
    await workers.sweep(workers.next)
    await workers.last_seen_an_hour_ago(workers.next)
    newer = workers.started(workers.next)
    await Sweeper(database, newer).run()
    assert (await newer.generations.leaving()).names == []
    await workers.last_seen_an_hour_ago(workers.next)
    former = workers.started(workers.former, given_up_s=0.05)
    for _ in range(400):
        if await former.generations.tell():
            break
        await asyncio.sleep(0.05)
    await Sweeper(database, former).run()
    assert await workers.vectors() == {workers.former.generation: 1}
    assert await workers.known() == {workers.former.generation}
    third = workers.endpoint.embedder("third-53", 53)
    await workers.sweep(third)
    assert await workers.vectors() == {third.generation: 1}
