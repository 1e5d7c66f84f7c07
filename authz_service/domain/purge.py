"""Letting go of deleted nodes. Asked by memory_service only, for no caller, once their content is gone."""

from collections.abc import Sequence
from typing import Final

from authz_service.domain import errors
from authz_service.domain.ports import Store
from service_kit.paging import clamp_limit

MOST: Final = 1_000
"""Most nodes in one question and in one answer."""


async def deleted_nodes(store: Store, limit: int) -> list[str]:
    """Some of the nodes that were deleted and are still kept. None left: everything deleted is gone."""
    return await store.deleted(clamp_limit(limit, default=200, maximum=MOST))


async def purge_nodes(store: Store, ids: Sequence[str]) -> None:
    """Remove those of these nodes that were deleted. What lay below them is listed as deleted next.

    It needs no hold on the tree's shape: nobody sees a deleted node, so nobody moves or adds one there.
    """
    if len(ids) > MOST:
        raise errors.invalid_input(f"At most {MOST:,} memories at once.", "memory_ids")
    async with store.change() as tx:
        # In one order, so that two calls wait for one another and never in a ring.
        await tx.purge(sorted(set(ids)))
