"""The read side of ``domain.ports.Store`` from the replica; what writes, and what it lacks, from the rows.

Several questions in one view see one moment: nothing here waits between two of them, so nothing can be applied
meanwhile. Should a caller wait for something else inside a view, and the replica go on, the next question is
refused as two transactions that met are.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from opentelemetry.metrics import CallbackOptions, Observation

from authz_service.domain.caller import Caller
from authz_service.domain.model import FIRST, Grant, GrantKey, Place
from authz_service.domain.ports import Change, View
from authz_service.replica.reading import Reading, places
from authz_service.replica.tree import Tree
from authz_service.replica.walking import descendants, level_below
from authz_service.store.following import Following
from authz_service.store.postgres import PostgresChange, PostgresStore
from service_kit import semconv, telemetry
from service_kit.db.pool import Database, Tx
from service_kit.errors import GroveError

_SLICE: Final = 10_000
_meter: Final = telemetry.meter(__name__)


class ReplicaView:
    """The verbs of ``domain.ports.View`` on one moment of the replica, but :meth:`grants_on`."""

    def __init__(self, tree: Tree) -> None:
        self._tree: Tree = tree
        self._generation: int = tree.generation

    async def places(self, caller: Caller, ids: Sequence[str], *, count: bool = False) -> list[Place | None]:
        return places(self._now(), caller, ids, count=count)

    async def children(self, caller: Caller, parent: Place, need: int, after: str, limit: int) -> list[str]:
        return Reading(self._now(), caller).children(parent.id, need, after, limit)

    async def entries(self, caller: Caller, after: str, limit: int) -> list[str]:
        return Reading(self._now(), caller).entries(after, limit)

    async def descendants(
        self, caller: Caller, start: Place, need: int, levels: int, after: tuple[int, str], limit: int
    ) -> list[tuple[int, str]]:
        return descendants(Reading(self._now(), caller), start.id, need, levels, after, limit)

    async def grants_on(
        self,
        ids: Sequence[str],
        after: GrantKey = FIRST,
        limit: int | None = None,
        *,
        among: Sequence[str] | None = None,
    ) -> list[Grant]:
        del ids, after, limit, among
        raise RuntimeError("this view was not asked for with its grants")

    async def groups_of(self, principal: str) -> list[str]:
        return sorted(self._now().memberships.get(principal, ()))

    def _now(self) -> Tree:
        if self._tree.generation != self._generation:
            raise GroveError("grovekeeper_unavailable", "The request met another one; try again.")
        return self._tree


class ReplicaChange(PostgresChange):
    """A transaction that measures subtrees in the replica."""

    def __init__(self, tx: Tx, following: Following) -> None:
        super().__init__(tx)
        self._following: Following = following

    async def height(self, node: str, most: int) -> int:
        # The shape is held, alone: none that the replica knows can change until the end.
        tree = await self._following.fresh()
        number = None if tree is None else tree.numbers.get(node)
        if tree is None or number is None:
            return await super().height(node, most)
        height, level = 0, [number]
        while level and height < most:
            height, below = height + 1, list[int]()
            for start in range(0, len(level), _SLICE):
                below += level_below(tree, level[start : start + _SLICE])
                if len(level) > _SLICE:
                    await asyncio.sleep(0)
            level = below
        return height


class ReplicaStore:
    """``domain.ports.Store``. Everything is answered by the rows where there is no replica to be had."""

    def __init__(self, database: Database, following: Following) -> None:
        self._database: Database = database
        self._following: Following = following
        self._rows: PostgresStore = PostgresStore(database)
        self._served: dict[str, int] = {"replica": 0, "rows": 0}
        _meter.create_observable_counter(semconv.GROVE_REPLICA_READS, [self._observed], unit="{read}")

    async def place(self, caller: Caller, node: str, *, count: bool = False) -> Place | None:
        tree = await self._fresh()
        if tree is None:
            return await self._rows.place(caller, node, count=count)
        return Reading(tree, caller).place(node, count=count)

    async def places(self, caller: Caller, ids: Sequence[str]) -> list[Place | None]:
        tree = await self._fresh()
        if tree is None:
            return await self._rows.places(caller, ids)
        return places(tree, caller, ids, count=False)

    @asynccontextmanager
    async def view(self, *, grants: bool = False) -> AsyncGenerator[View]:
        tree = None if grants else await self._fresh()
        if tree is None:
            async with self._rows.view(grants=grants) as view:
                yield view
        else:
            yield ReplicaView(tree)

    @asynccontextmanager
    async def change(self) -> AsyncGenerator[Change]:
        async with self._database.begin() as tx:
            yield ReplicaChange(tx, self._following)

    async def existing(self, ids: Sequence[str]) -> list[str]:
        return await self._rows.existing(ids)

    async def deleted(self, limit: int) -> list[str]:
        return await self._rows.deleted(limit)

    async def created_before(self, moment: datetime, after: str, limit: int) -> list[str]:
        return await self._rows.created_before(moment, after, limit)

    async def _fresh(self) -> Tree | None:
        tree = await self._following.fresh()
        self._served["rows" if tree is None else "replica"] += 1
        return tree

    def _observed(self, _: CallbackOptions) -> Iterable[Observation]:
        for path, count in self._served.items():
            yield Observation(count, {semconv.GROVE_REPLICA_PATH: path})
