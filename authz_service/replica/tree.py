"""The nodes, their grants and the groups, as dense as Python has them: at most 400 bytes for each node.

A node has a number while it is there; what is known of it stands at that number in several columns. Children,
and what a principal holds by itself, are kept as numbers in the order of their ids, so that a page of a
listing starts where the last one ended.

Who created a node holds all privileges on it, so whoever created both a node and its parent enters the tree
further up. Only *heads*, nodes whose parent is another's or that have none, can be where a creator enters by
that right, or by the right to a child of a node where it was revoked. A creator never changes: moving a
node changes whether this one is a head, and nothing else does.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from authz_service.replica.sorted import Numbers, put, take

PRESENT: Final = 1
RESTRICTED: Final = 2
REVOKED: Final = 4
DELETED: Final = 8
GRANTED: Final = 16
HEAD: Final = 32
_ROW: Final = PRESENT | RESTRICTED | REVOKED | DELETED
"""Bits of a node's flags, and those its row decides."""

NONE: Final = -1
"""The number of the parent of a root."""

Row = tuple[str, str | None, bool, str, bool, bool, list[str] | None, list[int] | None]
"""A node: id, parent, restricted, creator, whether that right was revoked, deleted; who is granted what."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Nodes and memberships as they are now: rows of those there are, ids of those gone, groups by principal."""

    rows: list[Row]
    gone: list[str]
    groups: Mapping[str, list[str]]

    def __bool__(self) -> bool:
        return bool(self.rows or self.gone or self.groups)


class Tree:
    """One moment of the tree. :meth:`apply` makes it the next one at once; readers look on between."""

    def __init__(self) -> None:
        self.generation: int = 0
        self.numbers: dict[str, int] = {}
        self.ids: list[str] = []
        self.parent: Numbers = array("i")
        self.creator: Numbers = array("i")
        self.flags: bytearray = bytearray()
        self.open: dict[int, Numbers] = {}
        self.cut: dict[int, Numbers] = {}
        # Restricted children that their creator sees by being the parent's creator too, for each parent.
        self.own_cut: dict[int, int] = {}
        self.grants: dict[int, dict[int, int]] = {}
        self.granted: dict[int, Numbers] = {}
        self.heads: dict[int, Numbers] = {}
        self.revoked: dict[int, set[int]] = {}
        self.names: dict[str, int] = {}
        self.groups: dict[str, tuple[int, ...]] = {}
        self.memberships: dict[str, tuple[str, ...]] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.numbers)

    def apply(self, changes: Changes) -> None:
        """Go on to the moment of these changes."""
        self.generation += 1
        rows = [row for row in changes.rows if not self._same_shape(row)]
        known = [self.numbers[row[0]] for row in rows if row[0] in self.numbers]
        gone = [self.numbers[one] for one in changes.gone if one in self.numbers]
        for number in (*known, *gone):
            self._unlink(number)
        numbers = [self._write(row) for row in rows]
        for row in changes.rows:
            self._grant(self.numbers[row[0]], row[6] or (), row[7] or ())
        for number in gone:
            self._forget(number)
        for number in numbers:
            self._link(number)
        self.join(changes.groups)

    def load(self, rows: Iterable[Row]) -> list[int]:
        """Take a page of a first reading, to be linked when all of it is there; answers the numbers."""
        numbers: list[int] = []
        for row in rows:
            number = self._write(row)
            numbers.append(number)
            if row[6]:
                self._grant(number, row[6], row[7] or ())
        return numbers

    def link(self, numbers: Iterable[int]) -> None:
        """Link what was loaded, in the order of ids."""
        for number in numbers:
            self._link(number)

    def join(self, groups: Mapping[str, list[str]]) -> None:
        """Let exactly these be the groups that principals were put in."""
        for principal, names in groups.items():
            self.groups.pop(principal, None)
            self.memberships.pop(principal, None)
            if names:
                self.groups[principal] = tuple(map(self.name, names))
                self.memberships[principal] = tuple(names)

    def name(self, principal: str) -> int:
        """The number of a principal, for good."""
        return self.names.setdefault(principal, len(self.names))

    def exists(self, number: int) -> bool:
        """Whether a number is a node's at present."""
        return bool(self.flags[number] & PRESENT)

    def children(self, number: int) -> Iterator[int]:
        """Every child, in no order."""
        yield from self.open.get(number, ())
        yield from self.cut.get(number, ())

    def _number(self, node: str) -> int:
        known = self.numbers.get(node)
        if known is not None:
            return known
        if self._free:
            number = self._free.pop()
            self.ids[number] = node
        else:
            number = len(self.ids)
            self.ids.append(node)
            self.parent.append(NONE)
            self.creator.append(NONE)
            self.flags.append(0)
        self.numbers[node] = number
        return number

    def _same_shape(self, row: Row) -> bool:
        """Whether only a node's grants can be new."""
        number = self.numbers.get(row[0])
        if number is None:
            return False
        parent = self.parent[number]
        return (
            (self.ids[parent] if parent >= 0 else None) == row[1]
            and self.flags[number] & _ROW == _flags_of(row)
            and self.creator[number] == self.names.get(row[3])
        )

    def _write(self, row: Row) -> int:
        number = self._number(row[0])
        parent = NONE if row[1] is None else self._number(row[1])
        self.parent[number] = parent
        self.creator[number] = self.name(row[3])
        self.flags[number] = self.flags[number] & ~_ROW | _flags_of(row)
        return number

    def _link(self, number: int) -> None:
        """Let the node be found from its parent and from its creator."""
        ids, flags, parent, creator = self.ids, self.flags, self.parent[number], self.creator[number]
        if flags[number] & REVOKED:
            self.revoked.setdefault(creator, set()).add(number)
        if parent >= 0:
            put(_of(self.cut if flags[number] & RESTRICTED else self.open, parent), number, ids)
        if parent < 0 or self.creator[parent] != creator:
            flags[number] |= HEAD
            put(_of(self.heads, creator), number, ids)
        elif flags[number] & (RESTRICTED | REVOKED) == RESTRICTED:
            self.own_cut[parent] = self.own_cut.get(parent, 0) + 1

    def _unlink(self, number: int) -> None:
        """The opposite, with what is still known of the node."""
        ids, flags, parent, creator = self.ids, self.flags, self.parent[number], self.creator[number]
        if flags[number] & REVOKED:
            self.revoked[creator].discard(number)
        if parent >= 0:
            _remove(self.cut if flags[number] & RESTRICTED else self.open, parent, number, ids)
        if flags[number] & HEAD:
            flags[number] &= ~HEAD
            _remove(self.heads, creator, number, ids)
        elif flags[number] & (RESTRICTED | REVOKED) == RESTRICTED:
            self.own_cut[parent] -= 1

    def _grant(self, number: int, principals: Iterable[str], masks: Iterable[int]) -> None:
        """Let exactly these be the grants on the node."""
        now = {self.name(principal): mask for principal, mask in zip(principals, masks, strict=True)}
        before = self.grants.get(number) or {}
        for principal in before.keys() - now.keys():
            _remove(self.granted, principal, number, self.ids)
        for principal in now.keys() - before.keys():
            put(_of(self.granted, principal), number, self.ids)
        if now:
            self.grants[number] = now
            self.flags[number] |= GRANTED
        elif before:
            del self.grants[number]
            self.flags[number] &= ~GRANTED

    def _forget(self, number: int) -> None:
        """Let go of an unlinked node; nothing lies below it any more."""
        self._grant(number, (), ())
        self.own_cut.pop(number, None)
        self.flags[number], self.parent[number] = 0, NONE
        del self.numbers[self.ids[number]]
        self.ids[number] = ""
        self._free.append(number)


def _flags_of(row: Row) -> int:
    return PRESENT | row[2] * RESTRICTED | row[4] * REVOKED | row[5] * DELETED


def _of(lists: dict[int, Numbers], key: int) -> Numbers:
    known = lists.get(key)
    if known is None:
        known = lists[key] = array("i")
    return known


def _remove(lists: dict[int, Numbers], key: int, number: int, ids: list[str]) -> None:
    take(lists[key], number, ids)
    if not lists[key]:
        del lists[key]
