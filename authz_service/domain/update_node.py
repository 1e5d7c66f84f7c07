"""Moving and restricting a node (Memories, sections 2 and 3.2)."""

from dataclasses import dataclass, replace
from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.caller import Caller
from authz_service.domain.decide import RootRight, demand
from authz_service.domain.keyed import repeated_place, written
from authz_service.domain.model import MAX_DEPTH, Place, Privilege
from authz_service.domain.ports import Change, Store
from service_kit.idempotency import Idempotency
from service_kit.identity import Passport

_UPDATE: Final = "update"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a node is to become; None leaves a thing as it is. ``parent`` "" asks for a root.

    ``needs`` is demanded besides, for what the caller changes outside the tree's shape.
    """

    parent: str | None = None
    restricted: bool | None = None
    needs: int = 0

    def moves(self, place: Place) -> bool:
        """Whether this is a move.

        What the caller sees is what counts: one who does not see the parent is shown a root, and sending
        that back must neither detach the node nor tell whether there is a parent.
        """
        return self.parent is not None and self.parent != place.parent_id

    def restricts(self, place: Place) -> bool:
        """Whether this sets or lifts the cutoff."""
        return self.restricted is not None and self.restricted != place.restricted

    def demanded(self, place: Place) -> int:
        """The privileges needed on the node itself."""
        shape = self.moves(place) or self.restricts(place)
        return self.needs | (Privilege.DELETE if shape else 0)


class UpdateNode:
    """The use case. ``roots`` says who may make a root by moving a node to the top."""

    def __init__(self, store: Store, roots: RootRight) -> None:
        self._store: Store = store
        self._roots: RootRight = roots

    async def __call__(
        self, passport: Passport, node: str, wanted: Wanted, idempotency: Idempotency
    ) -> Place:
        """The node as it is afterwards; the caller may have moved it out of its own sight.

        A move needs ``delete`` on the node and ``create`` on the new parent, a cutoff ``delete``.
        ``memory_invalid`` for a cycle or a tree too deep, ``memory_not_found`` and ``memory_forbidden``
        for the node and for the new parent, ``memory_busy`` for a move while work is under way below.
        A repeat under the same key is answered as the first time, as long as the caller sees the node.
        """
        caller = Caller.of(passport)
        place = demand(await self._store.place(caller, node, count=True))
        # Whether a repeat may do again what it did is not asked.
        demand(place, 0 if idempotency.key else wanted.demanded(place))
        if not wanted.moves(place):
            # It lies where it is wanted: that another call moves it from now on is that call's business.
            wanted = replace(wanted, parent=None)
        if wanted.parent is None and not wanted.restricts(place):
            return place
        async with self._store.change() as tx:
            done = await repeated_place(tx, caller, _UPDATE, idempotency, node)
            if done is not None:
                return done
            demand(place, wanted.demanded(place))
            # Only a caller who may change it takes the lock, and only under it is the place looked at for good.
            if wanted.parent is not None:
                await tx.hold_shape(alone=True)
            if wanted.restricted is not None:
                await tx.hold_line([node])
            place = demand((await tx.places(caller, [node]))[0])
            demand(place, wanted.demanded(place))
            if wanted.parent is not None and wanted.moves(place):
                await self._move(tx, passport, place, wanted.parent)
            if wanted.restricted is not None and await tx.restrict(node, restricted=wanted.restricted):
                await tx.record(Act("memory.restrict" if wanted.restricted else "memory.lift", node))
            after = (await tx.places(caller, [node], count=True))[0]
            if after is None:
                raise errors.memory_not_found()
            await tx.settle(caller.principal, _UPDATE, idempotency, written(after), memory_id=node)
        return after

    async def _move(self, tx: Change, passport: Passport, place: Place, parent: str) -> None:
        if await tx.held_within(place.id):
            raise errors.memory_busy()
        if not parent:
            self._roots.demand(passport)
            await _put(tx, place, "")
            return
        target = (await tx.places(Caller.of(passport), [parent]))[0]
        target = demand(target, Privilege.CREATE, "parent_id")
        if place.id == target.id or any(place.id == one.id for one in target.above):
            raise errors.memory_invalid("A memory cannot lie below itself.", "parent_id")
        room = MAX_DEPTH - target.depth
        if await tx.height(place.id, room + 1) > room:
            raise errors.memory_invalid(f"A tree has at most {MAX_DEPTH} levels.", "parent_id")
        await _put(tx, place, parent)


async def _put(tx: Change, place: Place, parent: str) -> None:
    # The parent it has may be one that the caller does not see, and so be asked for without a change.
    before = place.above[0].id if place.above else ""
    if parent != before:
        await tx.move(place.id, parent)
        await tx.record(Act("memory.move", place.id, detail={"from": before, "to": parent}))
