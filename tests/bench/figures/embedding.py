"""The embedder against the bare model: what threads, queueing and tokenising cost beside computing."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np

from provider_workers.adapters.native.embedding.encoder import open_session
from provider_workers.adapters.native.embedding.files import default_model_dir, read_model
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from tests.bench.bench import Bench
from tests.bench.figure import Figure, Window
from tests.bench.measure import Plan, compare, throughput

__all__ = ["embed"]

_TEXTS = [
    f"On day {n} Alice told the team that the billing migration moved to Thursday, because the upgrade of "
    "the database in Frankfurt took longer than planned."
    for n in range(16)
]


async def embed(_bench: Bench) -> AsyncIterator[Figure]:
    """Texts of about 36 tokens, one thread."""
    directory = default_model_dir()
    _, model, _ = read_model(directory)
    session = open_session(model)
    embedder = LocalEmbedder(directory, threads=1)
    tokens = np.arange(1000, 1036, dtype=np.int64)[None]

    def run_bare() -> None:
        for _ in _TEXTS:
            session.run(None, {"input_ids": tokens})

    async def bare() -> Window:
        return _texts(await throughput([lambda: asyncio.to_thread(run_bare)], 1.0))

    async def whole() -> Window:
        return _texts(await throughput([lambda: embedder.embed(_TEXTS)], 1.0))

    try:
        yield await compare(
            Plan(
                "embedding.throughput",
                "embedding, 36 tokens, one thread",
                "texts/s",
                "the model alone",
                "more",
                note=f"generation {embedder.generation}",
            ),
            bare,
            whole,
        )
    finally:
        await embedder.aclose()


def _texts(window: Window) -> Window:
    return Window(window.value * len(_TEXTS), window.count * len(_TEXTS))
