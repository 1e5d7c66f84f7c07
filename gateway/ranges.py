"""``Range`` and what goes with it (RFC 9110, section 14): one range of bytes, or everything."""

import re
from dataclasses import dataclass
from typing import Final

from service_kit.errors import GroveError

__all__ = ["Range", "asked_range", "not_satisfiable"]

_RANGE: Final = re.compile(r"bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})", re.IGNORECASE)
_LARGEST: Final = 2**62


@dataclass(frozen=True, slots=True)
class Range:
    """``offset`` below 0 counts from the end; ``length`` 0 is to the end."""

    offset: int
    length: int

    def within(self, size: int) -> tuple[int, int] | None:
        """The first and the last byte of it in a file of that size; None when there is none."""
        first = max(0, size + self.offset) if self.offset < 0 else self.offset
        last = size - 1 if self.length == 0 else min(size, first + self.length) - 1
        return None if first >= size else (first, last)


def asked_range(header: str | None) -> Range | None:
    """The one range a request asks for; None for everything, which also answers several and what is no range."""
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        # The last 0 bytes are none, and cannot be answered.
        return Range(-min(int(found[2]), _LARGEST), 0) if int(found[2]) else Range(_LARGEST, 0)
    first = min(int(found[1]), _LARGEST)
    if not found[2]:
        return Range(first, 0)
    length = int(found[2]) - first + 1
    return Range(first, min(length, _LARGEST)) if length > 0 else None


def not_satisfiable(size: int) -> GroveError:
    """Nothing of the file lies in the range."""
    return GroveError(
        "grovekeeper_range_not_satisfiable",
        "The file has no bytes in that range.",
        param="Range",
        detail={"bytes": size},
    )
