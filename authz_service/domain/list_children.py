"""One level of the tree (Memories, section 2)."""

from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import ALL, Found, Listing, Page
from authz_service.domain.paging import after_id
from authz_service.domain.ports import Store
from service_kit.paging import clamp_limit, encode_cursor


async def list_children(store: Store, caller: Caller, node: str, needs: int, page: Page) -> Listing:
    """Direct children on which the caller holds ``needs`` (0: any privilege), by id.

    ``memory_not_found`` when it holds nothing on the node itself.
    """
    after, limit = after_id(page), clamp_limit(page.limit)
    async with store.view() as view:
        parent = demand((await view.places(caller, [node]))[0])
        ids = await view.children(caller, parent, needs or ALL, after, limit + 1)
        places = await view.places(caller, ids[:limit], count=True)
    nodes = tuple(Found(one) for one in places if one is not None and one.mask & (needs or ALL))
    return Listing(nodes, encode_cursor(ids[limit - 1]) if len(ids) > limit else "")
