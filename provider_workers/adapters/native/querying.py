"""Queries in SQL: the rows of one memory are read here, and carried into the container where the statement runs."""

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, LiteralString

import msgspec
from psycopg import sql

from provider_workers.adapters.native.rows import COLUMNS, record_of
from provider_workers.container.container import Container
from provider_workers.container.messages import Answer, Ask, Table, Value
from provider_workers.domain import errors
from provider_workers.domain.model import Capabilities, Record
from provider_workers.domain.queries import Answered, Asked
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.errors import GroveError

__all__ = ["Querying"]

RECORD_COLUMNS: Final = (
    *("id", "type", "content", "attributes", "version", "status", "supersedes", "valid_from", "valid_to"),
    *("written_at", "writer_kind", "writer_id"),
)
"""A result that has these columns and no others, each row as its record has it, is records."""
VERSION_COLUMNS: Final = (*RECORD_COLUMNS, "invalidated_at")
REFERENCE_COLUMNS: Final = ("record_id", "version", "rel", "memory_id", "target_record_id")

_SOFT: Final = 0.85
"""The share of a query's time after which it is asked to stop, so that it can still say what it has."""
_row: Final = msgspec.json.Decoder(list[object])

Loaded = tuple[list[Table], list[str]]


class Querying:
    """``rows`` and ``bytes_read`` bound what of a memory is carried into the container, the newest first."""

    def __init__(
        self, database: Database, container: Container, document: Capabilities, *, rows: int, bytes_read: int
    ) -> None:
        self.capabilities: Capabilities = document
        self._database = database
        self._container = container
        self._rows = rows
        self._bytes = bytes_read

    async def query(self, memory_id: str, asked: Asked) -> Answered:
        tables, capped = await self._tables(memory_id, asked)
        limits = self._container.limits
        answer = await self._container.run(
            asked.whose,
            Ask(
                asked.statement,
                dict(asked.params),
                tables,
                limits.rows,
                limits.bytes,
                limits.heap_bytes,
                limits.query_s * _SOFT,
                lenient=asked.absent_is_null,
                check=asked.check,
            ),
        )
        if answer.error:
            raise errors.invalid_content(answer.error, "statement")
        degraded = (*capped, *self._bounds(answer))
        rows = [_cells(line, len(answer.columns)) for line in answer.rows]
        if not asked.check and sorted(answer.columns) == sorted(RECORD_COLUMNS):
            records = await self._records(memory_id, answer.columns, rows)
            if records is not None:
                return Answered(records, degraded=degraded)
        return Answered(None, tuple(answer.columns), tuple(answer.rows), degraded)

    async def referenced_memories(self, memory_id: str) -> tuple[str, ...]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select distinct one ->> 'memory_id' as memory_id from version v,"
                " jsonb_array_elements(convert_from(v.refs, 'UTF8')::jsonb) one"
                " where v.memory_id = %s and v.refs <> '[]' order by 1 limit %s",
                (memory_id, self._rows),
            )
        return tuple(row["memory_id"] for row in rows if row["memory_id"] != memory_id)

    def _bounds(self, answer: Answer) -> list[str]:
        limits = self._container.limits
        values = {
            "rows": str(limits.rows),
            "bytes": str(limits.bytes),
            "time": f"{limits.query_s * 1000:.0f}_ms",
            "memory": f"{limits.heap_bytes // 2**20}_mib",
        }
        return [f"{bound}:capped_at_{values[bound]}" for bound in answer.bounds if bound in values]

    async def _tables(self, memory_id: str, asked: Asked) -> Loaded:
        """The tables the statement can name, as far as it names them; of those the others are empty."""
        wants = _Wants(asked)
        records, versions, references = list[Row](), list[Row](), list[Row]()
        capped = list[str]()
        async with self._database.read(snapshot=True) as tx:
            if wants.records:
                records, more = await self._read(tx, memory_id, " and v.invalidated_at is null")
                capped += [f"records:capped_at_{len(records)}"] if more else []
            if wants.versions or wants.references:
                found, more = await self._read(tx, memory_id, "")
                versions, references = found if wants.versions else [], found if wants.references else []
                capped += [f"versions:capped_at_{len(found)}"] if more else []
        made = await asyncio.to_thread(
            lambda: [
                Table("records", RECORD_COLUMNS, [_record(row) for row in records]),
                Table("versions", VERSION_COLUMNS, [_version(row) for row in versions]),
                Table("references", REFERENCE_COLUMNS, _references(references, memory_id, asked.readable)),
            ]
        )
        return made, capped

    async def _read(self, tx: Tx, memory_id: str, condition: LiteralString) -> tuple[list[Row], bool]:
        """The newest versions within the bounds, and whether there are more."""
        rows = await tx.fetch_all(
            sql.SQL(
                "select * from (select page.*, sum(size) over (order by created_at desc, record_id desc,"
                " version desc) as running from (select {columns}, v.size from version v"
                " where v.memory_id = %s{condition}"
                " order by v.created_at desc, v.record_id desc, v.version desc limit %s) page) sized"
                " where running <= %s order by created_at desc, record_id desc, version desc"
            ).format(columns=sql.SQL(COLUMNS), condition=sql.SQL(condition)),
            (memory_id, self._rows + 1, self._bytes),
        )
        if len(rows) > self._rows:
            return rows[: self._rows], True
        held = await tx.fetch_value(
            sql.SQL(
                "select count(*) from (select 1 from version v where v.memory_id = %s{condition} limit %s) held"
            ).format(condition=sql.SQL(condition)),
            (memory_id, self._rows + 1),
        )
        return rows, held > len(rows)

    async def _records(
        self, memory_id: str, columns: Sequence[str], rows: Sequence[list[object]]
    ) -> tuple[Record, ...] | None:
        """The records of the result, in its order. They are read again, and a row that does not say what its record
        says makes the whole result rows: it is the statement's own.
        """
        where = [columns.index(name) for name in RECORD_COLUMNS]
        said = [tuple(row[at] for at in where) for row in rows]
        async with self._database.read() as tx:
            found = await tx.fetch_all(
                sql.SQL(
                    "select {columns} from version v where v.memory_id = %s and v.record_id = any(%s)"
                    " and v.invalidated_at is null"
                ).format(columns=sql.SQL(COLUMNS)),
                (memory_id, sorted({str(one[0]).replace("\0", "") for one in said})),
            )
        held: dict[tuple[object, ...], Record] = {_record(row): record_of(row) for row in found}
        if any(one not in held for one in said):
            return None
        return tuple(held[one] for one in said)


class _Wants:
    """Which tables a statement can name: a word that stands nowhere in it names nothing."""

    def __init__(self, asked: Asked) -> None:
        def named(word: str) -> bool:
            return not asked.check and re.search(word, asked.statement, re.IGNORECASE) is not None

        self.records = named("records")
        self.versions = named("versions")
        self.references = named("references")


def _cells(line: bytes, width: int) -> list[object]:
    """A row of the container's. What comes out of one is not believed: a row is a JSON array of cells, or nothing is."""
    try:
        cells = _row.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        cells = []
    if len(cells) != width:
        raise GroveError("grovekeeper_unavailable", "The query broke off; try again.")
    return cells


def _record(row: Row) -> tuple[Value, ...]:
    record = record_of(row)
    return (
        record.id,
        record.type,
        "\n\n".join(part.text for part in record.content if part.text),
        record.attributes.decode() or "{}",
        record.version,
        str(record.status),
        record.supersedes or None,
        _instant(record.valid_from),
        _instant(record.valid_to),
        _instant(record.written_at),
        record.written_by.kind,
        record.written_by.id,
    )


def _version(row: Row) -> tuple[Value, ...]:
    return (*_record(row), _instant(row["invalidated_at"]))


def _references(rows: Sequence[Row], memory_id: str, readable: frozenset[str]) -> list[tuple[Value, ...]]:
    """What may not be followed says where it points and nothing else (section 4.2)."""
    return [
        (
            record.id,
            record.version,
            one.rel if one.memory_id == memory_id or one.memory_id in readable else None,
            one.memory_id,
            one.record_id,
        )
        for record in map(record_of, rows)
        for one in record.references
    ]


def _instant(moment: datetime | None) -> str | None:
    """As SQLite's functions of time read it, and in the order of time."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
