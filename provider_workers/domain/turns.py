"""Taking turns at what only a few can do at a time."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from service_kit.errors import GroveError

__all__ = ["Turns"]


class Turns:
    """Who may run and who may wait: so many in all, and half of them for one caller at most, in the order they came.

    ``grovekeeper_busy`` for one who finds no place to wait, or waited for ``wait_s``; ``what`` is what waits.
    """

    def __init__(self, *, running: int, waiting: int, wait_s: float, what: str) -> None:
        self._most_running = running
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._what = what
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def turn(self, whose: str) -> AsyncGenerator[None]:
        await self._take(whose)
        try:
            yield
        finally:
            self._running -= Counter([whose])
            self._admit()

    async def _take(self, whose: str) -> None:
        theirs = sum(one[0] == whose for one in self._waiting)
        if len(self._waiting) >= self._most_waiting or theirs >= max(1, self._most_waiting // 2):
            raise self._refused()
        mine = (whose, asyncio.get_running_loop().create_future())
        self._waiting.append(mine)
        self._admit()
        try:
            async with asyncio.timeout(self._wait_s):
                await mine[1]
        except BaseException as error:
            if mine in self._waiting:
                self._waiting.remove(mine)
            elif mine[1].done() and not mine[1].cancelled():
                self._running -= Counter([whose])
                self._admit()
            if isinstance(error, TimeoutError):
                raise self._refused() from None
            raise

    def _admit(self) -> None:
        share = max(1, self._most_running // 2)
        for one in list(self._waiting):
            if self._running.total() >= self._most_running:
                return
            whose, future = one
            # One that is done was given up, and is about to be taken from the list by who waited.
            if self._running[whose] < share and not future.done():
                self._waiting.remove(one)
                self._running[whose] += 1
                future.set_result(None)

    def _refused(self) -> GroveError:
        return GroveError("grovekeeper_busy", f"Too many {self._what} are waiting; try again.")
