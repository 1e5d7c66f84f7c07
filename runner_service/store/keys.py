"""Idempotency keys: the first answer of a key, kept in the transaction that made it."""

from runner_service.domain import errors
from runner_service.domain.model import Idempotency
from service_kit.db.tx import Tx

__all__ = ["remember", "remembered"]


async def remembered(tx: Tx, owner: str, operation: str, idempotency: Idempotency) -> str | None:
    """The object an earlier request under this key made. ``grovekeeper_idempotency_mismatch``."""
    row = await tx.fetch_one(
        "select object_id, request_sha256 from idempotency where owner = %s and operation = %s and key = %s",
        (owner, operation, idempotency.key),
    )
    if row is None:
        return None
    if bytes(row["request_sha256"]) != idempotency.request_sha256:
        raise errors.idempotency_mismatch()
    return str(row["object_id"])


async def remember(
    tx: Tx, owner: str, operation: str, idempotency: Idempotency, object_id: str
) -> str | None:
    """Keep a key; the object of an earlier request under it, or None when this is the first (or has no
    key). Waits for a request under the same key that is not committed yet.
    """
    if not idempotency.key:
        return None
    added = await tx.execute(
        "insert into idempotency (owner, operation, key, request_sha256, object_id)"
        " values (%s, %s, %s, %s, %s) on conflict do nothing",
        (owner, operation, idempotency.key, idempotency.request_sha256, object_id),
    )
    return None if added else await remembered(tx, owner, operation, idempotency)
