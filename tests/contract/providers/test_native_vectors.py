"""The native provider when vectors are late, impossible, or of another model: said, and caught up with."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from provider_workers.adapters.native.adapter import Options
from provider_workers.adapters.native.embedding.encoder import Vector
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from provider_workers.adapters.native.vectors import Sweeper
from provider_workers.domain.model import Include, Stamp
from service_kit.db.pool import Database
from service_kit.errors import GroveError
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import ALICE, Subject, episode, found
from tests.fixtures.embeddings import vectors_of

PENDING = "query:embedding_pending"


class Moody:
    """An embedder that fails when told to: always (``down``), or for texts with a certain word."""

    dimension: int = 384

    def __init__(self, real: LocalEmbedder, generation: str | None = None) -> None:
        self.generation: str = generation or real.generation
        self.down: bool = False
        self.slow: bool = False
        self.hates: str | None = None
        self.asked: int = 0
        self.texts: list[str] = []
        self._real = real

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += 1
        if self.slow:
            await asyncio.Event().wait()
        if self.down or (self.hates and any(self.hates in text for text in texts)):
            raise GroveError("memory_unavailable", "The embedding service did not answer.")
        self.texts += texts
        return await self._real.embed(texts)


@pytest.fixture
def moody(encoder: LocalEmbedder) -> Moody:
    return Moody(encoder)


@pytest.fixture
def native(bench: Bench, moody: Moody) -> Subject:
    return bench.native(embedder=moody, options=Options(embed_timeout_s=0.2))


def sweeper(database: Database, moody: Moody) -> Sweeper:
    return Sweeper(database, vectors_of(database, moody, 0.2))


@pytest.mark.parametrize("trouble", ["down", "slow"])
async def test_a_record_without_a_vector_is_kept_found_by_its_words_and_said_to_be_late(
    native: Subject, moody: Moody, database: Database, trouble: str
):
    memory = native.memory()
    setattr(moody, trouble, True)
    await native.state(memory, "The zebra enclosure opens at nine.")
    asked_meanwhile = await native.ask(memory, "when does the zebra wake?")
    assert found(asked_meanwhile) == ["The zebra enclosure opens at nine."]
    assert asked_meanwhile.degraded == ("query:embedding_unavailable",)
    setattr(moody, trouble, False)
    late = await native.ask(memory, "zebra")
    assert (found(late), late.degraded) == (["The zebra enclosure opens at nine."], (PENDING,))
    assert (await native.ask(memory, "striped animals")).hits == ()
    assert (await native.ask(memory, text="zebra")).degraded == ()
    await sweeper(database, moody).run()
    answer = await native.ask(memory, "striped animals")
    assert (found(answer), answer.degraded) == (["The zebra enclosure opens at nine."], ())


@pytest.mark.parametrize(
    ("attributes", "embedded"),
    [
        (b'{"speaker": " Ana\\n"}', "Ana moved to Oslo."),
        (b'{"speaker": "Ana Maria"}', "Ana Maria moved to Oslo."),
        (b'{"speaker": {"name": "Ana"}}', "I moved to Oslo."),
        (b'{"speaker": 7}', "I moved to Oslo."),
        (b"{}", "I moved to Oslo."),
    ],
    ids=str,
)
async def test_a_vector_made_late_is_of_the_same_text_as_one_made_at_once(
    native: Subject, moody: Moody, database: Database, attributes: bytes, embedded: str
):
    memory = native.memory()
    await native.state(memory, "I moved to Oslo.", attributes)
    moody.down = True
    await native.state(memory, "I moved to Oslo.", attributes)
    moody.down = False
    await sweeper(database, moody).run()
    at_once, late = moody.texts
    assert at_once.endswith(embedded)
    assert late == at_once


async def test_only_records_in_reach_of_the_question_are_said_to_be_late(native: Subject, moody: Moody):
    mine, theirs = native.memory(), native.memory()
    await native.state(mine, "The zebra enclosure opens at nine.")
    moody.down = True
    await native.state(theirs, "The lion enclosure opens at ten.")
    gone = await native.state(mine, "The bear enclosure opens at ten.")
    await native.forget(gone)
    moody.down = False
    assert (await native.ask(mine, "zebra")).degraded == ()
    assert (await native.ask([mine, theirs], "zebra")).degraded == (PENDING,)
    assert (await native.ask(mine, "bear", include=Include.ALL)).degraded == (PENDING,)


async def test_an_observe_is_derived_from_while_the_embedder_is_away(
    native: Subject, moody: Moody, database: Database
):
    memory = native.memory()
    moody.down = True
    job = await native.observe(memory, episode("The zebra enclosure opens at nine. It closes at five."))
    assert (job.status, len(job.records)) == ("completed", 3)
    moody.down = False
    assert (await native.ask(memory, "striped animals")).degraded == (PENDING,)
    await sweeper(database, moody).run()
    answer = await native.ask(memory, "striped animals")
    assert (len(answer.hits), answer.degraded) == (3, ())


async def test_one_text_the_embedder_cannot_take_holds_up_no_other(
    native: Subject, moody: Moody, database: Database
):
    memory = native.memory()
    moody.down = True
    for text in ("The lion enclosure opens.", "This one is poison.", "The zebra enclosure opens."):
        await native.state(memory, text)
    moody.down, moody.hates = False, "poison"
    for _ in range(3):
        await sweeper(database, moody).run()
    answer = await native.ask(memory, "striped animals", limit=2)
    assert set(found(answer)) == {"The lion enclosure opens.", "The zebra enclosure opens."}
    assert answer.degraded == (PENDING,)
    moody.hates = None
    await sweeper(database, moody).run()
    assert (await native.ask(memory, "striped animals")).degraded == ()


async def test_a_sweep_gives_up_for_now_when_the_embedder_stays_away(
    native: Subject, moody: Moody, database: Database
):
    moody.down = True
    for n in range(5):
        await native.state(native.memory(), f"The enclosure number {n} opens.")
    before = moody.asked
    await sweeper(database, moody).run()
    assert moody.asked - before == 3


async def test_another_model_is_never_compared_with_and_replaces_every_vector(
    bench: Bench, database: Database, encoder: LocalEmbedder
):
    first, second = Moody(encoder, "first"), Moody(encoder, "second")
    await sweeper(database, first).run()
    before, after = bench.native(embedder=first), bench.native(embedder=second)
    memory = before.memory()
    one = await before.state(memory, "The lion enclosure opens at eight.")
    await before.revise(one, "The zebra enclosure opens at nine.")
    assert (await after.ask(memory, "striped animals")).hits == ()
    assert found(await after.ask(memory, "zebra")) == ["The zebra enclosure opens at nine."]
    await sweeper(database, second).run()
    answer = await after.ask(memory, "striped animals", include=Include.ALL)
    assert (len(answer.hits), answer.degraded) == (2, ())
    async with database.read() as tx:
        kept = await tx.fetch_all("select distinct generation from embedding")
    assert kept == [{"generation": "second"}]


async def test_a_vector_erased_while_it_was_made_is_not_written(
    native: Subject, moody: Moody, database: Database
):
    memory = native.memory()
    moody.down = True
    one = await native.state(memory, "The zebra enclosure opens at nine.")
    moody.down = False
    real = moody.embed

    async def slowly(texts: Sequence[str]) -> list[Vector]:
        await native.adapter.erase(memory, [one.id], Stamp(ALICE))
        return await real(texts)

    moody.embed = slowly
    await sweeper(database, moody).run()
    async with database.read() as tx:
        assert await tx.fetch_value("select count(*) from embedding where memory_id = %s", (memory,)) == 0


async def test_vectors_of_any_length_are_kept_and_searched(bench: Bench):
    class Wide:
        generation: str = "wide"
        dimension: int = 3072

        async def warm(self) -> None: ...

        async def aclose(self) -> None: ...

        async def embed(self, texts: Sequence[str]) -> list[Vector]:
            made = [np.zeros(self.dimension, dtype=np.float32) for _ in texts]
            for vector, text in zip(made, texts, strict=True):
                vector[len(text)] = 1.0
            return made

    wide = bench.native(embedder=Wide())
    memory = wide.memory()
    for text in ("four", "sixsix"):
        await wide.state(memory, text)
    assert found(await wide.ask(memory, "abcd", limit=1)) == ["four"]
