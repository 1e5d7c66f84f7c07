"""Who holds what, and on which node each grant sits (Memories, section 3.1)."""

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import FIRST, Grant, GrantKey, Page
from authz_service.domain.ports import Store
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor


async def list_grants(store: Store, caller: Caller, node: str, page: Page) -> tuple[list[Grant], str]:
    """Every grant that reaches the node, and the next cursor: those on it first, then the inherited, nearest
    first; on each node the creator's implicit one first, then the oldest.

    Those beyond a cutoff do not reach it; those on a node the caller cannot see are not named, nor is
    the node. Needs any privilege on the node. ``invalid_input`` for a cursor from before a move took
    away the node it stands on.
    """
    limit = clamp_limit(page.limit)
    async with store.view(grants=True) as view:
        place = demand((await view.places(caller, [node]))[0])
        line = [place.id, *(one.id for one in place.above if one.reaches and one.mask)]
        grants = await view.grants_on(line, _after(page.cursor, line), limit + 1)
    if len(grants) <= limit:
        return grants, ""
    last = grants[limit - 1]
    return grants[:limit], encode_cursor(last.node, 0 if last.creator else 1, last.id)


def _after(cursor: str, line: list[str]) -> GrantKey:
    """Where the cursor stands in the line as it is now."""
    if not cursor:
        return FIRST
    node, explicit, grant_id = decode_cursor(cursor, 3)
    if node not in line or explicit not in (0, 1) or not isinstance(grant_id, str):
        raise errors.invalid_input("The cursor leads nowhere any more; begin again without it.", "cursor")
    return GrantKey(line.index(str(node)) + 1, explicit == 1, grant_id)
