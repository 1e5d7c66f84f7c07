"""Changes under the caller's idempotency key."""

from typing import Final

import msgspec

from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import Grant, Place
from authz_service.domain.ports import Change
from service_kit.idempotency import Idempotency

__all__ = ["DONE", "repeated_grant", "repeated_place", "written"]

DONE: Final = b"done"
"""The answer of what answers nothing."""

_encoder: Final = msgspec.json.Encoder()
_grants: Final = msgspec.json.Decoder(Grant)
_places: Final = msgspec.json.Decoder(Place)


def written(answer: Grant | Place) -> bytes:
    """An answer as it is kept."""
    return _encoder.encode(answer)


async def repeated_grant(
    tx: Change, caller: Caller, operation: str, idempotency: Idempotency, node: str
) -> Grant | None:
    """What the first request under the key answered; None when this is the first.

    A repeat is for a caller who still sees the node; it may have lost the right to do it again. To others no key
    says anything.
    """
    demand((await tx.places(caller, [node]))[0])
    done = await tx.claim(caller.principal, operation, idempotency)
    return None if done is None else _grants.decode(done)


async def repeated_place(
    tx: Change, caller: Caller, operation: str, idempotency: Idempotency, node: str
) -> Place | None:
    """The same for a node."""
    demand((await tx.places(caller, [node]))[0])
    done = await tx.claim(caller.principal, operation, idempotency)
    return None if done is None else _places.decode(done)
