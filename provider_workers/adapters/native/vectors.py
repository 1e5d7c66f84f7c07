"""Vectors: made in bounded time, written as text Postgres reads, and caught up on when they are late."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from provider_workers.adapters.native.embedding.embedder import Embedder
from provider_workers.adapters.native.embedding.encoder import Vector
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.errors import GroveError

__all__ = ["Generation", "Sweeper", "Vector", "Vectors", "literal", "store"]

_BATCH: Final = 32
_MAX_FAILURES: Final = 3
_PATIENCE_S: Final = 60.0

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Generation:
    """Model, dimension and preprocessing of the vectors written and searched now."""

    name: str
    dimension: int


def literal(vector: Vector) -> str:
    """A vector as ``halfvec`` reads it; a half holds three to four digits."""
    return "[" + ",".join(f"{value:.5g}" for value in vector.tolist()) + "]"


class Vectors:
    """The embedder, with a limit to how long anybody waits for it."""

    def __init__(self, embedder: Embedder, timeout_s: float) -> None:
        self._embedder = embedder
        self._timeout_s = timeout_s
        self.generation: Generation = Generation(embedder.generation, embedder.dimension)

    async def of(self, text: str) -> Vector | None:
        """A text's vector, or None when it cannot be had in time: whoever asks goes on without."""
        found = await self.of_all([text], self._timeout_s)
        return None if found is None else found[0]

    async def of_all(self, texts: Sequence[str], timeout_s: float = _PATIENCE_S) -> list[Vector] | None:
        """The texts' vectors, or None."""
        if not texts:
            return []
        try:
            async with asyncio.timeout(timeout_s):
                return await self._embedder.embed(texts)
        except GroveError as error:
            _log.warning("no vectors now: %s", error.message)
        except TimeoutError:
            _log.warning("no vectors within %.1f s", timeout_s)
        return None


async def store(tx: Tx, rows: Sequence[Row], vectors: Sequence[Vector], generation: Generation) -> None:
    """Write the vectors of versions that waited for them; one erased meanwhile is left out."""
    await tx.execute_many(
        "insert into embedding (memory_id, record_id, version, generation, dimension, invalidated_at, vector)"
        " select memory_id, record_id, version, %s, %s, invalidated_at, %s::halfvec from version"
        " where memory_id = %s and record_id = %s and version = %s for share on conflict do nothing",
        [
            (
                generation.name,
                generation.dimension,
                literal(vector),
                row["memory_id"],
                row["record_id"],
                row["version"],
            )
            for row, vector in zip(rows, vectors, strict=True)
        ],
    )
    await tx.execute_many(
        "delete from unembedded where memory_id = %s and record_id = %s and version = %s",
        [(row["memory_id"], row["record_id"], row["version"]) for row in rows],
    )


class Sweeper:
    """Gives late versions their vector, and moves all of them to a new generation when the model changes."""

    def __init__(self, database: Database, vectors: Vectors) -> None:
        self._database = database
        self._vectors = vectors

    async def run(self) -> None:
        """One pass. An attempt is counted before it is made: text that makes the embedder fail goes to the end
        of the line, where it is tried alone.
        """
        await self._renew()
        failures = 0
        while failures < _MAX_FAILURES:
            batch = await self._next()
            if not batch:
                return
            await self._count_attempt(batch)
            vectors = await self._vectors.of_all([row["prefix"] + row["text"] for row in batch])
            if vectors is None:
                failures += 1
                continue
            async with self._database.begin() as tx:
                await store(tx, batch, vectors, self._vectors.generation)

    async def _next(self) -> list[Row]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select u.memory_id, u.record_id, u.version, u.attempts, v.prefix, v.text"
                " from unembedded u join version v using (memory_id, record_id, version)"
                " order by u.attempts, u.memory_id, u.record_id, u.version limit %s",
                (_BATCH,),
            )
        return rows[:1] if rows and rows[0]["attempts"] > 0 else rows

    async def _count_attempt(self, rows: Sequence[Row]) -> None:
        async with self._database.begin() as tx:
            await tx.execute_many(
                "update unembedded set attempts = attempts + 1"
                " where memory_id = %s and record_id = %s and version = %s",
                [(row["memory_id"], row["record_id"], row["version"]) for row in rows],
            )

    async def _renew(self) -> None:
        """When the generation changed, put every version in line; words find them meanwhile."""
        name = self._vectors.generation.name
        async with self._database.begin() as tx:
            await tx.execute(
                "insert into embedding_generation (generation) values (%s) on conflict do nothing", (name,)
            )
            before = await tx.fetch_value("select generation from embedding_generation for update")
            if before == name:
                return
            await tx.execute("set local statement_timeout = 0")
            _log.warning("the embedding model changed: every record gets a new vector in the background")
            await tx.execute(
                "insert into unembedded (memory_id, record_id, version)"
                " select memory_id, record_id, version from version on conflict do nothing"
            )
            await tx.execute("delete from embedding where generation <> %s", (name,))
            await tx.execute("update embedding_generation set generation = %s", (name,))
