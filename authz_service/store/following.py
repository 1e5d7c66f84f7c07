"""Following the database: the replica of this process, and how a question gets one that is fresh.

A question joins the next look at the database that begins after it, with all others that came meanwhile; at most
one look is under way. What a look finds is applied at once, without a pause in which anything could read, so
the replica is always one moment of the database, never parts of two.
"""

import asyncio
import contextvars
import gc
import logging
import time
from collections.abc import Iterable
from typing import Final

from opentelemetry import trace
from opentelemetry.metrics import CallbackOptions, Observation

from authz_service.replica.tree import Tree
from authz_service.store import changes
from service_kit import semconv, telemetry
from service_kit.db.pool import Database, Quick, Tx
from service_kit.errors import GroveError

LONGEST_GAP_S: Final = 1_800.0
"""A replica that did not look for so long, by the database's clock, begins anew: the log is kept an hour."""
EVERY_S: Final = 1.0
"""Nobody asking, it looks this often, so that a question never finds much to do."""
TOGETHER: Final = 24
GATHER_S: Final = 0.002
"""In a crowd a look waits so long for so many questions at most: it costs as much for one as for all of them."""
_CROWD: Final = 3
_TRY: Final = 256
"""Looks after which it is tried again how many come together."""
RETRY_S: Final = 1.0
AGAIN_S: Final = 60.0
_PRUNE_S: Final = 60.0
_SLICE: Final = 5_000

_log: Final = logging.getLogger(__name__)
_meter: Final = telemetry.meter(__name__)

_Asked = tuple["asyncio.Future[Tree | None]", contextvars.Context | None]
"""A question, and where it is traced, if it is."""


class Following:
    """``run`` is the background work; ``most`` bounds the nodes that are held."""

    def __init__(self, database: Database, most: int) -> None:
        self._database: Database = database
        self._most: int = most
        self._tree: Tree | None = None
        self._moment: str = ""
        self._at: float = 0.0
        self._cluster: str = ""
        self._ready: bool = False
        self._full: bool = False
        self._reloads: int = 0
        self._looked: float = 0.0
        self._looks: int = 0
        self._looking_s: float = 0.0
        self._waiting: list[_Asked] = []
        self._crowd: int = 1
        self._wake: asyncio.Event = asyncio.Event()
        self._observe()

    async def fresh(self) -> Tree | None:
        """The tree as of a moment after this call; None when there is none to be had, and rows have to be read."""
        if not self._ready:
            return None
        answer: asyncio.Future[Tree | None] = asyncio.get_running_loop().create_future()
        traced = trace.get_current_span().is_recording()
        self._waiting.append((answer, contextvars.copy_context() if traced else None))
        self._wake.set()
        return await answer

    async def run(self) -> None:
        """Load, follow, and begin again whatever happens to the database."""
        while True:
            try:
                if self._tree is None and not await self._load():
                    await asyncio.sleep(AGAIN_S)
                    continue
                async with self._database.read() as tx:
                    await self._follow(tx)
            except GroveError as error:
                _log.warning("the replica lost the database: %s", error.message)
                await asyncio.sleep(RETRY_S)

    async def prune(self) -> None:
        """Keep the log of changes short."""
        while True:
            try:
                await changes.prune(self._database)
            except GroveError as error:
                _log.warning("the log of changes could not be shortened: %s", error.message)
            await asyncio.sleep(_PRUNE_S)

    async def _load(self) -> bool:
        """Read everything as of one moment. False when it is too much."""
        self._reloads += 1
        tree, numbers, started = Tree(), list[int](), time.monotonic()
        async with self._database.read(snapshot=True) as tx:
            moment, at = await changes.beginning(tx)
            cluster = await changes.cluster(tx)
            if await changes.exceeds(tx, self._most):
                self._too_many()
                return False
            async for page in changes.nodes(tx):
                numbers += tree.load(page)
            async for groups in changes.members(tx):
                tree.join(groups)
        for start in range(0, len(numbers), _SLICE):
            tree.link(numbers[start : start + _SLICE])
            await asyncio.sleep(0)
        self._tree, self._moment, self._at, self._cluster, self._full = tree, moment, at, cluster, False
        gc.freeze()  # millions of references that no search for garbage needs to follow
        _log.info(
            "the replica is loaded",
            extra={"nodes": len(tree), "seconds": round(time.monotonic() - started, 3)},
        )
        return True

    async def _follow(self, tx: Tx) -> None:
        """Look again and again. Returns when everything has to be loaded anew; raises for want of a database."""
        if await changes.cluster(tx) != self._cluster:
            self._drop("another database took the place of the one it was loaded from")
            return
        look = await changes.looking(tx)
        self._ready = True
        asked = list[_Asked]()
        try:
            while self._tree is not None:
                asked, self._waiting = self._waiting, []
                # A look is seen in the trace of one of those who asked.
                context = next((one for _, one in asked if one is not None), None)
                looked = self._look(tx, look, self._tree)
                tree = await (looked if context is None else asyncio.create_task(looked, context=context))
                _answer(asked, tree)
                await self._until(1, EVERY_S)
                await self._gather()
        finally:
            self._ready = False
            _answer((*asked, *self._waiting), None)
            self._waiting = []

    async def _look(self, tx: Tx, look: Quick, tree: Tree) -> Tree | None:
        """Bring the tree to the present; None when that cannot be done."""
        started = time.monotonic()
        step = await changes.step(tx, look, self._moment)
        if step.whole or step.at - self._at > LONGEST_GAP_S:
            self._drop("it cannot go on from where it is")
            return None
        if step.changes:
            tree.apply(step.changes)
        self._moment, self._at, self._looked = step.moment, step.at, time.monotonic()
        self._looks, self._looking_s = self._looks + 1, self._looking_s + self._looked - started
        if len(tree) > self._most:
            self._too_many()
            return None
        return tree

    async def _gather(self) -> None:
        """In a crowd, until as many came as lately. Whoever asks alone waits for nobody, but once in a while."""
        trying = self._looks % _TRY == 0
        if self._waiting and (trying or self._crowd > _CROWD):
            await self._until(TOGETHER if trying else min(self._crowd, TOGETHER), GATHER_S)
            self._crowd = max(len(self._waiting), self._crowd - 1)

    async def _until(self, number: int, seconds: float) -> None:
        """Until so many wait, or for so long."""
        over = False

        def late() -> None:
            nonlocal over
            over = True
            self._wake.set()

        timer = asyncio.get_running_loop().call_later(seconds, late)
        while len(self._waiting) < number and not over:
            self._wake.clear()
            await self._wake.wait()
        timer.cancel()

    def _drop(self, why: str) -> None:
        self._tree = None
        _log.warning("the replica is loaded anew: %s", why)

    def _too_many(self) -> None:
        self._tree = None
        if not self._full:
            _log.warning("there are more nodes than a replica may hold; rows are read instead")
        self._full = True

    def _observe(self) -> None:
        def nodes(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(0 if self._tree is None else len(self._tree))

        def age(_: CallbackOptions) -> Iterable[Observation]:
            if self._tree is not None:
                yield Observation(time.monotonic() - self._looked)

        def full(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(int(self._full))

        def looks(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(self._looks)

        def looking(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(self._looking_s)

        def reloads(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(self._reloads)

        _meter.create_observable_gauge(semconv.GROVE_REPLICA_NODES, [nodes], unit="{node}")
        _meter.create_observable_gauge(semconv.GROVE_REPLICA_LAG, [age], unit="s")
        _meter.create_observable_gauge(semconv.GROVE_REPLICA_FULL, [full], unit="1")
        # A histogram would cost a look a tenth more; their quotient is how long one takes.
        _meter.create_observable_counter(semconv.GROVE_REPLICA_REFRESHES, [looks], unit="{refresh}")
        _meter.create_observable_counter(semconv.GROVE_REPLICA_REFRESH_TIME, [looking], unit="s")
        _meter.create_observable_counter(semconv.GROVE_REPLICA_LOADS, [reloads], unit="{load}")


def _answer(asked: Iterable[_Asked], tree: Tree | None) -> None:
    for answer, _ in asked:
        if not answer.done():
            answer.set_result(tree)
