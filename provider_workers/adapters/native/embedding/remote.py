"""The embedder of a deployment with an OpenAI-compatible embeddings service."""

from collections.abc import Sequence
from math import ceil
from typing import Final

import msgspec
import numpy as np

from provider_workers.adapters.native.embedding.encoder import Vector, pool
from provider_workers.adapters.native.endpoint import Caller, RetryPolicy
from provider_workers.adapters.native.observed import observed
from service_kit import semconv
from service_kit.errors import GroveError

__all__ = ["OpenAIEmbedder"]

_MAX_BATCH: Final = 64
# Windows of text: about 1,500 tokens of English and at most 6,000 of anything, under the usual limit of
# 8,191; a record's vector speaks of its first ten.
_WINDOW: Final = 6_000
_MAX_WINDOWS: Final = 10


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


class OpenAIEmbedder:
    """:class:`~provider_workers.adapters.native.embedding.embedder.Embedder` over ``POST /embeddings``."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        dimension: int,
        api_key: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.generation: str = f"openai:{model}:{dimension}:v1"
        self.dimension: int = dimension
        self._model = model
        self._caller = Caller(
            f"{base_url.rstrip('/')}/embeddings",
            name="embedding service",
            api_key=api_key,
            retry=retry or RetryPolicy(),
        )

    async def warm(self) -> None:
        """Nothing: a service that is away at start may be back at the first call."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        windows = [_windows(text) for text in texts]
        flat = [window for group in windows for window in group]
        batches = [flat[at : at + _MAX_BATCH] for at in range(0, len(flat), _MAX_BATCH)]
        with observed(semconv.EMBEDDINGS, "openai", self._model, self.dimension):
            answers = iter([vector for batch in batches for vector in await self._batch(batch)])
        return [pool([next(answers) for _ in group], [len(window) for window in group]) for group in windows]

    async def aclose(self) -> None:
        await self._caller.aclose()

    async def _batch(self, texts: Sequence[str]) -> list[Vector]:
        """One request's worth."""
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        return self._read(await self._caller.post(body), len(texts))

    def _read(self, body: bytes, count: int) -> list[Vector]:
        """The vectors in the order asked for, checked, made unit vectors."""
        try:
            items = msgspec.json.decode(body, type=_Answer).data
        except msgspec.MsgspecError:
            raise _unavailable("The embedding service gave an answer that cannot be read.") from None
        if sorted(item.index for item in items) != list(range(count)):
            raise _unavailable("The embedding service did not answer for every text.")
        if any(len(item.embedding) != self.dimension for item in items):
            raise _unavailable(f"The embedding service's vectors do not have {self.dimension} dimensions.")
        vectors = np.array(
            [item.embedding for item in sorted(items, key=lambda item: item.index)], dtype=np.float32
        )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms).all() and (norms > 0).all()):
            raise _unavailable("The embedding service gave a vector without a direction.")
        return list(vectors / norms)


def _windows(text: str) -> list[str]:
    """Even windows of a text; a service refuses an empty one, so a dash stands for it."""
    clean = text.encode("utf-8", "replace").decode().strip()[: _WINDOW * _MAX_WINDOWS] or "-"
    size = ceil(len(clean) / ceil(len(clean) / _WINDOW))
    return [clean[at : at + size] for at in range(0, len(clean), size)]


def _unavailable(message: str) -> GroveError:
    return GroveError("memory_unavailable", message)
