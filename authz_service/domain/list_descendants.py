"""Everything below a node that the caller may reach (Memories, section 2: "every descendant it may read")."""

from typing import Final

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import ALL, MAX_DEPTH, Found, Listing, Page
from authz_service.domain.paging import after_depth
from authz_service.domain.ports import Store
from service_kit.paging import clamp_limit, encode_cursor

MOST: Final = 1_000
"""Largest page: a recall asks for all it may search."""


async def list_descendants(
    store: Store, caller: Caller, node: str, needs: int, levels: int, page: Page
) -> Listing:
    """Descendants on which the caller holds ``needs`` (0: any privilege), nearest first, then by id.

    Complete: one the caller may see is found although those between are hidden from it. ``levels`` 0
    means all. ``memory_not_found`` when the caller holds nothing on the node itself.
    """
    if levels < 0:
        raise errors.invalid_input("The depth must not be negative.", "max_depth")
    after, limit = after_depth(page), clamp_limit(page.limit, maximum=MOST)
    async with store.view() as view:
        start = demand((await view.places(caller, [node]))[0])
        keys = await view.descendants(
            caller, start, needs or ALL, min(levels or MAX_DEPTH, MAX_DEPTH), after, limit + 1
        )
        places = await view.places(caller, [one for _, one in keys[:limit]], count=True)
    nodes = tuple(
        Found(place, depth)
        for (depth, _), place in zip(keys[:limit], places, strict=True)
        if place is not None and place.mask & (needs or ALL)
    )
    return Listing(nodes, encode_cursor(*keys[limit - 1]) if len(keys) > limit else "")
