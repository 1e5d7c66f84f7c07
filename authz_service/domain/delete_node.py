"""Removing a node and everything below it (Memories, section 2)."""

from typing import Final

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import Privilege
from authz_service.domain.ports import Store

MOST: Final = 100_000
"""Most nodes one deletion removes."""


async def delete_node(store: Store, caller: Caller, node: str) -> list[str]:
    """The ids removed, the node's own first; from the answer on nobody sees any of them.

    What lies below goes too, seen by the caller or not. Needs ``delete`` on the node; ``memory_invalid``
    when there is too much below it to go at once.
    """
    demand(await store.place(caller, node), Privilege.DELETE)
    async with store.change() as tx:
        # Only a caller who may delete takes the lock, and only under it is the decision final.
        await tx.hold_shape(alone=True)
        demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
        ids = await tx.subtree(node, MOST + 1)
        if len(ids) > MOST:
            raise errors.memory_invalid(f"More than {MOST:,} memories lie here; delete what is below first.")
        await tx.remove(ids)
    return ids
