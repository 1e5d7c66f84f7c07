"""What memory_service needs to mend what a crash left half done. Asked by services only, for no caller."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.model import Page
from authz_service.domain.paging import after_id
from authz_service.domain.ports import Store
from service_kit.paging import clamp_limit, encode_cursor

MOST: Final = 1_000
"""Most ids in one question and in one page."""


async def existing_nodes(store: Store, ids: Sequence[str]) -> list[str]:
    """Those of ``ids`` that name a node."""
    return await store.existing(_checked(ids))


async def list_node_ids(store: Store, created_before: datetime, page: Page) -> tuple[list[str], str]:
    """Ids of nodes older than a moment, ascending, and the next cursor."""
    after, limit = after_id(page), clamp_limit(page.limit, default=200, maximum=MOST)
    ids = await store.created_before(created_before, after, limit + 1)
    return ids[:limit], encode_cursor(ids[limit - 1]) if len(ids) > limit else ""


async def discard_nodes(store: Store, ids: Sequence[str]) -> None:
    """Remove half-created nodes. One that something whole lies below is left: it is not half-created."""
    wanted = _checked(ids)
    async with store.change() as tx:
        await tx.hold_shape(alone=True)
        for one in await tx.discard(wanted):
            await tx.record(Act("memory.discard", one))


def _checked(ids: Sequence[str]) -> list[str]:
    if len(ids) > MOST:
        raise errors.invalid_input(f"At most {MOST:,} memories at once.", "memory_ids")
    return list(dict.fromkeys(ids))
