"""May the caller do this here (Memories, section 3.3)."""

from collections.abc import Sequence
from typing import Final

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import ALL, Place
from authz_service.domain.ports import Store

MOST: Final = 1_000
"""Most nodes one question may name."""


async def check(store: Store, caller: Caller, node: str, needs: int, *, count: bool = True) -> Place:
    """The node, if the caller holds every privilege of ``needs`` on it (0: any at all)."""
    return demand(await store.place(caller, node, count=count), needs)


async def check_many(store: Store, caller: Caller, ids: Sequence[str], needs: int) -> list[str]:
    """Those of ``ids`` the caller holds ``needs`` on (0: any privilege), in the order asked, once each."""
    if len(ids) > MOST:
        raise errors.invalid_input(f"At most {MOST} memories are checked at once.", "memory_ids")
    asked = list(dict.fromkeys(ids))
    places = await store.places(caller, asked)
    return [one.id for one in places if one is not None and one.mask & (needs or ALL)]
