"""Granting (Memories, section 3.1)."""

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import Grant, Privilege
from authz_service.domain.ports import Store
from authz_service.domain.principals import GRANTABLE, check_principal
from service_kit.clock import Clock


class AddGrant:
    """The use case."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Store = store
        self._clock: Clock = clock

    async def __call__(self, caller: Caller, node: str, principal: str, mask: int) -> Grant:
        """The principal's grant on the node, ``mask`` united with what it already gave. Needs ``delete``.

        ``invalid_input`` for a principal of another kind or no privilege at all.
        """
        check_principal(principal, GRANTABLE, "principal")
        if not mask:
            raise errors.invalid_input("A grant names at least one privilege.", "privileges")
        async with self._store.change() as tx:
            demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
            return await tx.grant(node, principal, mask, self._clock.now())
