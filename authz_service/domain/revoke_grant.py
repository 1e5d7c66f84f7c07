"""Revoking (Memories, section 3.1)."""

from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.keyed import repeated_grant, written
from authz_service.domain.model import Grant, Privilege, names
from authz_service.domain.ports import Store
from service_kit.idempotency import Idempotency

_ACTION: Final = "grant.revoke"


async def revoke_grant(
    store: Store, caller: Caller, node: str, grant_id: str, idempotency: Idempotency
) -> Grant:
    """The grant as it was. From the answer on it decides nothing.

    It must sit on this very node; an inherited one is revoked where it sits. The creator's implicit
    grant can be revoked like any other. Needs ``delete`` on the node; ``grovekeeper_not_found`` for a
    grant that is not on it. A repeat under the same key is answered as the first time, as long as the
    caller sees the node.
    """
    async with store.change() as tx:
        done = await repeated_grant(tx, caller, _ACTION, idempotency, node)
        if done is not None:
            return done
        # Nobody who may not takes the lock, and only under it is the decision final.
        demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
        await tx.hold_line([node])
        demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
        revoked = await tx.revoke(node, grant_id)
        if revoked is None:
            raise errors.grant_not_found()
        detail = {"grant": revoked.id, "privileges": names(revoked.mask), "creator": revoked.creator}
        await tx.record(Act(_ACTION, node, revoked.principal, detail))
        await tx.settle(caller.principal, _ACTION, idempotency, written(revoked), memory_id=node)
        return revoked
