"""Finding a few values in JSON that passes by in pieces, without holding it.

An answer's last event may hold the whole answer once more, of which the relay wants two numbers. So nothing is
parsed: strings are leapt over, brackets are counted, and only what stands at a wanted place is kept.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

__all__ = ["EACH", "Place", "Skim"]

Place = tuple[bytes, ...]
"""Names from the outermost object inwards; :data:`EACH` for the elements of a list."""
EACH: Final = b"\xff"  # no name in UTF-8

_MOST: Final = 4096
"""Longest value that is kept, in bytes; a longer one counts as not there."""
_LONGEST_NAME: Final = 64
_DEEPEST: Final = 64
"""Nested deeper, nothing more is found."""

_MARK: Final = re.compile(rb'["{}\[\],]')
_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_AROUND: Final = b": \t\r\n"
_BACKSLASH: Final = 0x5C


@dataclass(slots=True)
class _Level:
    """An object or list that is open. ``name`` is that of the value being read; ``naming``: a name is next."""

    name: bytes
    naming: bool


class Skim:
    """Reads one JSON text. ``found`` has the last value at each of ``places``, as it was spelled."""

    def __init__(self, places: Collection[Place]) -> None:
        self._places: frozenset[Place] = frozenset(places)
        self._last: frozenset[bytes] = frozenset(place[-1] for place in places)
        named = b"|".join(re.escape(b'"%b"' % name) for name in sorted(self._last))
        self._mentions: re.Pattern[bytes] = re.compile(named)
        self.reset()

    def reset(self) -> None:
        """Begin with another text."""
        self.found: dict[Place, bytes] = {}
        self._open: list[_Level] = []
        self._quoted: bool = False
        self._escaped: bool = False
        self._name: bytearray | None = None
        self._kept: bytearray | None = None
        self._place: Place = ()
        self._from: int = 0
        self._lost: bool = False

    def concerns(self, data: bytes) -> bool:
        """Whether a whole text can have something at a wanted place: most events have not."""
        return self._mentions.search(data) is not None

    def feed(self, data: bytes) -> None:
        """The next piece. Never raises: in what is no JSON, nothing is found."""
        at = self._from = 0
        while at < len(data) and not self._lost:
            if self._quoted:
                at = self._string(data, at)
                continue
            mark = _MARK.search(data, at)
            if mark is None:
                break
            at = mark.end()
            self._mark(mark[0], data, mark.start())
        self._keep(data, len(data))

    def _string(self, data: bytes, start: int) -> int:
        """Read on in a string; answers where to go on."""
        match = _STRING.match(data, start + self._escaped)
        end = len(data) if match is None else match.end()
        self._escaped = False
        if self._name is not None and len(self._name) <= _LONGEST_NAME:
            self._name += data[start : min(end, start + _LONGEST_NAME + 1)]
        if end >= len(data):
            return end
        if data[end] == _BACKSLASH:  # what it escapes is still to come
            self._escaped = True
            return end + 1
        self._quoted = False
        if self._name is not None:
            self._named(bytes(self._name), end + 1)
        return end + 1

    def _named(self, name: bytes, at: int) -> None:
        level, self._name = self._open[-1], None
        level.name, level.naming = name, False
        if name in self._last and self._kept is None:
            place = tuple(one.name for one in self._open)
            if place in self._places:
                self._place, self._kept, self._from = place, bytearray(), at

    def _mark(self, mark: bytes, data: bytes, at: int) -> None:
        match mark:
            case b'"':
                self._quoted = True
                if self._open and self._open[-1].naming:
                    self._name = bytearray()
            case b"{" | b"[":
                self._open.append(_Level(EACH, naming=False) if mark == b"[" else _Level(b"", naming=True))
                self._lost = len(self._open) > _DEEPEST
            case _:
                self._ended(data, at)
                if mark != b",":
                    del self._open[-1:]
                elif self._open and self._open[-1].name != EACH:
                    self._open[-1].naming = True

    def _ended(self, data: bytes, at: int) -> None:
        """A value is whole: perhaps the one that is kept."""
        if self._kept is None or len(self._open) != len(self._place):
            return
        self._keep(data, at)
        if len(self._kept) <= _MOST:
            self.found[self._place] = bytes(self._kept).strip(_AROUND)
        self._kept = None

    def _keep(self, data: bytes, to: int) -> None:
        if self._kept is not None and len(self._kept) <= _MOST:
            self._kept += data[self._from : min(to, self._from + _MOST + 1)]
