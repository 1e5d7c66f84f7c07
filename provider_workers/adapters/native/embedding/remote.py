"""The embedder of a deployment with an OpenAI-compatible embeddings service."""

import asyncio
import logging
import random
from collections.abc import Sequence
from math import ceil
from typing import Final

import httpx
import msgspec
import numpy as np

from provider_workers.adapters.native.embedding.away import AwayError
from provider_workers.adapters.native.embedding.encoder import Vector, pool
from provider_workers.adapters.native.embedding.observed import observed
from service_kit.errors import GroveError

__all__ = ["OpenAIEmbedder", "RetryPolicy"]

_log = logging.getLogger(__name__)

_MAX_BATCH: Final = 64
# Windows of text: about 1,500 tokens of English and at most 6,000 of anything, under the usual limit of
# 8,191; a record's vector speaks of its first ten.
_WINDOW: Final = 6_000
_MAX_WINDOWS: Final = 10
_RETRYABLE: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and how patiently. Times in seconds; ``total`` bounds a batch with all its attempts."""

    attempts: int = 3
    timeout: float = 10.0
    first_wait: float = 0.25
    longest_wait: float = 4.0
    total: float = 20.0


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


class _NotNowError(Exception):
    """An attempt failed and the next may not; ``wait`` is what the service asked for."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait: float | None = wait


class OpenAIEmbedder:
    """:class:`~provider_workers.adapters.native.embedding.embedder.Embedder` over ``POST /embeddings``.

    The key travels in one header and is in no log line, error or ``repr``.
    """

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
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._retry = retry or RetryPolicy()
        self._turn = asyncio.Semaphore(8)
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.AsyncClient(headers=headers, timeout=self._retry.timeout)

    async def warm(self) -> None:
        """Nothing: a service that is away at start may be back at the first call."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        windows = [_windows(text) for text in texts]
        flat = [window for group in windows for window in group]
        batches = [flat[at : at + _MAX_BATCH] for at in range(0, len(flat), _MAX_BATCH)]
        with observed("openai", self._model, self.dimension):
            answers = iter([vector for batch in batches for vector in await self._batch(batch)])
        return [pool([next(answers) for _ in group], [len(window) for window in group]) for group in windows]

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _batch(self, texts: Sequence[str]) -> list[Vector]:
        """One request's worth, with its retries, in bounded time."""
        try:
            async with asyncio.timeout(self._retry.total), self._turn:
                return await self._attempts(texts)
        except TimeoutError:
            raise AwayError("memory_unavailable", "The embedding service did not answer in time.") from None

    async def _attempts(self, texts: Sequence[str]) -> list[Vector]:
        for attempt in range(1, self._retry.attempts + 1):
            try:
                return self._read(await self._post(texts), len(texts))
            except _NotNowError as error:
                _log.warning("embedding attempt %d failed: %s", attempt, error)
                if attempt < self._retry.attempts:
                    await asyncio.sleep(self._wait(attempt, error.wait))
        raise AwayError("memory_unavailable", "The embedding service did not answer.")

    async def _post(self, texts: Sequence[str]) -> bytes:
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        try:
            answer = await self._http.post(self._url, json=body)
        except httpx.TransportError as error:
            raise _NotNowError(type(error).__name__) from None
        if answer.status_code in _RETRYABLE:
            raise _NotNowError(f"status {answer.status_code}", _seconds(answer.headers.get("retry-after")))
        if not answer.is_success:
            _log.error("the embedding service refused with status %d", answer.status_code)
            raise _unavailable("The embedding service refused the request.")
        return answer.content

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

    def _wait(self, attempt: int, asked: float | None) -> float:
        """Exponential with jitter, or what the service asked for; never longer than the policy's."""
        backoff = self._retry.first_wait * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)
        return min(self._retry.longest_wait, backoff if asked is None else max(asked, backoff))


def _windows(text: str) -> list[str]:
    """Even windows of a text; a service refuses an empty one, so a dash stands for it."""
    clean = text.encode("utf-8", "replace").decode().strip()[: _WINDOW * _MAX_WINDOWS] or "-"
    size = ceil(len(clean) / ceil(len(clean) / _WINDOW))
    return [clean[at : at + size] for at in range(0, len(clean), size)]


def _seconds(header: str | None) -> float | None:
    """``Retry-After`` in seconds; its date form is left to the backoff."""
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None


def _unavailable(message: str) -> GroveError:
    return GroveError("memory_unavailable", message)
