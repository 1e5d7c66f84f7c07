"""Who holds what, and on which node each grant sits (Memories, section 3.1)."""

from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import Grant
from authz_service.domain.ports import Store


async def list_grants(store: Store, caller: Caller, node: str) -> list[Grant]:
    """Every grant that reaches the node: those on it first, then the inherited, nearest first.

    Those beyond a cutoff do not reach it; those on a node the caller cannot see are not named, nor is
    the node. Needs any privilege on the node.
    """
    async with store.view() as view:
        place = demand((await view.places(caller, [node]))[0])
        line = [place.id, *(one.id for one in place.above if one.reaches and one.mask)]
        grants = await view.grants_on(line)
    nearness = {one: index for index, one in enumerate(line)}
    return sorted(grants, key=lambda one: (nearness[one.node], not one.creator))
