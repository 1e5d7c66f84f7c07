"""What destroys: erase, of records with what was derived from them or stands behind them, and purge, of a memory's all.

Rows are deleted; Postgres reuses their place on disk once vacuum has passed, and the write-ahead log and
backups age as the operator has set.
"""

from collections.abc import Sequence
from typing import Final

from provider_workers.adapters.native.files import Files
from provider_workers.adapters.native.keys import Claim, claim, settle_erase
from provider_workers.domain import errors
from provider_workers.domain.model import Erased, RecordAddress, Stamp
from service_kit.db.pool import Database
from service_kit.db.tx import Tx
from service_kit.errors import GroveError

__all__ = ["Erasing"]

_PURGE_BATCH: Final = 1_000


class Erasing:
    """The two operations nothing comes back from."""

    def __init__(self, database: Database, files: Files) -> None:
        self._database = database
        self._files = files

    async def erase(self, memory_id: str, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        """Copies derived in another memory are ``unreachable``: this call may not touch that memory.

        A repeated key answers what the first request erased, though none of it is there any more.

        The bytes of files go before their rows, and both before the answer: where the store fails, nothing is
        answered and every record stays. Of several files some may be gone by then; the erase is to be repeated.
        """
        asked = list(dict.fromkeys(record_ids))
        claimed = Claim(stamp, "erase", memory_id)
        async with self._database.begin() as tx:
            done = await claim(tx, claimed)
            if done is not None:
                unreachable: list[str] = done["unreachable"]
                memories: list[str] = done["unreachable_in"] or [""] * len(unreachable)
                return _erased(
                    done["erased"], list(zip(memories, unreachable, strict=True)), done["file_ids"] or ()
                )
            if await _lock(tx, memory_id, asked) != set(asked):
                raise errors.record_not_found("record_ids")
            derived, elsewhere = await self._derived(tx, memory_id, asked)
            erased = [*asked, *derived]
            await _spend_keys(tx, memory_id, erased)
            named = await self._files.hold(tx, memory_id, erased)
            await tx.execute(
                "delete from record where memory_id = %s and record_id = any(%s)", (memory_id, erased)
            )
            await _verify(tx, memory_id, erased)
            gone = await self._files.unnamed(tx, memory_id, named)
            answer = _erased(erased, elsewhere, gone)
            await settle_erase(tx, claimed, answer)
        return answer

    async def purge(self, memory_id: str) -> None:
        while await self._purge_records(memory_id):
            pass
        await self._files.purge(memory_id)
        async with self._database.begin() as tx:
            await tx.execute("delete from job where memory_id = %s", (memory_id,))
            await tx.execute("delete from derivation_usage where memory_id = %s", (memory_id,))
            await tx.execute("delete from memory_language where memory_id = %s", (memory_id,))
            await tx.execute("delete from snapshot_floor where memory_id = %s", (memory_id,))
            await tx.execute("delete from consolidation where memory_id = %s", (memory_id,))
            await tx.execute("delete from consolidation_due where memory_id = %s", (memory_id,))
            await tx.execute("delete from summary_group where memory_id = %s", (memory_id,))
            await tx.execute("delete from idempotency where memory_id = %s", (memory_id,))

    async def _purge_records(self, memory_id: str) -> int:
        async with self._database.begin() as tx:
            return await tx.execute(
                "delete from record where memory_id = %(memory)s and record_id in"
                " (select record_id from record where memory_id = %(memory)s limit %(limit)s)",
                {"memory": memory_id, "limit": _PURGE_BATCH},
            )

    async def _derived(
        self, tx: Tx, memory_id: str, record_ids: Sequence[str]
    ) -> tuple[list[str], list[RecordAddress]]:
        """What was derived or closed as a duplicate, at any remove: in this memory (now locked), and elsewhere.

        A record is locked before its own derivations and duplicates are looked for. Derivation holds its source while
        it writes, and a run what it merges into: nothing derived or closed meanwhile is missed.
        """
        seen: set[RecordAddress] = {(memory_id, one) for one in record_ids}
        frontier = sorted(seen)
        here, elsewhere = list[str](), list[RecordAddress]()
        while frontier:
            rows = await tx.fetch_all(
                "select distinct memory_id, record_id from derivation"
                " where (source_memory_id, source_record_id) in (select * from unnest(%s::text[], %s::text[]))"
                " order by memory_id, record_id",
                ([memory for memory, _ in frontier], [record for _, record in frontier]),
            )
            found = [(row["memory_id"], row["record_id"]) for row in rows]
            behind = await _behind(
                tx, memory_id, [record for memory, record in frontier if memory == memory_id]
            )
            found += [(memory_id, record) for record in behind]
            frontier = [one for one in dict.fromkeys(found) if one not in seen]
            seen.update(frontier)
            own = [record for memory, record in frontier if memory == memory_id]
            await _lock(tx, memory_id, own)
            here += own
            elsewhere += [one for one in frontier if one[0] != memory_id]
        return here, elsewhere


def _erased(erased: Sequence[str], elsewhere: Sequence[RecordAddress], files: Sequence[str]) -> Erased:
    unreachable = tuple(record_id for _, record_id in elsewhere)
    return Erased(tuple(erased), unreachable, tuple(elsewhere), tuple(files))


async def _lock(tx: Tx, memory_id: str, record_ids: Sequence[str]) -> set[str]:
    if not record_ids:
        return set()
    rows = await tx.fetch_all(
        "select record_id from record where memory_id = %s and record_id = any(%s)"
        " order by record_id for update",
        (memory_id, list(record_ids)),
    )
    return {row["record_id"] for row in rows}


async def _behind(tx: Tx, memory_id: str, record_ids: Sequence[str]) -> list[str]:
    """What a run closed as a duplicate of these, now locked: the same said again, which nobody who reads sees. Not what
    is as it was before the run, or another since.
    """
    rows = await tx.fetch_all(
        "select distinct record_id from consolidation_change where memory_id = %s and other_id = any(%s)"
        " and reason = 'duplicate'",
        (memory_id, list(record_ids)),
    )
    locked = await _lock(tx, memory_id, [row["record_id"] for row in rows])
    rows = await tx.fetch_all(
        "select distinct c.record_id from consolidation_change c where c.memory_id = %s and c.record_id = any(%s)"
        " and c.other_id = any(%s) and c.reason = 'duplicate' and not exists (select from version v"
        " where v.memory_id = c.memory_id and v.record_id = c.record_id and v.version > c.version)"
        " order by c.record_id",
        (memory_id, sorted(locked), list(record_ids)),
    )
    return [row["record_id"] for row in rows]


async def _spend_keys(tx: Tx, memory_id: str, record_ids: Sequence[str]) -> None:
    """A late repeat must not write again what was erased, and its hash must not tell what that was."""
    await tx.execute(
        "update idempotency set fingerprint = null, record_id = null, version = null"
        " where memory_id = %s and record_id = any(%s)",
        (memory_id, list(record_ids)),
    )
    await tx.execute(
        "update idempotency set fingerprint = null where memory_id = %(memory)s and job_id in"
        " (select job_id from job_episode where memory_id = %(memory)s and record_id = any(%(records)s))",
        {"memory": memory_id, "records": list(record_ids)},
    )


async def _verify(tx: Tx, memory_id: str, record_ids: Sequence[str]) -> None:
    """Look where a record could still be found; nothing is answered, and nothing erased, if it is."""
    left = await tx.fetch_value(
        "select exists (select 1 from version where memory_id = %(memory)s and record_id = any(%(records)s))"
        " or exists (select 1 from embedding where memory_id = %(memory)s and record_id = any(%(records)s))"
        " or exists (select 1 from job_episode where memory_id = %(memory)s and record_id = any(%(records)s))"
        " or exists (select 1 from consolidation_change where memory_id = %(memory)s and record_id = any(%(records)s))"
        " or exists (select 1 from job_fact where memory_id = %(memory)s and record_id = any(%(records)s))",
        {"memory": memory_id, "records": list(record_ids)},
    )
    if left:
        raise GroveError("server_error", "The records could not be erased.")
