"""What a run looks for: the same stated twice, sentences close to one another, and what has ended.

What was reverted once is not done again: a record that a reversal made current is passed over.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from psycopg import sql

from service_kit.db.pool import Database
from service_kit.db.tx import Row

__all__ = ["MERGED", "MOST_COMPARED", "SETTLED", "close_pairs", "expired", "stated_twice"]

MOST_COMPARED: Final = 20_000
"""Derived facts, the newest, that a new one is compared with."""

MERGED: Final = ("fact", "note", "procedure", "link")
"""Types of records that may be stated twice."""

SETTLED: Final[LiteralString] = (
    " not exists (select from consolidation_change c join consolidation r using (memory_id, run_id)"
    " where c.memory_id = v.memory_id and c.record_id = v.record_id and r.reverted_at is not null)"
)
"""No run that touched the record ``v`` was reverted."""

_SELECT: Final[LiteralString] = (
    "select v.memory_id, v.record_id, v.version, v.type, v.refs, v.text, v.written_at, v.created_at, v.valid_from"
)


async def stated_twice(database: Database, memory_id: str, digests: Sequence[bytes]) -> list[tuple[Row, Row]]:
    """Of records with these digests: (the later one, the oldest of its equals). Equal is what the same writer stated
    with the same type, content, attributes, references and validity.
    """
    async with database.read() as tx:
        rows = await tx.fetch_all(
            sql.SQL(
                "{select}, {settled} as settled, first_value(v.record_id) over same as oldest"
                " from version v where v.memory_id = %s and v.invalidated_at is null and not v.derived"
                " and v.type in ('fact', 'note', 'procedure', 'link') and v.digest = any(%s)"
                " window same as (partition by v.type, v.digest, v.content, v.attributes, v.refs, v.valid_from, v.valid_to,"
                " v.supersedes, v.writer_kind, v.writer_id order by v.created_at, v.record_id)"
                " order by v.created_at, v.record_id limit 10000"
            ).format(select=sql.SQL(_SELECT), settled=sql.SQL(SETTLED)),
            (memory_id, list(digests)),
        )
    by_id = {row["record_id"]: row for row in rows}
    return [
        (row, by_id[row["oldest"]])
        for row in rows
        if row["record_id"] != row["oldest"] and row["settled"] and row["oldest"] in by_id
    ]


async def close_pairs(
    database: Database,
    memory_id: str,
    record_ids: Sequence[str],
    generation: str,
    least: float,
    *,
    newer: bool = False,
) -> list[tuple[Row, Row, float]]:
    """Derived facts of one speaker and subject, one of them of these: (the later, the older, their cosine of at least
    ``least``), the oldest of these first and for each the closest first. Of those newer than one of these only with
    ``newer``: as a rule they are compared when they are read themselves.
    """
    async with database.read() as tx:
        rows = await tx.fetch_all(
            sql.SQL(
                "with facts as materialized (select v.record_id, v.created_at, e.vector,"
                " v.attributes_json->>'speaker' as speaker, v.attributes_json->>'subject' as subject"
                " from version v join embedding e using (memory_id, record_id, version)"
                " where v.memory_id = %(memory)s and v.derived and v.type = 'fact' and v.invalidated_at is null"
                " and v.valid_to is null and e.generation = %(generation)s and {settled}"
                " order by v.created_at desc, v.record_id desc limit %(most)s)"
                " select n.record_id as one, o.record_id as other, o.cosine"
                " from facts n cross join lateral (select f.record_id, 1 - (n.vector <=> f.vector) as cosine from facts f"
                " where f.record_id <> n.record_id and (%(newer)s or (f.created_at, f.record_id) < (n.created_at, n.record_id))"
                " and f.speaker is not distinct from n.speaker and f.subject is not distinct from n.subject"
                " and 1 - (n.vector <=> f.vector) >= %(least)s order by n.vector <=> f.vector limit 16) o"
                " where n.record_id = any(%(records)s) order by n.created_at, n.record_id, o.cosine desc"
            ).format(settled=sql.SQL(SETTLED)),
            {
                "memory": memory_id,
                "generation": generation,
                "most": MOST_COMPARED,
                "least": least,
                "newer": newer,
                "records": list(record_ids),
            },
        )
        ids = sorted({row[name] for row in rows for name in ("one", "other")})
        read = await tx.fetch_all(
            _SELECT + " from version v where v.memory_id = %s and v.record_id = any(%s)"
            " and v.invalidated_at is null",
            (memory_id, ids),
        )
    facts = {row["record_id"]: row for row in read}
    pairs = [
        (facts[row["one"]], facts[row["other"]], row["cosine"])
        for row in rows
        if row["one"] in facts and row["other"] in facts
    ]
    return [
        (one, other, cosine) if _written(one) > _written(other) else (other, one, cosine)
        for one, other, cosine in pairs
    ]


def _written(fact: Row) -> tuple[datetime, str]:
    return fact["created_at"], fact["record_id"]


async def expired(database: Database, memory_id: str, at: datetime, limit: int) -> list[Row]:
    """What was still to hold when it was written and has ended by ``at``. What was written as past stays."""
    async with database.read() as tx:
        return await tx.fetch_all(
            _SELECT
            + " from version v where v.memory_id = %s and v.invalidated_at is null and v.valid_to <= %s"
            " and v.valid_to > v.written_at and v.type in ('fact', 'note', 'procedure', 'link')"
            " and" + SETTLED + " order by v.valid_to, v.record_id limit %s",
            (memory_id, at, limit),
        )
