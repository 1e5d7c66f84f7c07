"""Idempotency keys: claimed, and their answer kept, in the transaction of the write they belong to.

A service that uses this has the table ``answered`` in its schema (``memory_service``'s migration 0003 is the one
to copy). A key belongs to a principal and an operation, the name of what is asked for. In one transaction::

    done = await keys.claim(tx, principal, "query.put", idempotency)
    if done is not None:
        return decode(done)             # the first answer, byte for byte
    ...                                 # the write itself
    kept = await keys.settle(tx, principal, "query.put", idempotency, encode(answer), memory_id=…)

A repeat that arrives meanwhile waits in :func:`claim` for the first to end. Where the work goes on beyond one
transaction (another service is asked), the claim is committed by itself, every repeat goes on with the same work,
which must bear that, and :func:`settle` answers all of them what the first settled.

Whoever answers a repeat has checked first that its caller may still be told: a key decides nothing about access.
"""

from collections.abc import Sequence
from datetime import datetime

from service_kit.db.tx import Tx
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency, mismatch

__all__ = ["answered", "claim", "drop_old", "forget_memories", "release", "settle", "withdraw"]


async def claim(tx: Tx, principal: str, operation: str, idempotency: Idempotency) -> bytes | None:
    """None when the write is to be done (and settled), else what it answered the first time.

    Without a key always None. ``grovekeeper_idempotency_mismatch`` when the key was for another request,
    ``memory_not_found`` when what it was about is gone (:func:`forget_memories`).
    """
    if not idempotency.key:
        return None
    claimed = await tx.execute(
        "insert into answered (principal, operation, key, request_sha256) values (%s, %s, %s, %s)"
        " on conflict do nothing",
        (principal, operation, idempotency.key, idempotency.request_sha256),
    )
    return None if claimed else await answered(tx, principal, operation, idempotency)


async def answered(tx: Tx, principal: str, operation: str, idempotency: Idempotency) -> bytes | None:
    """What was answered under a key, if anything was, without claiming it. Raises as :func:`claim` does."""
    if not idempotency.key:
        return None
    row = await tx.fetch_one(
        "select request_sha256, answer from answered where principal = %s and operation = %s and key = %s",
        (principal, operation, idempotency.key),
    )
    if row is None:
        return None
    if row["request_sha256"] is None:
        raise GroveError("memory_not_found", "There is no such memory.")
    if bytes(row["request_sha256"]) != idempotency.request_sha256:
        raise mismatch()
    return None if row["answer"] is None else bytes(row["answer"])


async def settle(
    tx: Tx,
    principal: str,
    operation: str,
    idempotency: Idempotency,
    answer: bytes,
    *,
    memory_id: str | None = None,
) -> bytes:
    """Keep what a claimed key answers, and answer what is kept: this, or what a repeat settled before.

    ``memory_id``: the memory the answer tells of, with whose purge it goes.
    """
    if not idempotency.key:
        return answer
    kept = await tx.fetch_value(
        "update answered set answer = coalesce(answer, %s), memory_id = %s"
        " where principal = %s and operation = %s and key = %s returning answer",
        (answer, memory_id, principal, operation, idempotency.key),
    )
    return answer if kept is None else bytes(kept)


async def release(tx: Tx, principal: str, operation: str, idempotency: Idempotency) -> None:
    """What a committed claim was for was refused: the key is free again, unless a repeat settled it."""
    await tx.execute(
        "delete from answered where principal = %s and operation = %s and key = %s and answer is null",
        (principal, operation, idempotency.key),
    )


async def withdraw(tx: Tx, principal: str, operation: str, idempotency: Idempotency) -> None:
    """The same though it was settled, for an answer that was kept before what it tells came about and did not."""
    await tx.execute(
        "delete from answered where principal = %s and operation = %s and key = %s",
        (principal, operation, idempotency.key),
    )


async def forget_memories(tx: Tx, memory_ids: Sequence[str]) -> None:
    """Remove what answers tell of these memories, which are gone. Their keys are spent, not free: a late repeat
    is ``memory_not_found`` and writes nothing, and no hash is left that a guess could be tried on.
    """
    await tx.execute(
        "update answered set answer = null, request_sha256 = null where memory_id = any(%s)",
        (list(memory_ids),),
    )


async def drop_old(tx: Tx, before: datetime) -> int:
    """Let go of keys older than a moment, which is more than 24 hours ago; answers how many."""
    return await tx.execute("delete from answered where created_at < %s", (before,))
