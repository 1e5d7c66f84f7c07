"""The port through which the native provider turns text into vectors, and the choice of who does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from provider_workers.adapters.native.embedding.encoder import Vector
from provider_workers.adapters.native.embedding.files import default_model_dir
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from provider_workers.adapters.native.embedding.remote import OpenAIEmbedder

__all__ = ["Embedder", "Endpoint", "make_embedder"]


class Embedder(Protocol):
    """Turns text into vectors.

    ``generation`` names model, dimension and preprocessing. It is stored with each vector; vectors of two
    generations are never compared. ``dimension`` is the length of every vector.
    """

    @property
    def generation(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    async def warm(self) -> None:
        """Make ready for the first call. Raises ``ModelFilesError`` when the local model is not built."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector per text, in order; any text has one, the empty one too.

        Raises :class:`~service_kit.errors.GroveError` ``memory_unavailable`` when no vector can be had
        now; the caller goes on with the other signals and says so.
        """
        ...

    async def aclose(self) -> None:
        """Release threads and connections. No call may follow."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible embeddings service. ``base_url`` ends before ``/embeddings``."""

    base_url: str
    model: str
    dimension: int
    api_key: str | None = None


def make_embedder(
    *, endpoint: Endpoint | None = None, model_dir: Path | None = None, threads: int = 1
) -> Embedder:
    """The endpoint when there is one, else the model built into ``model_dir``."""
    if endpoint is None:
        return LocalEmbedder(model_dir or default_model_dir(), threads=threads)
    return OpenAIEmbedder(
        endpoint.base_url, endpoint.model, dimension=endpoint.dimension, api_key=endpoint.api_key
    )
