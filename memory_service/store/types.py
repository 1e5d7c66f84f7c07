"""Registered types, in Postgres."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from memory_service.domain import errors
from memory_service.domain.record_types import Operation, RecordType
from memory_service.store.keyed import KeyedTransaction
from service_kit.db.pool import Database
from service_kit.db.tx import Row

_operations: Final = msgspec.json.Decoder(tuple[Operation, ...])
_LOCK: Final = 0x74797065  # "type": one registration at a time


class PostgresTypeTransaction(KeyedTransaction):
    """The verbs of ``domain.ports.TypeTransaction``."""

    async def put(self, one: RecordType, most: int) -> None:
        await self._tx.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
        kept = await self._tx.fetch_value("select count(*) from record_type where type <> %s", (one.type,))
        if kept >= most:
            raise errors.too_many_types(most)
        await self._tx.execute(
            "insert into record_type (type, description, schema, text, projection, operations)"
            " values (%s, %s, %s, %s, %s, %s) on conflict (type) do update set description = excluded.description,"
            " schema = excluded.schema, text = excluded.text, projection = excluded.projection,"
            " operations = excluded.operations, updated_at = now()",
            (
                one.type,
                one.description,
                one.schema,
                one.text,
                list(one.projection),
                msgspec.json.encode(one.operations),
            ),
        )

    async def remove(self, name: str) -> RecordType | None:
        row = await self._tx.fetch_one(
            "delete from record_type where type = %s"
            " returning type, description, schema, text, projection, operations",
            (name,),
        )
        return None if row is None else _type(row)


class PostgresTypes:
    """The verbs of ``domain.ports.TypeStore``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[PostgresTypeTransaction]:
        async with self._database.begin() as tx:
            yield PostgresTypeTransaction(tx)

    async def get(self, name: str) -> RecordType | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select type, description, schema, text, projection, operations from record_type"
                " where type = %s",
                (name,),
            )
        return None if row is None else _type(row)

    async def list(self) -> tuple[RecordType, ...]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select type, description, schema, text, projection, operations from record_type order by type"
            )
        return tuple(_type(row) for row in rows)


def _type(row: Row) -> RecordType:
    return RecordType(
        row["type"],
        row["description"],
        bytes(row["schema"]),
        row["text"],
        tuple(row["projection"]),
        _operations.decode(bytes(row["operations"])),
    )
