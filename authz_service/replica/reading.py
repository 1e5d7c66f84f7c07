"""What one caller asks of one moment of the tree. Nothing here waits, so nothing changes meanwhile.

What a lineage means is decided in ``domain.caller``. Where only masks are wanted a node's *state* is kept, its
mask of grants and its cap packed as ``held | cap << 4``; 0 is the state of what was deleted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from authz_service.domain.caller import Caller, flow, place
from authz_service.domain.model import ALL, Place, Step
from authz_service.replica.sorted import Numbers, after
from authz_service.replica.tree import DELETED, GRANTED, HEAD, NONE, RESTRICTED, REVOKED, Tree

FEW: Final = 500
"""Children that are looked at one by one; where there are more, the caller's own grants are instead."""

_TELLS: Final = RESTRICTED | GRANTED | DELETED
"""Flags of a node that may be held otherwise than its parent is."""

_GONE: Final = 0
_NOTHING: Final = ()


def mask(state: int) -> int:
    """What a state lets the caller do."""
    return state & state >> 4


class Reading:
    """One caller and one moment."""

    def __init__(self, tree: Tree, caller: Caller) -> None:
        self.tree: Tree = tree
        self.caller: Caller = caller
        names = tree.names
        self.who: frozenset[int] = frozenset([names[one] for one in caller.principals if one in names]).union(
            tree.groups.get(caller.principal, _NOTHING)
        )
        numbers = tree.numbers
        self.caps: dict[int, int] = (
            {numbers[node]: cap for node, cap in caller.caps.items() if node in numbers}
            if caller.caps
            else {}
        )
        self._held: defaultdict[int, set[int]] | None = None
        self._few: int = max(FEW, self.held_count())
        self._states: dict[int, int] = {NONE: caller.floor << 4}
        self._flags: bytearray = tree.flags
        self._creator: Numbers = tree.creator
        self._parent: Numbers = tree.parent

    def place(self, node: str, *, count: bool = False) -> Place | None:
        """The node as the caller holds it. One that does not exist takes the path of one that is hidden."""
        tree, number = self.tree, self.tree.numbers.get(node)
        lineage, root = self._lineage(self._decoy(node) if number is None else number)
        if not lineage:
            return None
        decided = place(self.caller, tuple(lineage))
        if number is None or tree.flags[root] & DELETED:
            return None
        if not count or not decided.visible:
            return decided
        self._states[number] = decided.held | decided.cap << 4
        children = self.count(number)
        return replace(decided, children=children) if children else decided

    def state(self, number: int) -> int:
        """What the caller holds on a node and its cap there."""
        states, parent, path = self._states, self._parent, list[int]()
        while (state := states.get(number)) is None:
            path.append(number)
            number = parent[number]
        for one in reversed(path):
            state = states[one] = self.below(state, one)
        return state

    def below(self, state: int, number: int) -> int:
        """The state of a node, from its parent's."""
        flags = self._flags[number]
        if not flags & _TELLS and self._creator[number] not in self.who and number not in self.caps:
            return state
        if state == _GONE or flags & DELETED:
            return _GONE
        held = flow(state & ALL, self.own(number), restricted=flags & RESTRICTED != 0)
        return held | self.caps.get(number, state >> 4) << 4

    def own(self, number: int) -> int:
        """What the caller's principals hold by themselves on a node."""
        flags = self._flags[number]
        if self._creator[number] in self.who and not flags & REVOKED:
            return ALL
        held = 0
        if flags & GRANTED:
            grants = self.tree.grants[number]
            for one in self.who:
                held |= grants.get(one, 0)
        return held

    def children(self, parent: str, need: int, after_id: str, limit: int) -> list[str]:
        """As ``domain.ports.View.children``."""
        tree, number = self.tree, self.tree.numbers.get(parent, NONE)
        state = self.state(number)
        if number == NONE or state == _GONE:
            return []
        found = self._of_kind(tree.cut.get(number), number, need, after_id, limit)
        opened = tree.open.get(number)
        if opened is not None and mask(state) & need:
            # They inherit what is asked for; only an entry of a narrowed caller may be capped lower.
            found += self._first(after(opened, after_id, tree.ids), state, need, limit)
        else:
            found += self._of_kind(opened, number, need, after_id, limit)
        return sorted(tree.ids[one] for one in found)[:limit]

    def count(self, number: int) -> int:
        """How many children of a visible node the caller sees."""
        tree, state = self.tree, self.state(number)
        total = len(tree.open.get(number, _NOTHING))
        for one in self.caps:
            if tree.parent[one] == number and not tree.flags[one] & RESTRICTED:
                total -= not mask(self.below(state, one))
        cut = tree.cut.get(number, _NOTHING)
        if len(cut) <= self._few:
            return total + sum(1 for one in cut if mask(self.below(state, one)))
        if tree.creator[number] in self.who:
            total += tree.own_cut.get(number, 0)
        return total + sum(
            1
            for one in self._held_below(number)
            if tree.flags[one] & RESTRICTED and not self._counted(one) and mask(self.below(state, one))
        )

    def entries(self, after_id: str, limit: int) -> list[str]:
        """As ``domain.ports.View.entries``, and all of them are where the caller enters."""
        found: set[int] = set()
        for source in self._sources(after_id):
            found.update(self._entering(source, limit))
        return sorted(self.tree.ids[one] for one in found)[:limit]

    def all_entering(self) -> list[int]:
        """Every node the caller holds something on and nothing on its parent, narrowing aside."""
        open_handed = Reading(self.tree, replace(self.caller, caps={}, floor=ALL))
        return [one for source in open_handed._sources("") for one in open_handed._entering(source, None)]

    def held_count(self) -> int:
        """How many nodes :meth:`all_entering` has to look at."""
        tree = self.tree
        return sum(
            len(tree.granted.get(one, _NOTHING)) + len(tree.heads.get(one, _NOTHING)) for one in self.who
        )

    def _entering(self, source: Iterable[int], limit: int | None) -> list[int]:
        """Those of ``source`` where the caller enters the tree."""
        found: list[int] = []
        parent, states, state, below = self._parent, self._states, self.state, self.below
        for one in source:
            above = states.get(parent[one])
            if above is None:
                above = state(parent[one])
            if not above & above >> 4 and mask(below(above, one)):
                found.append(one)
                if len(found) == limit:
                    break
        return found

    def _sources(self, after_id: str) -> Iterator[Iterable[int]]:
        """Nodes greater than ``after_id`` among which are all where the caller may enter, each in order."""
        tree, ids = self.tree, self.tree.ids
        for one in self.who:
            for held in (tree.granted.get(one), tree.heads.get(one)):
                if held:
                    yield after(held, after_id, ids)
            for revoked in tree.revoked.get(one, _NOTHING):
                for children in (tree.open.get(revoked), tree.cut.get(revoked)):
                    if children:
                        yield (k for k in after(children, after_id, ids) if tree.creator[k] == one)
        if self.caps:
            yield sorted((one for one in self.caps if ids[one] > after_id), key=ids.__getitem__)

    def _of_kind(
        self, children: "Numbers | None", parent: int, need: int, after_id: str, limit: int
    ) -> list[int]:
        """The first of these children, looked at one by one or found among what the caller holds itself."""
        if not children:
            return []
        tree, state = self.tree, self.state(parent)
        if len(children) <= self._few or tree.creator[parent] in self.who:
            return self._first(after(children, after_id, tree.ids), state, need, limit)
        kind = tree.flags[children[0]] & RESTRICTED
        held = [
            one
            for one in self._held_below(parent)
            if tree.flags[one] & RESTRICTED == kind and tree.ids[one] > after_id
        ]
        return self._first(sorted(held, key=tree.ids.__getitem__), state, need, limit)

    def _first(self, children: Iterable[int], state: int, need: int, limit: int) -> list[int]:
        """The first of these children of a node in ``state`` on which the caller holds any of ``need``."""
        found: list[int] = []
        for one in children:
            if mask(self.below(state, one)) & need:
                found.append(one)
                if len(found) == limit:
                    break
        return found

    def _held_below(self, parent: int) -> set[int]:
        """Children the caller holds something on itself, but those its creator holds by being the parent's."""
        tree = self.tree
        parents = tree.parent
        if self._held is None:
            # Once for all the parents of a page, or each would cost as much as all that the caller holds.
            self._held = defaultdict(set)
            for one in self.who:
                for child in chain(tree.granted.get(one, _NOTHING), tree.heads.get(one, _NOTHING)):
                    self._held[parents[child]].add(child)
        return self._held.get(parent, set[int]()).union(one for one in self.caps if parents[one] == parent)

    def _counted(self, number: int) -> bool:
        """Whether the node is in its parent's ``own_cut`` and that was counted."""
        return not self.tree.flags[number] & (HEAD | REVOKED) and self.tree.creator[number] in self.who

    def _lineage(self, number: int) -> tuple[list[Step], int]:
        """The steps from a node up to its root, and the root's number."""
        tree, steps, root = self.tree, list[Step](), number
        ids, flags, parent = tree.ids, tree.flags, tree.parent
        while number >= 0:
            steps.append(Step(ids[number], flags[number] & RESTRICTED != 0, self.own(number)))
            root, number = number, parent[number]
        return steps, root

    def _decoy(self, node: str) -> int:
        """A node to look at in place of one there is not."""
        tree = self.tree
        if not tree.numbers:
            return NONE
        number = hash(node) % len(tree.ids)
        while not tree.flags[number]:
            number = (number + 1) % len(tree.ids)
        return number


def places(tree: Tree, caller: Caller, ids: Sequence[str], *, count: bool) -> list[Place | None]:
    """As ``domain.ports.View.places``."""
    reading = Reading(tree, caller)
    return [reading.place(one, count=count) for one in ids]
