"""Idempotency keys: claimed in the transaction of the write they belong to.

A key keeps which record version or job it made, never a content: the first answer is read again from what
it made. A key whose record was erased is spent: it neither answers nor writes. The key of an observe answers
with its job as long as that is kept.
"""

import hashlib
from dataclasses import dataclass

from provider_workers.domain import errors
from provider_workers.domain.model import Erased, Stamp
from service_kit.db.tx import Row, Tx
from service_kit.errors import GroveError

__all__ = ["Claim", "claim", "settle", "settle_erase"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A write asked for: by whom, under which key, on what."""

    stamp: Stamp
    operation: str
    memory_id: str
    target: str = ""

    @property
    def principal(self) -> str:
        return f"{self.stamp.writer.kind}:{self.stamp.writer.id}"

    @property
    def fingerprint(self) -> bytes:
        """Of the request and of what it is about."""
        about = f"{self.memory_id}\0{self.target}\0".encode()
        return hashlib.sha256(about + self.stamp.request_sha256).digest()


async def claim(tx: Tx, wanted: Claim) -> Row | None:
    """None when the write is to be done (and :func:`settle` called), else the row of what was done.

    Waits for a write under the same key that is under way. ``grovekeeper_idempotency_mismatch`` when the key
    was for another request, ``memory_record_not_found`` when what it made was erased.
    """
    if not wanted.stamp.key:
        return None
    claimed = await tx.execute(
        "insert into idempotency (principal, operation, key, fingerprint, memory_id)"
        " values (%s, %s, %s, %s, %s) on conflict do nothing",
        (wanted.principal, wanted.operation, wanted.stamp.key, wanted.fingerprint, wanted.memory_id),
    )
    if claimed:
        return None
    row = await tx.fetch_one(
        "select fingerprint, record_id, version, job_id, erased, unreachable,"
        " unreachable_in, file_ids from idempotency"
        " where principal = %s and operation = %s and key = %s",
        (wanted.principal, wanted.operation, wanted.stamp.key),
    )
    if row is None:
        raise GroveError("grovekeeper_unavailable", "The request met another one; try again.")
    if row["fingerprint"] is None:
        if row["job_id"] is None:
            raise errors.record_not_found()
        return row
    if bytes(row["fingerprint"]) != wanted.fingerprint:
        raise errors.idempotency_mismatch()
    return row


async def settle(
    tx: Tx,
    claimed: Claim,
    *,
    record_id: str | None = None,
    version: int | None = None,
    job_id: str | None = None,
) -> None:
    """Say what a claimed key made."""
    if not claimed.stamp.key:
        return
    await tx.execute(
        "update idempotency set record_id = %s, version = %s, job_id = %s"
        " where principal = %s and operation = %s and key = %s",
        (record_id, version, job_id, claimed.principal, claimed.operation, claimed.stamp.key),
    )


async def settle_erase(tx: Tx, claimed: Claim, answer: Erased) -> None:
    """Say what an erase removed: ids of what is gone, which tell nothing of what it was."""
    if not claimed.stamp.key:
        return
    await tx.execute(
        "update idempotency set erased = %s, unreachable = %s, unreachable_in = %s, file_ids = %s"
        " where principal = %s and operation = %s and key = %s",
        (
            list(answer.erased),
            list(answer.unreachable),
            [memory_id for memory_id, _ in answer.elsewhere],
            list(answer.file_ids),
            claimed.principal,
            claimed.operation,
            claimed.stamp.key,
        ),
    )
