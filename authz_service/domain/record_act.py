"""Acts of other services that the audit keeps: decided here, recorded, and then done there."""

from collections.abc import Mapping
from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import Privilege
from authz_service.domain.ports import Store
from service_kit.identity import Passport

OF_OTHERS: Final = frozenset({"record.erase", "job.retry"})
"""What other services do."""
_MOST: Final = 8
_LONGEST: Final = 100


async def record_act(
    store: Store, passport: Passport, action: str, node: str, detail: Mapping[str, str]
) -> None:
    """Record that the caller does ``action``, if it may. Nothing is done that is not recorded first.

    ``record.erase`` needs ``delete`` on the node, ``job.retry`` the scope ``admin``.
    """
    if len(detail) > _MOST or any(len(name) + len(value) > _LONGEST for name, value in detail.items()):
        raise errors.invalid_input("The particulars of an act are few and short.", "detail")
    async with store.change() as tx:
        match action:
            case "record.erase":
                demand((await tx.places(Caller.of(passport), [node]))[0], Privilege.DELETE)
            case "job.retry":
                passport.require_scope("admin")
            case _:
                raise errors.invalid_input("There is no such act.", "action")
        await tx.record(Act(action, node, detail=dict(detail)))
