"""When things happen in a memory: the moment of a write, and instants between writes that can be named.

A writer holds its memory, shared with other writers, from before it reads the clock until it commits; a
snapshot holds it alone. So no write is under way at the instant a snapshot names: all that was acknowledged
is at or before it, all that follows is after it, whatever the clock does.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from service_kit.db.pool import Database
from service_kit.db.tx import Tx

__all__ = ["TICK", "Snapshots", "now"]

TICK: Final = timedelta(microseconds=1)


async def now(tx: Tx, memory_id: str, *after: datetime | None) -> datetime:
    """The moment of a write: the database's clock, and at least a microsecond after each of ``after``: order
    within a record is the order of its locks, whatever the clock does. Taken last, after every row that the
    write waits for is locked: a snapshot that waits for this write must not be what it waits for.
    """
    at: datetime = await tx.fetch_value("select write_moment(%s)", (memory_id,))
    return max([at.astimezone(UTC), *(one.astimezone(UTC) + TICK for one in after if one is not None)])


class Snapshots:
    """Instants that can be named (section 5.3)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def snapshot(self, memory_id: str) -> datetime:
        """An instant now; see ``provider_workers.domain.ports``."""
        async with self._database.begin() as tx:
            at: datetime = await tx.fetch_value("select snapshot_moment(%s)", (memory_id,))
        return at.astimezone(UTC)
