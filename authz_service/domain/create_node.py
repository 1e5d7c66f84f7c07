"""Adding a node (Memories, sections 2 and 3.1)."""

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.caller import Caller
from authz_service.domain.decide import RootRight, demand
from authz_service.domain.model import MAX_DEPTH, Place, Privilege
from authz_service.domain.ports import Change, Store
from service_kit.clock import Clock
from service_kit.identity import Passport
from service_kit.ids import is_id


class CreateNode:
    """The use case. ``roots`` says who may create a root."""

    def __init__(self, store: Store, roots: RootRight, clock: Clock) -> None:
        self._store: Store = store
        self._roots: RootRight = roots
        self._clock: Clock = clock

    async def __call__(self, passport: Passport, node: str, parent: str, *, restricted: bool) -> Place:
        """The node added below ``parent`` ("": a root), the passport's principal its creator.

        The same id by the same creator again answers the node as it is. ``invalid_input`` for an id of
        another shape, ``memory_not_found`` / ``memory_forbidden`` without ``create`` on the parent,
        ``memory_invalid`` when it would lie too deep.
        """
        if not is_id("hmem", node):
            raise errors.invalid_input("A memory id is hmem_ and 32 hexadecimal digits.", "id")
        caller = Caller.of(passport)
        async with self._store.change() as tx:
            await tx.hold_shape(alone=False)
            creator = await tx.creator_of(node)
            if creator is None:
                await self._check_parent(tx, passport, parent)
                added = await tx.add_node(
                    node, parent, restricted=restricted, creator=caller.principal, now=self._clock.now()
                )
                if added:
                    detail = {"parent": parent, "restricted": restricted}
                    await tx.record(Act("memory.create", node, detail=detail))
                creator = caller.principal if added else await tx.creator_of(node)
            if creator != caller.principal:
                raise errors.id_is_taken()
            return demand((await tx.places(caller, [node], count=True))[0])

    async def _check_parent(self, tx: Change, passport: Passport, parent: str) -> None:
        if not parent:
            self._roots.demand(passport)
            return
        above = (await tx.places(Caller.of(passport), [parent]))[0]
        if demand(above, Privilege.CREATE, "parent_id").depth >= MAX_DEPTH:
            raise errors.memory_invalid(f"A tree has at most {MAX_DEPTH} levels.", "parent_id")
