"""Numbers of nodes in the order of their ids, in four bytes each."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TypeAlias

Numbers: TypeAlias = "array[int]"
"""In the order of ids."""


def put(numbers: Numbers, number: int, ids: Sequence[str]) -> None:
    """Add a number that is not there."""
    if not numbers or ids[numbers[-1]] < ids[number]:
        numbers.append(number)  # new ids are greater than older ones, mostly
    else:
        numbers.insert(bisect_left(numbers, ids[number], key=ids.__getitem__), number)


def take(numbers: Numbers, number: int, ids: Sequence[str]) -> None:
    """Remove a number that is there."""
    del numbers[bisect_left(numbers, ids[number], key=ids.__getitem__)]


def after(numbers: Numbers, key: str, ids: Sequence[str]) -> Numbers:
    """Those whose ids are greater."""
    return numbers[bisect_right(numbers, key, key=ids.__getitem__) :] if key else numbers
