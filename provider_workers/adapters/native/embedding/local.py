"""The embedder of a deployment without an embeddings service: the built encoder on threads of its own."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from provider_workers.adapters.native.embedding.encoder import Encoder, Vector
from provider_workers.adapters.native.embedding.files import GENERATION, ModelFilesError
from provider_workers.adapters.native.observed import observed
from service_kit import semconv
from service_kit.errors import GroveError

__all__ = ["LocalEmbedder", "TextEncoder"]

_log: Final = logging.getLogger(__name__)


class TextEncoder(Protocol):
    """What runs on the threads."""

    def encode(self, text: str) -> Vector:
        """The vector of one text; called from several threads at once."""
        ...


class LocalEmbedder:
    """:class:`~provider_workers.adapters.native.embedding.embedder.Embedder` in this process.

    Nothing of it runs on the event loop. Callers take turns text by text, so a long backlog delays a single
    query by one text of each caller ahead, not by the backlog.
    """

    generation: str = GENERATION
    dimension: int = 384

    def __init__(
        self,
        directory: Path,
        *,
        threads: int = 1,
        max_pending: int = 4096,
        load: Callable[[Path], TextEncoder] = Encoder,
    ) -> None:
        """``threads`` compute in parallel; with ``max_pending`` texts waiting, calls are refused."""
        self._directory = directory
        self._load_encoder = load
        self._threads = threads
        self._max_pending = max_pending
        self._pending: int = 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="embed")
        self._loading: asyncio.Task[TextEncoder] | None = None

    async def warm(self) -> None:
        """Load the model and run it once. Raises ``ModelFilesError``."""
        encoder = await self._encoder()
        await asyncio.get_running_loop().run_in_executor(self._executor, encoder.encode, "warm")

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self._pending >= self._max_pending:
            raise GroveError("memory_unavailable", "Too much text is waiting to be embedded.")
        self._pending += len(texts)
        try:
            with observed(semconv.EMBEDDINGS, "grovekeeper", self.generation, self.dimension):
                return await self._embed(texts)
        finally:
            self._pending -= len(texts)

    async def aclose(self) -> None:
        """Drop what waits, end the threads once they finish the text at hand, and let go of the model's memory."""
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)
            self._loading = None
        await asyncio.to_thread(partial(self._executor.shutdown, wait=True, cancel_futures=True))

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        try:
            encoder = await self._encoder()
        except ModelFilesError:
            _log.exception("no text can be embedded")
            raise GroveError("memory_unavailable", "Text cannot be embedded on this server.") from None
        vectors = list[Vector | None]([None] * len(texts))
        lanes = (range(lane, len(texts), self._threads) for lane in range(self._threads))
        await asyncio.gather(*(self._lane(encoder, texts, lane, vectors) for lane in lanes))
        return [vector for vector in vectors if vector is not None]

    async def _lane(
        self, encoder: TextEncoder, texts: Sequence[str], places: Sequence[int], vectors: list[Vector | None]
    ) -> None:
        """Some of one caller's texts in turn, so that it never holds more than a place per thread in the queue."""
        loop = asyncio.get_running_loop()
        for place in places:
            vectors[place] = await loop.run_in_executor(self._executor, encoder.encode, texts[place])

    async def _encoder(self) -> TextEncoder:
        """The loaded model; the first to ask loads it, the others wait for the same load."""
        if self._loading is None or (self._loading.done() and self._failed(self._loading)):
            self._loading = asyncio.create_task(self._load())
        return await asyncio.shield(self._loading)

    async def _load(self) -> TextEncoder:
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._load_encoder, self._directory
        )

    @staticmethod
    def _failed(task: asyncio.Task[TextEncoder]) -> bool:
        return task.cancelled() or task.exception() is not None
