"""What a session start places in an agent's instructions (Memories, section 9.1)."""

import asyncio
from collections.abc import Sequence

from memory_service.domain.describe import Describer
from memory_service.domain.errors import GroveError
from memory_service.domain.model import Address, Page, Primed, Privilege, Record
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from memory_service.domain.references import References
from memory_service.domain.walk import MAX_CHILDREN


class Prime:
    """The use case of section 9.1, first moment."""

    def __init__(self, access: AccessTree, descriptions: Descriptions, provider: Provider) -> None:
        self._access = access
        self._provider = provider
        self._describer = Describer(access, descriptions, provider)
        self._references = References(access, descriptions, provider)

    async def prime(self, memory_ids: Sequence[str]) -> tuple[Primed, ...]:
        """Each memory the caller may read, with its children and what is always relevant; others are left out."""
        answers = await asyncio.gather(*(self._one(memory_id) for memory_id in memory_ids))
        return tuple(one for one in answers if one is not None)

    async def _one(self, memory_id: str) -> Primed | None:
        try:
            memory = await self._describer.one(memory_id, Privilege.READ)
        except GroveError as error:
            if error.code in {"memory_not_found", "memory_forbidden"}:
                return None
            raise
        children, records = await asyncio.gather(
            self._access.children(memory_id, Page(MAX_CHILDREN), Privilege.READ),
            self._relevant(Address(memory.description.provider, memory_id)),
        )
        return Primed(
            memory,
            await self._describer.places(children.nodes),
            await self._references.resolve(records),
        )

    async def _relevant(self, address: Address) -> tuple[Record, ...]:
        """What the provider marks as always relevant; one that marks nothing leaves the memory its description."""
        try:
            return await self._provider.prime(address)
        except GroveError as error:
            if error.code == "memory_unsupported":
                return ()
            raise
