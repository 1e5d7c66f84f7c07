"""Vectors: made in bounded time, written as text Postgres reads, and caught up on when they are late."""

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Final

from psycopg import sql

from provider_workers.adapters.native import voice
from provider_workers.adapters.native.embedding.embedder import Embedder
from provider_workers.adapters.native.embedding.encoder import Vector
from provider_workers.adapters.native.endpoint import AwayError
from provider_workers.adapters.native.generations import Generation, Generations
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.errors import GroveError

__all__ = ["Sweeper", "Vector", "Vectors", "literal", "store"]

_BATCH: Final = 32
_MAX_FAILURES: Final = 3
_PATIENCE_S: Final = 60.0
_RENEWED: Final = 1_000
_RENEW_S: Final = 60.0

_Key = tuple[str, str, int, str]
"""Memory, record, version and generation of a vector."""

_log: Final = logging.getLogger(__name__)


def literal(vector: Vector) -> str:
    """A vector as ``halfvec`` reads it; a half holds three to four digits."""
    return "[" + ",".join(f"{value:.5g}" for value in vector.tolist()) + "]"


class Vectors:
    """The embedder, with a limit to how long anybody waits for it, and its generation among those of all workers.

    One that did not answer three times in a row is left alone for ``rest_s``: whoever asks meanwhile goes on at
    once without a vector, and the first to ask afterwards tries it.
    """

    def __init__(
        self, embedder: Embedder, timeout_s: float, generations: Generations, rest_s: float = 5.0
    ) -> None:
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._rest_s = rest_s
        self._unanswered = 0
        self._rests_until = 0.0
        self.generations: Generations = generations
        self.generation: Generation = generations.own

    @property
    def away(self) -> bool:
        """Whether the embedder left the last one who asked without an answer."""
        return self._unanswered > 0

    async def of(self, text: str) -> Vector | None:
        """A text's vector, or None when it cannot be had in time: whoever asks goes on without."""
        if self._unanswered >= _MAX_FAILURES:
            if monotonic() < self._rests_until:
                return None
            self._rests_until = monotonic() + self._rest_s
        found = await self.of_all([text], self._timeout_s)
        return None if found is None else found[0]

    async def to_keep(self, text: str) -> Vector | None:
        """The same for what is to be kept: None too where a newer model is in use, whose workers make it."""
        return await self.of(text) if await self.generations.newest() else None

    async def all_to_keep(self, texts: Sequence[str]) -> list[Vector] | None:
        """:meth:`of_all`, likewise."""
        return await self.of_all(texts) if await self.generations.newest() else None

    async def of_all(self, texts: Sequence[str], timeout_s: float = _PATIENCE_S) -> list[Vector] | None:
        """The texts' vectors, or None. It asks however often the embedder did not answer."""
        if not texts:
            return []
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._embedder.embed(texts)
        except AwayError as error:
            self._unheard(error.message)
        except GroveError as error:
            _log.warning("no vectors now: %s", error.message)
        except TimeoutError:
            self._unheard(f"none within {timeout_s:.1f} s")
        else:
            self._unanswered = 0
            return found
        return None

    def _unheard(self, why: str) -> None:
        _log.warning("no vectors now: %s", why)
        self._unanswered += 1
        self._rests_until = monotonic() + self._rest_s


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
        self._generations = vectors.generations

    async def run(self) -> None:
        """One pass, by a worker with the newest model; another leaves everything to those. An attempt is counted
        before it is made: text that makes the embedder fail goes to the end of the line, where it is tried alone.
        """
        await self._generations.tell()
        failures, renew_at = 0, 0.0
        while failures < _MAX_FAILURES and await self._generations.newest():
            # A pass over many takes hours, and workers that had not heard of this model may have written meanwhile.
            if monotonic() >= renew_at:
                await self._renew()
                renew_at = monotonic() + _RENEW_S
            batch = await self._next()
            if not batch:
                return
            await self._count_attempt(batch)
            vectors = await self._vectors.of_all([voice.embedded(row) for row in batch])
            if vectors is None:
                failures += 1
                continue
            async with self._database.begin() as tx:
                await store(tx, batch, vectors, self._vectors.generation)

    async def _next(self) -> list[Row]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                sql.SQL(
                    "select u.memory_id, u.record_id, u.version, u.attempts, {}"
                    " from unembedded u join version v using (memory_id, record_id, version)"
                    " order by u.attempts, u.memory_id, u.record_id, u.version limit %s"
                ).format(sql.SQL(voice.COLUMNS)),
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
        """Put every version with a vector of another generation in line; words find it meanwhile. A batch is a
        transaction, and what is done is gone: a walk that is killed is begun again by the next.
        """
        leaving = await self._generations.leaving()
        if not leaving.names:
            return
        name, after, total, whole = self._vectors.generation.name, ("", "", 0, ""), 0, True
        while batch := await self._walk(after):
            old = [key for key in batch if key[3] != name]
            dropped = await self._outdate(old)
            total, whole, after = total + dropped, whole and dropped == len(old), batch[-1]
        if whole:
            await self._generations.left(leaving)
        if total:
            _log.warning("the embedding model changed: %d versions get new vectors in the background", total)

    async def _walk(self, after: _Key) -> list[_Key]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select memory_id, record_id, version, generation from embedding"
                " where (memory_id, record_id, version, generation) > (%s, %s, %s, %s)"
                " order by memory_id, record_id, version, generation limit %s",
                (*after, _RENEWED),
            )
        return [(row["memory_id"], row["record_id"], row["version"], row["generation"]) for row in rows]

    async def _outdate(self, keys: Sequence[_Key]) -> int:
        """Put versions in line and drop their vectors. A version is held before its vector, as an erase holds
        them; one that is gone, or under an erase, is left to it.
        """
        if not keys:
            return 0
        memory_ids, record_ids, versions, generations = (list(part) for part in zip(*keys, strict=True))
        async with self._database.begin() as tx:
            return await tx.fetch_value(
                "with old as (select v.memory_id, v.record_id, v.version, k.generation from version v"
                " join unnest(%s::text[], %s::text[], %s::int[], %s::text[])"
                " k (memory_id, record_id, version, generation) using (memory_id, record_id, version)"
                " for key share of v skip locked),"
                " gone as (delete from embedding e using old where e.memory_id = old.memory_id"
                " and e.record_id = old.record_id and e.version = old.version and e.generation = old.generation"
                " returning e.memory_id, e.record_id, e.version),"
                " waiting as (insert into unembedded (memory_id, record_id, version)"
                " select distinct memory_id, record_id, version from gone where not exists (select 1"
                " from embedding n where n.memory_id = gone.memory_id and n.record_id = gone.record_id"
                " and n.version = gone.version and n.generation = %s) on conflict do nothing)"
                " select count(*) from gone",
                (memory_ids, record_ids, versions, generations, self._vectors.generation.name),
            )
