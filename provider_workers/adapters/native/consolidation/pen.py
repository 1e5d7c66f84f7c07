"""What a run writes: each record in a transaction of its own, if it is still as the run had read it.

The run's row is locked first and must still be this process's; then the records, in order. Nothing is held while
vectors are made. Whatever was revised, closed or erased meanwhile is left alone.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from provider_workers.adapters.native.consolidation.runs import WRITER
from provider_workers.adapters.native.generations import Generation
from provider_workers.adapters.native.moments import now
from provider_workers.adapters.native.rows import NewVersion, append, close, hold_sources
from provider_workers.domain.model import Status
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx

__all__ = ["LOST", "LostError", "Pen", "copy_version"]

MERGED: Final = "duplicate_of"
REPLACED: Final = "superseded_by"
"""How a record that a run closed points at the one that stands for it."""


class LostError(Exception):
    """The run is another process's by now, or gone with its memory: nothing more is written."""


LOST: Final = "the run is not this process's any more"


@dataclass(frozen=True, slots=True)
class Pen:
    """Writes for one taking of one run."""

    database: Database
    generation: Generation
    memory_id: str
    run_id: str
    epoch: int

    async def hold(self, tx: Tx) -> Row:
        """The run's row, locked. Raises :class:`LostError`."""
        row = await tx.fetch_one(
            "select * from consolidation where memory_id = %s and run_id = %s and epoch = %s"
            " and status = 'running' for update",
            (self.memory_id, self.run_id, self.epoch),
        )
        if row is None:
            raise LostError(LOST)
        return row

    async def replace(self, closed: Row, kept: Row, reason: str) -> bool:
        """Close a record in favour of another: a last version points there, and is superseded. False when one of
        them is not as it was read.
        """
        async with self.database.begin() as tx:
            await self.hold(tx)
            if not await self._unchanged(tx, closed, kept):
                return False
            at = await now(tx, self.memory_id, closed["written_at"], kept["written_at"])
            await close(tx, self.memory_id, closed["record_id"], Status.SUPERSEDED, at)
            rel = REPLACED if reason == "changed" else MERGED
            link = {"rel": rel, "memory_id": self.memory_id, "record_id": kept["record_id"]}
            references = [*msgspec.json.decode(closed["refs"]), link]
            await copy_version(
                tx,
                (self.memory_id, closed["record_id"], closed["version"]),
                closed["version"] + 1,
                at,
                {
                    "status": "superseded",
                    "invalidated_at": at.isoformat(),
                    "refs": f"\\x{msgspec.json.encode(references).hex()}",
                    "writer_kind": WRITER.kind,
                    "writer_id": WRITER.id,
                },
            )
            change = ("superseded", reason, closed["version"] + 1, closed["version"])
            await self._note(tx, closed["record_id"], change, kept["record_id"], at)
        return True

    async def forget(self, closed: Row, reason: str) -> bool:
        """Close a record for good reason; False when it is not as it was read."""
        async with self.database.begin() as tx:
            await self.hold(tx)
            if not await self._unchanged(tx, closed):
                return False
            at = await now(tx, self.memory_id, closed["written_at"])
            await close(tx, self.memory_id, closed["record_id"], Status.FORGOTTEN, at)
            change = ("forgotten", reason, closed["version"], closed["version"])
            await self._note(tx, closed["record_id"], change, None, at)
        return True

    async def create(self, tx: Tx, new: NewVersion, replaces: Row | None) -> None:
        """Write a record of the run's own, in the place of an older one if there is one. The caller holds the run
        and what it replaces.
        """
        await hold_sources(tx, [new.draft])
        if replaces is not None:
            await close(tx, self.memory_id, replaces["record_id"], Status.SUPERSEDED, new.written_at)
            change = ("superseded", "summary", replaces["version"], replaces["version"])
            await self._note(tx, replaces["record_id"], change, None, new.written_at)
        await append(tx, [new], self.generation)
        if replaces is not None:
            await tx.execute(
                "update consolidation_change set other_id = %s where memory_id = %s and run_id = %s and record_id = %s",
                (new.record_id, self.memory_id, self.run_id, replaces["record_id"]),
            )
        await self._note(tx, new.record_id, ("created", "summary", 1, 1), None, new.written_at)

    async def _unchanged(self, tx: Tx, *records: Row) -> bool:
        """Lock records in order; whether each is at the version that was read, and current."""
        rows = await tx.fetch_all(
            "select record_id from record where memory_id = %s and record_id = any(%s)"
            " order by record_id for no key update",
            (self.memory_id, [one["record_id"] for one in records]),
        )
        if len(rows) < len(records):
            return False
        versions = await tx.fetch_all(
            "select record_id, version from version where memory_id = %s and record_id = any(%s)"
            " and invalidated_at is null",
            (self.memory_id, [one["record_id"] for one in records]),
        )
        current = {row["record_id"]: row["version"] for row in versions}
        return all(current.get(one["record_id"]) == one["version"] for one in records)

    async def _note(
        self, tx: Tx, record_id: str, change: tuple[str, str, int, int], other: str | None, at: datetime
    ) -> None:
        await tx.execute(
            "insert into consolidation_change (memory_id, run_id, record_id, change, reason, version, before, other_id, at)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (self.memory_id, self.run_id, record_id, *change, other, at),
        )
        await tx.execute(
            "update consolidation set created = created + %s, superseded = superseded + %s,"
            " forgotten = forgotten + %s where memory_id = %s and run_id = %s",
            (
                *(int(change[0] == kind) for kind in ("created", "superseded", "forgotten")),
                self.memory_id,
                self.run_id,
            ),
        )


async def copy_version(
    tx: Tx, of: tuple[str, str, int], version: int, at: datetime, differing: dict[str, object]
) -> None:
    """Append a copy of a version, with its vectors and files, but for what differs (columns as JSON)."""
    changed = {"version": version, "written_at": at.isoformat(), "forgotten_at": None, **differing}
    await tx.execute(
        "insert into version select n.* from version v, jsonb_populate_record(v, %s::jsonb) n"
        " where v.memory_id = %s and v.record_id = %s and v.version = %s",
        (msgspec.json.encode(changed).decode(), *of),
    )
    closed = changed.get("invalidated_at")
    await tx.execute(
        "insert into embedding (memory_id, record_id, version, generation, dimension, invalidated_at, vector)"
        " select memory_id, record_id, %s, generation, dimension, %s::timestamptz, vector from embedding"
        " where memory_id = %s and record_id = %s and version = %s",
        (version, closed, *of),
    )
    await tx.execute(
        "insert into unembedded (memory_id, record_id, version) select memory_id, record_id, %s from unembedded"
        " where memory_id = %s and record_id = %s and version = %s",
        (version, *of),
    )
    await tx.execute(
        "insert into version_file (memory_id, record_id, version, file_id)"
        " select memory_id, record_id, %s, file_id from version_file"
        " where memory_id = %s and record_id = %s and version = %s",
        (version, *of),
    )
