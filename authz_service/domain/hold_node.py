"""Marking a memory as worked upon, so that it keeps its place meanwhile (Memories, section 12: ``memory_busy``).

Asked by memory_service only, for no caller, when a consolidation begins and ends.
"""

from datetime import timedelta
from typing import Final

from authz_service.domain import errors
from authz_service.domain.ports import Store

LONGEST: Final = 3_600
"""Longest a mark lasts without being prolonged, in seconds: a worker that died blocks nobody for longer."""
MOST_HOLDER: Final = 100
"""Longest name of a holder, in characters."""


async def hold_node(store: Store, node: str, holder: str, ttl_seconds: int) -> None:
    """Mark ``node`` for ``holder``; again prolongs it. ``memory_not_found`` for one that is not there."""
    if not 1 <= ttl_seconds <= LONGEST:
        raise errors.invalid_input(f"A mark lasts 1 to {LONGEST:,} seconds.", "ttl_seconds")
    _check_holder(holder)
    async with store.change() as tx:
        # With the shape held the node is neither on its way elsewhere nor to its end.
        await tx.hold_shape(alone=False)
        if not await tx.exists(node):
            raise errors.memory_not_found("memory_id")
        await tx.hold(node, holder, timedelta(seconds=ttl_seconds))


async def release_node(store: Store, node: str, holder: str) -> None:
    """Take the mark off; one that is not there is off."""
    _check_holder(holder)
    async with store.change() as tx:
        await tx.release(node, holder)


def _check_holder(holder: str) -> None:
    if not 1 <= len(holder) <= MOST_HOLDER or not holder.isprintable():
        raise errors.invalid_input(f"A holder is 1 to {MOST_HOLDER} printable characters.", "holder")
