"""Keeping a conversation within what a model can read: its oldest turns are left out, and that is said.

No summary is made: nobody could vouch for it. What matters beyond a conversation is what memories are for. The
cut depends on the turns alone and moves rarely, by half the bound at once, so that what a model is shown stays
the same from turn to turn and a prompt cache holds.
"""

from collections.abc import Sequence

from runner_service.domain.model import Item

__all__ = ["compact"]


def compact(history: Sequence[Item], most: int) -> tuple[Sequence[Item], int, bool]:
    """``history`` (oldest first) within ``most`` characters, how many turns were left out of it, and whether some
    of them are left out for the first time now. The last turn always stays, however long it is.
    """
    turns = _turns(history)
    sizes = [sum(_size(item) for item in turn) for turn in turns]
    cut = _cut(sizes, most)
    if not cut:
        return history, 0, False
    kept: list[Item] = [_note(cut)]
    for turn in turns[cut:]:
        kept += turn
    return kept, cut, cut != _cut(sizes[:-1], most)


def _cut(sizes: Sequence[int], most: int) -> int:
    """The first turn that is kept, found as it was found turn by turn: over the bound, down to half of it."""
    first, total = 0, 0
    for last, size in enumerate(sizes):
        total += size
        if total > most:
            while first < last and total > most // 2:
                total -= sizes[first]
                first += 1
    return first


def _turns(history: Sequence[Item]) -> list[list[Item]]:
    """A turn begins where something is asked after something was answered."""
    turns: list[list[Item]] = []
    asking = False
    for item in history:
        asked = item["type"] == "message" and "text" in item and item["role"] != "assistant"
        if not turns or (asked and not asking):
            turns.append([])
        turns[-1].append(item)
        asking = asked
    return turns


def _size(item: Item) -> int:
    return sum(len(str(item[field])) for field in ("text", "content", "arguments", "output") if field in item)


def _note(turns: int) -> Item:
    text = f"The first {turns} turns of this conversation are left out, because it has grown too long to be shown whole."
    return {"type": "message", "role": "system", "text": text}
