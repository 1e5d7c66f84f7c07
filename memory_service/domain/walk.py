"""Where a caller can go from a memory: its parent and its children, as far as it may read them (Memories, section 6.1)."""

import asyncio
from typing import Final

from memory_service.domain.describe import Describer
from memory_service.domain.errors import GroveError
from memory_service.domain.model import Node, Page, Place, Privilege
from memory_service.domain.ports import AccessTree

MAX_CHILDREN: Final = 100
"""Most children one answer names; more is said in ``degraded``."""


class Walk:
    """Part of every answer that an agent may walk on from."""

    def __init__(self, access: AccessTree, describer: Describer) -> None:
        self._access = access
        self._describer = describer

    async def from_here(self, node: Node) -> tuple[Place | None, tuple[Place, ...], list[str]]:
        """Parent, children, and what was capped. Only what the caller may read."""
        parent, page = await asyncio.gather(
            self._parent(node), self._access.children(node.id, Page(MAX_CHILDREN), Privilege.READ)
        )
        more = [f"children:capped_at_{MAX_CHILDREN}"] if page.next_cursor else []
        return parent, await self._describer.places(page.nodes), more

    async def _parent(self, node: Node) -> Place | None:
        if not node.parent_id:
            return None
        try:
            parent = await self._access.check(node.parent_id, Privilege.READ)
        except GroveError as error:
            if error.code in {"memory_not_found", "memory_forbidden"}:
                return None
            raise
        places = await self._describer.places([parent])
        return places[0] if places else None
