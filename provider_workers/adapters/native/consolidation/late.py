"""Facts that a run could not compare, because vectors were missing: kept for a later run.

A fact waits when it has no vector, or while others of its memory still get theirs; it is compared once that is over,
with what is older and what is newer. One whose vector cannot be made keeps nobody waiting.
"""

from collections.abc import Sequence
from typing import Final

from provider_workers.adapters.native.generations import Generation, outdated
from service_kit.db.tx import Tx

__all__ = ["caught_up", "compared", "put_off", "uncompared"]

_TRIES: Final = 3
"""After so many a vector is not waited for."""


async def uncompared(tx: Tx, memory_id: str, record_ids: Sequence[str], generation: Generation) -> list[str]:
    """Which of these derived facts cannot be compared with all others now."""
    if not await _settled(tx, memory_id, generation):
        return list(record_ids)
    rows = await tx.fetch_all(
        "select f.record_id from unnest(%s::text[]) f (record_id) where not exists (select from embedding e"
        " join version v using (memory_id, record_id, version) where e.memory_id = %s and e.record_id = f.record_id"
        " and e.generation = %s and v.invalidated_at is null)",
        (list(record_ids), memory_id, generation.name),
    )
    return [row["record_id"] for row in rows]


async def put_off(tx: Tx, memory_id: str, record_ids: Sequence[str]) -> None:
    """Leave these to a later run, but for what is gone meanwhile."""
    await tx.execute(
        "insert into consolidation_late (memory_id, record_id) select memory_id, record_id from record"
        " where memory_id = %s and record_id = any(%s) for key share on conflict do nothing",
        (memory_id, list(record_ids)),
    )


async def caught_up(tx: Tx, memory_id: str, generation: Generation, limit: int) -> list[str]:
    """Of what was put off the first that can be compared now."""
    rows = await tx.fetch_all(
        "select l.record_id from consolidation_late l join version v using (memory_id, record_id)"
        " where l.memory_id = %s and v.invalidated_at is null and exists (select from embedding e"
        " where e.memory_id = v.memory_id and e.record_id = v.record_id and e.version = v.version"
        " and e.generation = %s) order by v.created_at, l.record_id limit %s",
        (memory_id, generation.name, limit),
    )
    return [row["record_id"] for row in rows] if rows and await _settled(tx, memory_id, generation) else []


async def compared(tx: Tx, memory_id: str, record_ids: Sequence[str]) -> None:
    """These need no later run, nor do those that are not current any more."""
    await tx.execute(
        "delete from consolidation_late l where l.memory_id = %s and (l.record_id = any(%s) or not exists"
        " (select from version v where v.memory_id = l.memory_id and v.record_id = l.record_id"
        " and v.invalidated_at is null))",
        (memory_id, list(record_ids)),
    )


async def _settled(tx: Tx, memory_id: str, generation: Generation) -> bool:
    """Whether no current fact of the memory is about to get a vector."""
    if await outdated(tx, [memory_id], generation):
        return False
    return not await tx.fetch_value(
        "select exists (select from unembedded u join version v using (memory_id, record_id, version)"
        " where u.memory_id = %s and u.attempts < %s and v.derived and v.type = 'fact' and v.invalidated_at is null)",
        (memory_id, _TRIES),
    )
