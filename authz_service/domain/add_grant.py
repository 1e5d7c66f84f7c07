"""Granting (Memories, section 3.1)."""

from datetime import datetime
from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.keyed import repeated_grant, written
from authz_service.domain.model import Grant, Privilege, names
from authz_service.domain.ports import Change, Store
from authz_service.domain.principals import GRANTABLE, check_principal
from service_kit.clock import Clock
from service_kit.idempotency import Idempotency

MOST: Final = 1_000
"""Most grants that sit on one node, the creator's implicit one aside."""
_ACTION: Final = "grant.add"


class AddGrant:
    """The use case."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Store = store
        self._clock: Clock = clock

    async def __call__(
        self, caller: Caller, node: str, principal: str, mask: int, idempotency: Idempotency
    ) -> Grant:
        """The principal's grant on the node, ``mask`` united with what it already gave. Needs ``delete``.
        A repeat under the same key is answered as the first time, as long as the caller sees the node.

        ``invalid_input`` for a principal of another kind or no privilege at all, ``memory_invalid`` for one
        grant too many.
        """
        check_principal(principal, GRANTABLE, "principal")
        if not mask:
            raise errors.invalid_input("A grant names at least one privilege.", "privileges")
        async with self._store.change() as tx:
            done = await repeated_grant(tx, caller, _ACTION, idempotency, node)
            if done is not None:
                return done
            # Nobody who may not takes the lock, and only under it is the decision final.
            demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
            await tx.hold_line([node])
            demand((await tx.places(caller, [node]))[0], Privilege.DELETE)
            given = await Giving(tx, _ACTION, self._clock.now())(node, principal, mask)
            await tx.settle(caller.principal, _ACTION, idempotency, written(given), memory_id=node)
            return given


class Giving:
    """Grants in one transaction, within their bound, each recorded as ``action`` where it changed something.

    The lines of the nodes are held.
    """

    def __init__(self, tx: Change, action: str, now: datetime) -> None:
        self._tx: Change = tx
        self._action: str = action
        self._now: datetime = now

    async def __call__(self, node: str, principal: str, mask: int) -> Grant:
        """The principal's grant on the node as it is then. What it has can always be widened."""
        count, before = await self._tx.held_grants(node, principal)
        if not before and count >= MOST:
            raise errors.memory_invalid(
                f"At most {MOST:,} grants sit on one memory; grant to a group instead.", "principal"
            )
        given = await self._tx.grant(node, principal, mask, self._now)
        if given.mask != before:
            detail = {"grant": given.id, "before": names(before), "after": names(given.mask)}
            await self._tx.record(Act(self._action, node, principal, detail))
        return given
