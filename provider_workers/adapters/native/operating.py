"""Operations of extension types (section 8): what a type defines, and what is built in."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from psycopg import sql

from provider_workers.adapters.native import calendar
from provider_workers.adapters.native.builtin import EVENT
from provider_workers.adapters.native.keys import Claim
from provider_workers.adapters.native.reading import Reading
from provider_workers.adapters.native.rows import stated
from provider_workers.adapters.native.writing import Writing
from provider_workers.domain import checks, errors
from provider_workers.domain.model import Draft, Operate, Operated, Record, Stamp
from service_kit.attributes import definition, projection
from service_kit.db.pool import Database
from service_kit.db.tx import Row
from service_kit.json_schema import json_schema

__all__ = ["Operating"]

MAX_EVENTS: Final = 10_000
"""Events of one memory that slots are computed of."""


class Operating:
    """Reads are computed of the memory as it stands, writes are one new version under the record's lock."""

    def __init__(self, database: Database, reading: Reading, writing: Writing) -> None:
        self._database = database
        self._reading = reading
        self._writing = writing

    async def operate(self, memory_id: str, record_id: str, asked: Operate, stamp: Stamp) -> Operated:
        name = asked.operation.name
        if asked.operation.requires == "read":
            record = await self._reading.get(memory_id, record_id, None)
            if record.type != asked.type:
                raise errors.record_not_found()
            if (asked.type, name) != (EVENT, "free_slots"):
                raise errors.unsupported(f"the operation {name}")
            return Operated(record, await self._free_slots(record, asked.input))
        claimed = Claim(stamp, "operate", memory_id, f"{record_id}\0{name}")
        effect = _effect(asked)
        return Operated(
            await self._writing.change(
                claimed, record_id, asked.expected_version, lambda row: _after(row, asked, effect)
            )
        )

    async def _free_slots(self, record: Record, given: bytes) -> bytes:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                sql.SQL(
                    "select record_id, attributes from version where memory_id = %s and type = %s"
                    " and type like 'x.%%' and invalidated_at is null and record_id <> %s limit %s"
                ),
                (record.memory_id, EVENT, record.id, MAX_EVENTS + 1),
            )
        if len(rows) > MAX_EVENTS:
            raise errors.too_large(f"Slots are computed of at most {MAX_EVENTS} events.", "memory_id")

        def computed() -> bytes:
            others = [calendar.event_of(row["record_id"], bytes(row["attributes"])) for row in rows]
            return calendar.free_slots(calendar.event_of(record.id, record.attributes), others, given)

        return await asyncio.to_thread(computed)


def _effect(asked: Operate) -> Callable[[bytes], bytes]:
    """What the operation does to attributes. The moment it sets is one, however often it is computed."""
    if asked.operation.definition:
        defined, now = definition(asked.operation.definition, "definition"), datetime.now(UTC)
        return lambda attributes: defined.apply(attributes, asked.input, now)
    if (asked.type, asked.operation.name) == (EVENT, "reschedule"):
        return lambda attributes: calendar.reschedule(attributes, asked.input)
    raise errors.unsupported(f"the operation {asked.operation.name}")


def _after(row: Row, asked: Operate, effect: Callable[[bytes], bytes]) -> Draft:
    """The record as the operation leaves it."""
    if row["type"] != asked.type:
        raise errors.record_not_found()
    before = stated(row)
    attributes = effect(before.attributes)
    checks.attributes(attributes)
    if asked.schema:
        json_schema(asked.schema, "schema").check(attributes, "attributes")
    return replace(before, attributes=attributes, projection=projection(attributes, asked.projection))
