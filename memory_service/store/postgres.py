"""Names, descriptions and providers of memories, in Postgres."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Final

from memory_service.domain.keyed import Keyed
from memory_service.domain.model import Description, Purge
from memory_service.store.keyed import KeyedTransaction
from service_kit.db import keys
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.jobs import Jobs

CLEAR: Final = "clear"
PURGE: Final = "purge"
"""The name of the job that removes a deleted memory's records."""
_PURGE_BATCH: Final = 500
_WRITTEN_BY_THEN_S: Final = 300.0
"""Longer than any write or derivation that began before a deletion takes."""


class PostgresTransaction(KeyedTransaction):
    """The verbs of ``domain.ports.Transaction``."""

    def __init__(self, tx: Tx, jobs: Jobs) -> None:
        super().__init__(tx)
        self._jobs = jobs

    async def release(self, key: Keyed) -> None:
        await keys.release(self._tx, key.principal, key.operation, key.idempotency)

    async def withdraw(self, key: Keyed) -> None:
        await keys.withdraw(self._tx, key.principal, key.operation, key.idempotency)

    async def add(self, description: Description) -> None:
        await self._tx.execute(
            "insert into memory (id, name, description, provider, created_at, updated_at)"
            " values (%(id)s, %(name)s, %(description)s, %(provider)s, %(created_at)s, %(updated_at)s)"
            " on conflict (id) do update set created_at = excluded.created_at",
            asdict(description),
        )

    async def change(
        self, memory_id: str, name: str | None, description: str | None, now: datetime
    ) -> Description | None:
        row = await self._tx.fetch_one(
            "update memory set name = coalesce(%s, name), description = coalesce(%s, description),"
            " updated_at = greatest(%s, updated_at) where id = %s"
            " returning id, name, description, provider, created_at, updated_at",
            (name, description, now, memory_id),
        )
        return None if row is None else _description(row)

    async def remove(
        self, memory_ids: Sequence[str], made_before: datetime | None = None
    ) -> tuple[Purge, ...]:
        rows = await self._tx.fetch_all(
            "delete from memory where id = any(%s) and created_at < coalesce(%s::timestamptz, 'infinity')"
            " returning id, provider",
            (list(memory_ids), made_before),
        )
        await keys.forget_memories(self._tx, [row["id"] for row in rows])
        by_provider: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            by_provider[row["provider"]].append(row["id"])
        return tuple(
            Purge(provider, tuple(ids[start : start + _PURGE_BATCH]))
            for provider, ids in by_provider.items()
            for start in range(0, len(ids), _PURGE_BATCH)
        )

    async def enqueue_purge(self, purge: Purge) -> None:
        payload = {"provider": purge.provider, "memory_ids": list(purge.memory_ids)}
        await self._jobs.defer(self._tx, PURGE, payload)
        # Once more for what was being written, rightly, while the memory was deleted.
        await self._jobs.defer(self._tx, PURGE, payload, after_s=_WRITTEN_BY_THEN_S)

    async def enqueue_clearing(self) -> None:
        # One that waits will see what this transaction follows.
        await self._jobs.defer(self._tx, CLEAR, {}, once=CLEAR)


class PostgresDescriptions:
    """The verbs of ``domain.ports.Descriptions``."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[PostgresTransaction]:
        async with self._database.begin() as tx:
            yield PostgresTransaction(tx, self._jobs)

    async def get(self, memory_ids: Sequence[str]) -> dict[str, Description]:
        if not memory_ids:
            return {}
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select id, name, description, provider, created_at, updated_at from memory"
                " where id = any(%s)",
                (list(memory_ids),),
            )
        return {row["id"]: _description(row) for row in rows}

    async def by_provider(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        # As one text each way: 100,000 ids as an array take ten times as long to write and to read.
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select provider, string_agg(id, ',') as ids from unnest(string_to_array(%s, ',')) asked (id)"
                " join memory using (id) group by provider",
                (",".join(memory_ids),),
            )
        return {row["provider"]: row["ids"].split(",") for row in rows}

    async def ids_after(self, after: str, limit: int, before: datetime) -> tuple[str, ...]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select id from memory where id > %s and created_at < %s order by id limit %s",
                (after, before, limit),
            )
        return tuple(row["id"] for row in rows)

    async def answered(self, key: Keyed) -> bytes | None:
        async with self._database.read() as tx:
            return await keys.answered(tx, key.principal, key.operation, key.idempotency)

    async def drop_old_keys(self, before: datetime) -> None:
        async with self._database.begin() as tx:
            await keys.drop_old(tx, before)


def _description(row: Row) -> Description:
    return Description(
        row["id"], row["name"], row["description"], row["provider"], row["created_at"], row["updated_at"]
    )
