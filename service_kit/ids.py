"""Identifiers: a prefix that says the kind, and 32 hex digits that sort by the time of making.

The digits are a UUID version 7 (RFC 9562 §5.7) whose ``rand_a`` carries the fraction of the
millisecond (§6.2, method 3), so ids made by one process sort in the order they were made.
"""

import re
import secrets
import time
from typing import Final

__all__ = ["is_id", "new_id"]

_DIGITS: Final = re.compile(r"[0-9a-f]{32}")
_last = 0


def _stamp() -> int:
    """60 bits: milliseconds since the epoch and 12 bits of their fraction; never the same twice."""
    global _last  # noqa: PLW0603 - one clock per process is the point
    nanoseconds = time.time_ns()
    stamp = (nanoseconds // 1_000_000 << 12) | (nanoseconds % 1_000_000 * 4096 // 1_000_000)
    _last = max(stamp, _last + 1)
    return _last


def new_id(prefix: str) -> str:
    """``new_id("hmem")`` -> ``hmem_0199…`` (prefix, underscore, 32 hex digits)."""
    stamp = _stamp()
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | secrets.randbits(62)
    return f"{prefix}_{value:032x}"


def is_id(prefix: str, value: str) -> bool:
    """Whether ``value`` has the shape of an id of this kind (it may still name nothing)."""
    head, separator, digits = value.partition("_")
    return head == prefix and separator == "_" and _DIGITS.fullmatch(digits) is not None
