"""The native provider on an embeddings endpoint over HTTP that dies, hangs, comes back, or gives way to another."""

import asyncio
from collections.abc import Callable, Sequence

import psycopg
import pytest
from pydantic import SecretStr

from provider_workers.adapters.native import vectors as module
from provider_workers.adapters.native.adapter import Options
from provider_workers.adapters.native.embedding.remote import OpenAIEmbedder
from provider_workers.adapters.native.lateness import Lateness
from provider_workers.adapters.native.vectors import Sweeper
from provider_workers.settings import Settings
from service_kit.db.pool import Database, connect
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import Subject, episode, found
from tests.fixtures.embeddings import Endpoint, vectors_of

PENDING, AWAY = "query:embedding_pending", "query:embedding_unavailable"
ZEBRA = "The zebra enclosure opens at nine."


async def sweep(database: Database, embedder: OpenAIEmbedder) -> None:
    await Sweeper(database, vectors_of(database, embedder, 0.3)).run()


def native(bench: Bench, embedder: OpenAIEmbedder) -> Subject:
    return bench.native(embedder=embedder, options=Options(embed_timeout_s=0.3))


async def test_an_endpoint_that_dies_and_returns_loses_no_write_and_no_vector(
    bench: Bench, endpoint: Endpoint, database: Database
):
    embedder = endpoint.embedder("model-97", 97)
    subject = native(bench, embedder)
    memory = subject.memory()
    await endpoint.die()
    await subject.state(memory, ZEBRA)
    job = await subject.observe(memory, episode("The lion enclosure opens at ten."))
    assert (job.status, len(job.records)) == ("completed", 2)
    meanwhile = await subject.ask(memory, "zebra")
    assert (found(meanwhile), meanwhile.degraded) == ([ZEBRA], (AWAY,))
    assert (await Lateness(database).measure()).waiting == 3
    await endpoint.start()
    await sweep(database, embedder)
    assert (await Lateness(database).measure()).waiting == 0
    back = await native(bench, embedder).ask(memory, "striped", limit=1)
    assert (found(back), back.degraded) == ([ZEBRA], ())


async def test_an_endpoint_that_hangs_costs_its_timeout_three_times_and_not_at_every_call(
    endpoint: Endpoint, database: Database
):
    endpoint.hang_after = 0
    vectors = vectors_of(database, endpoint.embedder("model-97", 97), 0.1, rest_s=0.5)
    for _ in range(3):
        assert await vectors.of("zebra") is None
    async with asyncio.timeout(0.1):
        for _ in range(50):
            assert await vectors.of("zebra") is None
    assert len(endpoint.requests) == 3
    endpoint.let_go.set()
    for _ in range(500):
        if await vectors.of("zebra") is not None:
            break
        await asyncio.sleep(0.02)
    assert len(endpoint.requests) == 4
    assert await vectors.of("lion") is not None


async def test_a_text_the_endpoint_refuses_is_no_sign_that_it_is_away(endpoint: Endpoint, database: Database):
    vectors = vectors_of(database, endpoint.embedder("model-97", 96), 0.3, rest_s=60)
    for _ in range(5):
        assert await vectors.of("zebra") is None
    assert len(endpoint.requests) == 5


@pytest.mark.parametrize("killed", ["while vectors are dropped", "while vectors are made"])
async def test_another_model_that_is_interrupted_goes_on_from_what_is_left(
    bench: Bench, endpoint: Endpoint, database: Database, monkeypatch: pytest.MonkeyPatch, killed: str
):
    monkeypatch.setattr(module, "_RENEWED", 4)
    monkeypatch.setattr(module, "_BATCH", 4)
    first, second = endpoint.embedder("model-97", 97), endpoint.embedder("other-61", 61)
    before, after = native(bench, first), native(bench, second)
    memory = before.memory()
    await sweep(database, first)
    for n in range(10):
        await before.state(memory, f"The enclosure number {n} opens at ten.")
    await before.state(memory, ZEBRA)

    async def words_find_it() -> None:
        answer = await after.ask(memory, "zebra", limit=1)
        assert (found(answer), answer.degraded) == ([ZEBRA], (PENDING,))

    await words_find_it()
    await _interrupted(endpoint, database, second, killed)
    left = {first.generation: 7} if "dropped" in killed else {second.generation: 4}
    assert await _generations(database) == left
    await words_find_it()
    await sweep(database, second)
    assert await _generations(database) == {second.generation: 11}
    answer = await after.ask(memory, "striped", limit=1)
    assert (found(answer), answer.degraded) == ([ZEBRA], ())
    assert len((await after.ask(memory, "enclosure", limit=20)).hits) == 11


async def _interrupted(endpoint: Endpoint, database: Database, embedder: OpenAIEmbedder, killed: str) -> None:
    """A pass that ends as a process does: in its second batch, without a chance to tidy."""
    if "dropped" in killed:
        sweeper, walked = Sweeper(database, vectors_of(database, embedder, 0.3)), 0
        real = sweeper._outdate

        async def once(keys: Sequence[tuple[str, str, int, str]]) -> int:
            nonlocal walked
            walked += 1
            if walked == 2:
                raise RuntimeError("killed here")
            return await real(keys)

        sweeper._outdate = once
        with pytest.raises(RuntimeError, match="killed here"):
            await sweeper.run()
        return
    endpoint.hang_after = len(endpoint.requests) + 1
    running = asyncio.create_task(sweep(database, embedder))
    async with asyncio.timeout(10):
        await endpoint.hanging.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    endpoint.hang_after = None
    endpoint.let_go.set()


async def _generations(database: Database) -> dict[str, int]:
    async with database.read() as tx:
        rows = await tx.fetch_all("select generation, count(*) as kept from embedding group by generation")
    return {row["generation"]: row["kept"] for row in rows}


async def test_counting_what_waits_outlives_a_schema_that_is_not_there_yet(
    service_database: Callable[[str], str],
):
    settings = Settings(database_url=SecretStr(service_database("authz")))
    async with connect(settings, "authz") as without:
        with pytest.raises(psycopg.errors.UndefinedTable):
            await Lateness(without).measure()
        watching = asyncio.create_task(Lateness(without, 0.01).watch())
        done, _ = await asyncio.wait([watching], timeout=0.3)
        assert not done
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
