"""Removing a node and everything below it (Memories, section 2)."""

from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.keyed import DONE
from authz_service.domain.model import Privilege
from authz_service.domain.ports import Store
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency

_ACTION: Final = "memory.delete"


async def delete_node(store: Store, caller: Caller, node: str, idempotency: Idempotency) -> None:
    """From the answer on nobody sees the node or anything below it, seen by the caller or not.

    Needs ``delete`` on the node. ``memory_busy`` while work is under way in it or below it. The cost does
    not depend on how much lies below: one row says it, and the others are let go of later (``purge``).
    A repeat under the same key is answered as the first time: nobody holds anything on what is gone.
    """
    async with store.change() as tx:
        place = (await tx.places(caller, [node]))[0]
        try:
            if await tx.claim(caller.principal, _ACTION, idempotency) is not None:
                return
        except GroveError:
            demand(place)  # to whom it is hidden, a key says nothing of another request
            raise
        # Only a caller who may delete takes the lock, and only under it is the decision final.
        demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
        await tx.hold_shape(alone=True)
        demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
        if await tx.held_within(node):
            raise errors.memory_busy()
        await tx.delete(node)
        await tx.record(Act(_ACTION, node))
        await tx.settle(caller.principal, _ACTION, idempotency, DONE)
