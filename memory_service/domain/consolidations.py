"""Consolidation runs (Memories, section 9.2): no provider that can be connected exposes any yet."""

from typing import NoReturn

from memory_service.domain import errors
from memory_service.domain.model import Privilege
from memory_service.domain.place import Placing
from memory_service.domain.ports import AccessTree, Descriptions


class Consolidations:
    """Refuses, after the access check, what no capability document declares."""

    def __init__(self, access: AccessTree, descriptions: Descriptions) -> None:
        self._placing = Placing(access, descriptions)

    async def refuse(self, memory_id: str, *, writes: bool) -> NoReturn:
        """``memory_unsupported`` for whoever may start and revert runs (``write``) or read them (``read``)."""
        await self._placing.address(memory_id, Privilege.WRITE if writes else Privilege.READ)
        raise errors.unsupported("consolidation runs")
