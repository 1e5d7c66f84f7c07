"""Everything below a node that the caller may reach (Memories, section 2: "every descendant it may read")."""

from typing import Final

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import ALL, MAX_DEPTH, Found, Listing, Page
from authz_service.domain.paging import after_depth
from authz_service.domain.ports import Store
from service_kit.paging import clamp_limit, encode_cursor

MOST: Final = 100_000
"""Most that one search covers."""
_FEW: Final = 200


async def list_descendants(
    store: Store, caller: Caller, node: str, needs: int, levels: int, page: Page
) -> Listing:
    """Descendants on which the caller holds ``needs`` (0: any privilege), nearest first, then by id.

    Complete: one the caller may see is found although those between are hidden from it. ``levels`` 0
    means all. ``memory_not_found`` when the caller holds nothing on the node itself.
    """
    after, limit, deepest = after_depth(page), clamp_limit(page.limit), _deepest(levels)
    async with store.view() as view:
        start = demand((await view.places(caller, [node]))[0])
        keys = await view.descendants(caller, start, needs or ALL, deepest, after, limit + 1)
        places = await view.places(caller, [one for _, one in keys[:limit]], count=True)
    nodes = tuple(
        Found(place, depth)
        for (depth, _), place in zip(keys[:limit], places, strict=True)
        if place is not None and place.mask & (needs or ALL)
    )
    return Listing(nodes, encode_cursor(*keys[limit - 1]) if len(keys) > limit else "")


async def reach(
    store: Store, caller: Caller, node: str, needs: int, levels: int, limit: int
) -> tuple[list[str], bool]:
    """The ids of the first ``limit`` (0: 200) of those descendants, and whether there are more. Taken in one walk and
    not looked at one by one, as they are for being shown.
    """
    most, deepest = clamp_limit(limit, default=_FEW, maximum=MOST), _deepest(levels)
    async with store.view() as view:
        start = demand((await view.places(caller, [node]))[0])
        keys = await view.descendants(caller, start, needs or ALL, deepest, (0, ""), most + 1)
    return [one for _, one in keys[:most]], len(keys) > most


def _deepest(levels: int) -> int:
    if levels < 0:
        raise errors.invalid_input("The depth must not be negative.", "max_depth")
    return min(levels or MAX_DEPTH, MAX_DEPTH)
