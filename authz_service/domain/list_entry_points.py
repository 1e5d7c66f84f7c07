"""Where a caller enters the tree (Memories, section 2)."""

from typing import Final

from authz_service.domain.caller import Caller
from authz_service.domain.model import Found, Listing, Page
from authz_service.domain.paging import after_id
from authz_service.domain.ports import Store, View
from service_kit.paging import clamp_limit, encode_cursor

CHUNK: Final = 500
"""Candidates looked at in one go."""


async def list_entry_points(store: Store, caller: Caller, page: Page) -> Listing:
    """Nodes the caller holds a privilege on whose parent it cannot see, by id.

    A caller granted one branch enters at that branch. They are found from what it holds itself, so the
    cost follows its own grants and not the tree.
    """
    after, limit = after_id(page), clamp_limit(page.limit)
    async with store.view() as view:
        ids = await _entry_points(view, caller, after, limit + 1)
        places = await view.places(caller, ids[:limit], count=True)
    nodes = tuple(Found(one) for one in places if one is not None and one.is_entry_point)
    return Listing(nodes, encode_cursor(ids[limit - 1]) if len(ids) > limit else "")


async def _entry_points(view: View, caller: Caller, after: str, limit: int) -> list[str]:
    found: list[str] = []
    many = min(limit, CHUNK)  # as a rule most candidates are entry points
    while len(found) < limit:
        candidates = await view.entries(caller, after, many)
        places = await view.places(caller, candidates)
        found += [one.id for one in places if one is not None and one.is_entry_point]
        if len(candidates) < many:
            break
        after, many = candidates[-1], CHUNK
    return found[:limit]
