"""Where a memory's records are kept, told only to a caller who holds what it needs there."""

import asyncio

from memory_service.domain import errors
from memory_service.domain.model import Address, Capabilities, Node, Privilege
from memory_service.domain.ports import AccessTree, Descriptions, Provider


class Placing:
    """The check that every operation on a memory begins with."""

    def __init__(self, access: AccessTree, descriptions: Descriptions) -> None:
        self._access = access
        self._descriptions = descriptions

    async def address(self, memory_id: str, required: Privilege | None) -> tuple[Address, Node]:
        """Where the records are, once the caller is known to hold ``required`` (None: anything)."""
        node, found = await asyncio.gather(
            self._access.check(memory_id, required), self._descriptions.get([memory_id])
        )
        if memory_id not in found:
            raise errors.memory_not_found()
        return Address(found[memory_id].provider, memory_id), node


async def capabilities_of(provider: Provider, name: str) -> Capabilities:
    """What the provider of that name declares. ``memory_unsupported`` when it is not connected."""
    for one in await provider.describe():
        if one.id == name:
            return one
    raise errors.unknown_provider(name)
