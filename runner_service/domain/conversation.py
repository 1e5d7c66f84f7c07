"""The conversation before a turn, as its agent may be shown it now.

What either side said stays said. What a memory tool returned was a memory's, and is shown again only while every
memory it tells of may be read by the harness (Memories §3.3).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, cast

from runner_service.domain.errors import GroveError
from runner_service.domain.fence import enclosed, unfenced
from runner_service.domain.inputs import read_input
from runner_service.domain.model import Item, Message, PastTurn

__all__ = ["WITHHELD", "conversation", "memories_told"]

WITHHELD: Final = "What this call returned is of a memory that may not be read any more."
"""Stands in the place of an answer that may not be shown again."""

_UNTOLD: Final = ""
"""The memory of an answer that cannot be looked into, which nobody may read."""
_WITHIN: Final = ("results", "records", "versions", "memories", "children", "parent", "record")
"""Where a tool's answer names what it tells of. What a writer may fill, ``content`` and the like, is not looked at."""


def memories_told(past: Sequence[PastTurn]) -> frozenset[str]:
    """Ids of the memories of which tools told in these turns."""
    return frozenset(one for turn in past for item in turn.output for one in _told(item)) - {_UNTOLD}


def conversation(past: Sequence[PastTurn], readable: frozenset[str]) -> tuple[Item, ...]:
    """Earlier turns as items, oldest first: what was said by either side, what was called, what was answered."""
    items: list[Item] = []
    for turn in past:
        with suppress(GroveError):  # its contents are gone
            items += [_said(one) for one in read_input(turn.input)]
        items += [
            item if readable.issuperset(_told(item)) else item | {"output": WITHHELD} for item in turn.output
        ]
    return tuple(items)


def _told(item: Item) -> Iterable[str]:
    if item["type"] != "function_call_output":
        return ()
    output = str(item["output"])
    data = unfenced(output)
    if data is None:
        return (_UNTOLD,) if enclosed(output) else ()
    return _named(data)


def _named(data: Item) -> Iterator[str]:
    yield from (str(data[name]) for name in ("memory", "id") if name in data)
    for name in _WITHIN:
        found = data.get(name)
        for one in cast("list[object]", found) if isinstance(found, list) else (found,):
            if isinstance(one, dict):
                yield from _named(cast("Item", one))


def _said(message: Message) -> Item:
    return {"type": "message", "role": message.role, "text": message.text}
