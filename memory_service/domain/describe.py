"""Turning nodes into memories: names, descriptions and counts joined to what the caller may see."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from memory_service.domain.errors import memory_not_found
from memory_service.domain.model import Description, Memory, Node, Place, Privilege
from memory_service.domain.ports import AccessTree, Descriptions, Provider


class Describer:
    """Joins the three owners of what a memory is: authz (shape, privileges), this service, the provider (counts)."""

    def __init__(self, access: AccessTree, descriptions: Descriptions, provider: Provider) -> None:
        self._access = access
        self._descriptions = descriptions
        self._provider = provider

    async def one(self, memory_id: str, required: Privilege | None) -> Memory:
        """A memory on which the caller holds ``required``. A node without a description is not there yet."""
        node, found = await asyncio.gather(
            self._access.check(memory_id, required, count=True), self._descriptions.get([memory_id])
        )
        return await self.of_node(node, found.get(memory_id))

    async def of_node(self, node: Node, description: Description | None) -> Memory:
        """The memory of a node that was just decided on."""
        if description is None:
            raise memory_not_found()
        counts = await self._counts([(node, description)])
        return Memory(node, description, counts.get(node.id, 0))

    async def many(self, nodes: Sequence[Node]) -> tuple[Memory, ...]:
        """The memories of these nodes in their order; half-created ones are left out."""
        found = await self._descriptions.get([node.id for node in nodes])
        pairs = [(node, found[node.id]) for node in nodes if node.id in found]
        counts = await self._counts(pairs)
        return tuple(Memory(node, description, counts.get(node.id, 0)) for node, description in pairs)

    async def places(self, nodes: Sequence[Node]) -> tuple[Place, ...]:
        """The same, as places to walk to."""
        return tuple(as_place(memory) for memory in await self.many(nodes))

    async def named(self, memory_ids: Iterable[str]) -> dict[str, Place]:
        """Places by id, without counts: for memories whose records were just answered."""
        found = await self._descriptions.get(list(memory_ids))
        return {one.id: Place(one.id, one.name, one.description, 0) for one in found.values()}

    async def _counts(self, pairs: Sequence[tuple[Node, Description]]) -> dict[str, int]:
        """Record counts, only of memories whose records the caller may read."""
        by_provider: dict[str, list[str]] = defaultdict(list)
        for node, description in pairs:
            if node.permits(Privilege.READ):
                by_provider[description.provider].append(node.id)
        answers = await asyncio.gather(
            *(self._provider.count(provider, ids) for provider, ids in by_provider.items())
        )
        return {memory_id: count for answer in answers for memory_id, count in answer.items()}


def as_place(memory: Memory) -> Place:
    """A memory as somewhere to walk to."""
    description = memory.description
    return Place(description.id, description.name, description.description, memory.records_count)
