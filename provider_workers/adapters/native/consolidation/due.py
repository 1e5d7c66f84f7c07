"""Which memories are due for a run by themselves.

Writers note nothing: a sweep finds what was written since the last one by an index over the order in which rows lie,
and keeps one row for each memory with news. A run that has read them takes the row away.
"""

from dataclasses import dataclass
from typing import Final

from provider_workers.domain.consolidations import Due
from service_kit.db.pool import Database
from service_kit.db.tx import Tx

__all__ = ["Dues", "When", "settled"]

_OVERLAP_S: Final = 120.0
"""Longer than a write takes from its moment to its commit."""
_LOOKED_AT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """``every_h``: after news, a run within so many hours (0: never). ``idle_min``: a run after so many minutes without
    a write (0: never), if there are ``idle_episodes`` new ones. ``at_once``: runs that work at a time.
    """

    every_h: float = 0.0
    idle_min: float = 0.0
    idle_episodes: int = 50
    at_once: int = 2


class Dues:
    """Answers which memories to start a run in now."""

    def __init__(self, database: Database, when: When) -> None:
        self._database = database
        self._when = when

    async def due(self) -> list[Due]:
        """The longest waiting first, at most as many as may work at once beside those that do."""
        when = self._when
        if not (when.every_h or when.idle_min):
            return []
        async with self._database.begin() as tx:
            await self._sweep(tx)
            room = when.at_once - await tx.fetch_value(
                "select count(*) from consolidation where status in ('queued', 'running')"
            )
            found = dict[str, str]()
            if when.every_h and room > 0:
                found |= await self._scheduled(tx, room)
            if when.idle_min and room > len(found):
                found = {**await self._idle(tx, room - len(found)), **found}
        return [Due(memory_id, trigger) for memory_id, trigger in found.items()]

    async def _sweep(self, tx: Tx) -> None:
        before = await tx.fetch_value("select at from consolidation_sweep for update")
        await tx.execute(
            "insert into consolidation_due (memory_id, since, changed_at)"
            " select memory_id, min(created_at), max(created_at) from version"
            " where created_at > %(before)s::timestamptz - make_interval(secs => %(overlap)s)"
            " and writer_kind <> 'consolidator'"
            # What a run has read by now is no news, though the sweep looks back a little.
            " and not exists (select from consolidation c where c.memory_id = version.memory_id"
            " and c.through >= version.created_at) group by memory_id"
            " on conflict (memory_id) do update set changed_at = excluded.changed_at"
            " where consolidation_due.changed_at < excluded.changed_at",
            {"before": before, "overlap": _OVERLAP_S},
        )
        await tx.execute("update consolidation_sweep set at = clock_timestamp()")

    async def _scheduled(self, tx: Tx, room: int) -> dict[str, str]:
        rows = await tx.fetch_all(
            "select memory_id from consolidation_due d where since < now() - make_interval(secs => %s)"
            " and not exists (select from consolidation c where c.memory_id = d.memory_id"
            " and (c.status in ('queued', 'running') or c.created_at > now() - make_interval(secs => %s)))"
            " order by since, memory_id limit %s",
            (self._when.every_h * 3600, self._when.every_h * 3600, room),
        )
        return {row["memory_id"]: "schedule" for row in rows}

    async def _idle(self, tx: Tx, room: int) -> dict[str, str]:
        """Looks at each quiet memory once after it fell quiet."""
        rows = await tx.fetch_all(
            "select d.memory_id, (select count(*) from (select from version v where v.memory_id = d.memory_id"
            " and v.invalidated_at is null and v.type = 'episode' and v.created_at > coalesce((select max(c.through)"
            " from consolidation c where c.memory_id = d.memory_id), '-infinity') limit %(least)s) e) >= %(least)s as enough"
            " from consolidation_due d where d.changed_at > d.checked_at"
            " and d.changed_at < now() - make_interval(secs => %(quiet)s)"
            " and not exists (select from consolidation c where c.memory_id = d.memory_id"
            " and c.status in ('queued', 'running')) order by d.changed_at, d.memory_id limit %(looked_at)s",
            {
                "least": self._when.idle_episodes,
                "quiet": self._when.idle_min * 60,
                "looked_at": _LOOKED_AT,
            },
        )
        enough = [row["memory_id"] for row in rows if row["enough"]][:room]
        others = [row["memory_id"] for row in rows if not row["enough"]]
        await tx.execute(
            "update consolidation_due set checked_at = clock_timestamp() where memory_id = any(%s)", (others,)
        )
        return dict.fromkeys(enough, "idle")


async def settled(tx: Tx, memory_id: str, run_id: str) -> None:
    """A run ended: what it has read is no news any more; after a failure the memory waits for other news."""
    await tx.execute(
        "delete from consolidation_due d using consolidation c where d.memory_id = %s and c.memory_id = d.memory_id"
        " and c.run_id = %s and c.status = 'completed' and d.changed_at <= c.ceiling",
        (memory_id, run_id),
    )
    await tx.execute(
        "update consolidation_due d set checked_at = clock_timestamp(), since = clock_timestamp()"
        " from consolidation c where d.memory_id = %s and c.memory_id = d.memory_id and c.run_id = %s"
        " and c.status = 'failed'",
        (memory_id, run_id),
    )
