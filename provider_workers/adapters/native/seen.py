"""What one search may see, asked as often as its parts need it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from psycopg import sql

from provider_workers.adapters.native.lexemes import Search
from provider_workers.adapters.native.reading import filtered
from provider_workers.adapters.native.scope import Arguments, Scope, scope
from service_kit.db.tx import Row, Tx

__all__ = ["BEST", "Keys", "Seen", "Spread", "keys_of"]

BEST: Final = 400
"""So many of the best by one signal are ranked."""

_AT_LARGE: Final = {
    # The best plan depends on how many memories there are and on how common the words, ...
    "plan_cache_mode": "force_custom_plan",
    # ... and none is worth reading what is everybody's, whatever share of it the memories are taken for.
    "enable_seqscan": "off",
    "jit": "off",
    "work_mem": "32MB",
}

Keys = list[tuple[str, str, int]]
"""Versions by memory, record and number."""

Spread = list[tuple[str, float]]
"""Places spread evenly over versions: a memory, and one's place in it, from 0 for the oldest to 1 for the newest."""


class Seen:
    """The versions of one search, within one transaction."""

    def __init__(self, tx: Tx, search: Search) -> None:
        self._tx = tx
        self.search: Search = search

    def scope(self, bind: Arguments, memory_ids: Sequence[str] | None = None) -> Scope:
        """The condition on ``v`` of what it may see, in all its memories or in some of them."""
        asked = self.search.memory_ids if memory_ids is None else memory_ids
        return scope(asked, self.search.question.selection, bind)

    async def fetch(self, statement: sql.Composed, bind: Arguments) -> list[Row]:
        """The rows of a statement over :meth:`scope`."""
        return await filtered(self._tx, statement, bind, self.search.question.selection)

    def at_large(self) -> AbstractAsyncContextManager[None]:
        """For statements over very many memories or records."""
        return self._tx.planning(**_AT_LARGE)

    async def count(self, most: int) -> int:
        """How many there are; no more than ``most`` are counted."""
        bind = Arguments()
        statement = sql.SQL(
            "select count(*) as held from (select from version v where {} limit {}) counted"
        ).format(self.scope(bind).condition, sql.Literal(most))
        return (await self.fetch(statement, bind))[0]["held"]

    async def spread(self, places: int) -> tuple[int, Spread]:
        """How many there are, and so many places spread over them: a memory has as many as its share of them is."""
        bind = Arguments()
        statement = sql.SQL(
            "with each_memory as (select v.memory_id, count(*)::float8 as held from version v where {} group by 1),"
            " placed as (select memory_id, held, sum(held) over (order by memory_id) as upto,"
            " sum(held) over () as total from each_memory)"
            " select memory_id, total, floor((place + 0.5) * total / {places} - (upto - held))"
            " / greatest(held - 1, 1) as part"
            " from placed cross join lateral generate_series("
            "ceil((upto - held) * {places} / total - 0.5)::int, ceil(upto * {places} / total - 0.5)::int - 1) place"
        ).format(self.scope(bind).condition, places=sql.Literal(places))
        rows = await self.fetch(statement, bind)
        return int(rows[0]["total"]) if rows else 0, [(row["memory_id"], row["part"]) for row in rows]

    async def newest(self, holds: sql.Composable, bind: Arguments) -> Keys:
        """The newest for which this holds."""
        statement = sql.SQL(
            "select v.memory_id, v.record_id, v.version from version v where {} and {}"
            " order by v.created_at desc, v.record_id desc, v.version desc limit {}"
        ).format(self.scope(bind).condition, holds, sql.Literal(BEST))
        return keys_of(await self.fetch(statement, bind))


def keys_of(rows: Sequence[Row]) -> Keys:
    """The versions of these rows."""
    return [(row["memory_id"], row["record_id"], row["version"]) for row in rows]
