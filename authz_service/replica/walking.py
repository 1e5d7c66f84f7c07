"""Going down the tree: what lies below a node, nearest first, and how many levels there are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final

from authz_service.domain.model import ALL
from authz_service.replica.reading import Reading, mask
from authz_service.replica.tree import NONE, Tree

Level = list[tuple[int, int]]
"""Nodes at one depth with their states."""

LITTLE: Final = 1_000
"""Nodes that hold nothing for the caller and are gone through whatever else there is to go by."""


class Descent:
    """From a node the caller sees, level by level, through all that it holds something on.

    What it holds nothing on is gone through as well, for what may lie below, as long as that is little;
    else the nodes where it enters again are found from what it holds itself.
    """

    def __init__(self, reading: Reading, start: int) -> None:
        self._reading: Reading = reading
        self._start: int = start
        self._dark: list[int] = []
        self._patience: int = max(LITTLE, reading.held_count())
        self._ahead: dict[int, Level] | None = None

    def levels(self, need: int) -> Iterator[Level]:
        """The nodes of each level, from the first on; those on which nothing of ``need`` is held, too."""
        lit: Level = [(self._start, self._reading.state(self._start))]
        depth = 0
        while lit or self._dark or self._ahead:
            depth += 1
            lit = self._down(lit, need)
            if self._ahead is not None:
                lit += self._ahead.pop(depth, [])
            elif len(self._dark) > self._patience:
                self._look_ahead(depth)
            yield lit

    def _down(self, lit: Level, need: int) -> Level:
        reading, tree = self._reading, self._reading.tree
        satisfied = not reading.caller.narrowed
        below, found, dark = reading.below, Level(), list[int]()
        for number, state in lit:
            opened = tree.open.get(number)
            if opened is not None:
                if satisfied and state & need:
                    found += [(one, state) for one in opened]  # they inherit what is asked for
                else:
                    found += [(one, below(state, one)) for one in opened]
            if number in tree.cut:
                self._sort(((one, below(state, one)) for one in tree.cut[number]), found, dark)
        if self._ahead is None:
            for number in self._dark:
                self._sort(
                    ((one, below(reading.state(number), one)) for one in tree.children(number)), found, dark
                )
            self._patience -= len(self._dark)
            self._dark = dark
        return found

    @staticmethod
    def _sort(children: Iterable[tuple[int, int]], lit: Level, dark: list[int]) -> None:
        for one, state in children:
            if state & ALL:
                lit.append((one, state))
            else:
                dark.append(one)

    def _look_ahead(self, depth: int) -> None:
        """Give up going through the dark: place all nodes where the caller enters again by their depth."""
        self._dark, ahead = [], defaultdict[int, Level](list)
        for number in set(self._reading.all_entering()):
            levels = self._levels_below_start(number)
            if levels > depth:
                ahead[levels].append((number, self._reading.state(number)))
        self._ahead = dict(ahead)

    def _levels_below_start(self, number: int) -> int:
        """0 where it does not lie below."""
        parent, levels = self._reading.tree.parent, 0
        while number != self._start:
            if number == NONE:
                return 0
            number, levels = parent[number], levels + 1
        return levels


def descendants(
    reading: Reading, start: str, need: int, levels: int, after: tuple[int, str], limit: int
) -> list[tuple[int, str]]:
    """As ``domain.ports.View.descendants``."""
    number, found = reading.tree.numbers.get(start, NONE), list[tuple[int, str]]()
    if number == NONE:
        return found
    ids = reading.tree.ids
    for depth, level in enumerate(Descent(reading, number).levels(need), 1):
        if depth > levels:
            break
        if depth >= after[0]:
            least = after[1] if depth == after[0] else ""
            keys = (ids[one] for one, state in level if mask(state) & need and ids[one] > least)
            found += [(depth, one) for one in nsmallest(limit - len(found), keys)]
        if len(found) == limit:
            break
    return found


def level_below(tree: Tree, level: list[int]) -> list[int]:
    """All children of these nodes."""
    found: list[int] = []
    for kind in (tree.open, tree.cut):
        for children in filter(None, map(kind.get, level)):
            found.extend(children)
    return found
