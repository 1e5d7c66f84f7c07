import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from provider_workers.adapters.native.embedding.embedder import Embedder, make_embedder
from provider_workers.adapters.native.embedding.encoder import Encoder, Vector
from provider_workers.adapters.native.embedding.files import GENERATION, ModelFilesError
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from service_kit.errors import GroveError


class _Held:
    """An encoder that computes nothing until the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def load(self, _directory: Path) -> "_Held":
        return self

    def encode(self, text: str) -> Vector:
        assert self.gate.wait(30)
        return np.full(3, len(text), np.float32)


@pytest_asyncio.fixture
async def embedder(model_dir: Path) -> AsyncIterator[LocalEmbedder]:
    made = LocalEmbedder(model_dir, threads=2)
    yield made
    await made.aclose()


@pytest_asyncio.fixture
async def held() -> AsyncIterator[_Held]:
    made = _Held()
    yield made
    made.gate.set()


@pytest_asyncio.fixture
async def stopped(held: _Held) -> AsyncIterator[LocalEmbedder]:
    """An embedder with room for 50 texts whose threads wait for the gate."""
    made = LocalEmbedder(Path("none"), threads=2, max_pending=50, load=held.load)
    yield made
    held.gate.set()
    await made.aclose()


async def test_vectors_come_in_the_order_of_the_texts(embedder: LocalEmbedder, encoder: Encoder) -> None:
    texts = [f"note number {n} about {topic}" for n, topic in enumerate(["tea", "rain", "trains"] * 7)]
    vectors = await embedder.embed(texts)
    assert len(vectors) == len(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.array_equal(vector, encoder.encode(text))


async def test_no_texts_give_no_vectors(embedder: LocalEmbedder) -> None:
    assert await embedder.embed([]) == []


async def test_what_it_says_of_itself_is_what_the_model_says(
    embedder: LocalEmbedder, encoder: Encoder
) -> None:
    assert embedder.generation == GENERATION == encoder.manifest.generation
    assert embedder.dimension == encoder.manifest.dimension


async def test_the_event_loop_runs_on_while_text_is_embedded(stopped: LocalEmbedder, held: _Held) -> None:
    waiting = asyncio.create_task(stopped.embed(["held"] * 20))
    await asyncio.sleep(0)  # the loop turns although every embedding thread is held
    assert not waiting.done()
    held.gate.set()
    assert len(await waiting) == 20


async def test_a_query_does_not_wait_for_a_backlog(embedder: LocalEmbedder) -> None:
    await embedder.warm()
    backlog = asyncio.create_task(embedder.embed(["a long list of things to embed " * 20] * 45))
    await asyncio.sleep(0)
    await embedder.embed(["a query"])
    assert not backlog.done()
    assert len(await backlog) == 45


async def test_calls_are_refused_when_too_much_waits(stopped: LocalEmbedder, held: _Held) -> None:
    waiting = asyncio.create_task(stopped.embed(["held"] * 50))
    await asyncio.sleep(0)
    with pytest.raises(GroveError) as refused:
        await stopped.embed(["one more"])
    assert refused.value.code == "memory_unavailable"
    assert refused.value.retryable
    held.gate.set()
    await waiting
    assert len(await stopped.embed(["room again"])) == 1


async def test_a_cancelled_call_gives_its_place_back(stopped: LocalEmbedder, held: _Held) -> None:
    waiting = asyncio.create_task(stopped.embed(["held"] * 50))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held.gate.set()
    assert len(await stopped.embed(["after"])) == 1


async def test_concurrent_first_calls_load_the_model_once(held: _Held) -> None:
    loads: list[Path] = []

    def load(directory: Path) -> _Held:
        loads.append(directory)
        return held

    held.gate.set()
    made = LocalEmbedder(Path("here"), load=load)
    await asyncio.gather(*(made.embed([f"text {n}"]) for n in range(5)))
    await made.aclose()
    assert loads == [Path("here")]


async def test_a_closed_embedder_holds_no_model() -> None:
    loaded = list[weakref.ref[_Held]]()

    def load(_directory: Path) -> _Held:
        model = _Held()
        model.gate.set()
        loaded.append(weakref.ref(model))
        return model

    made = LocalEmbedder(Path("here"), load=load)
    await made.embed(["text"])
    assert loaded[0]() is not None
    await made.aclose()
    gc.collect()
    assert loaded[0]() is None


async def test_a_model_that_is_not_built_is_found_at_start_and_works_once_it_is(
    model_dir: Path, tmp_path: Path
) -> None:
    place = tmp_path / "model"
    made = LocalEmbedder(place)
    with pytest.raises(ModelFilesError, match="build_model"):
        await made.warm()
    with pytest.raises(GroveError) as refused:
        await made.embed(["now"])
    assert refused.value.code == "memory_unavailable"
    place.symlink_to(model_dir)
    assert len(await made.embed(["now"])) == 1
    await made.aclose()


async def test_without_an_endpoint_the_local_model_is_made(model_dir: Path) -> None:
    made: Embedder = make_embedder(model_dir=model_dir)
    await made.warm()
    assert (await made.embed(["text"]))[0].shape == (made.dimension,)
    await made.aclose()
