"""Attaching is granting (Memories, section 9)."""

from collections.abc import Sequence
from typing import Final

from authz_service.domain import errors
from authz_service.domain.add_grant import Giving
from authz_service.domain.caller import Caller, cap_of
from authz_service.domain.decide import demand
from authz_service.domain.model import Entry, Privilege
from authz_service.domain.ports import Store, View
from service_kit.clock import Clock
from service_kit.ids import is_id

MOST: Final = 64
"""Most memories one harness names: they travel in every passport of it, and a call's metadata is small."""


class AttachHarness:
    """The use case."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Store = store
        self._clock: Clock = clock

    async def __call__(self, caller: Caller, harness: str, entries: Sequence[Entry]) -> None:
        """Give ``harness`` what it lacks to be attached as asked; all entries or none.

        What it holds already, by any grant that reaches there, stays as it is, whoever asks. The rest is
        granted where the caller holds ``delete``; elsewhere ``memory_forbidden`` or ``memory_not_found``,
        naming the entry. ``invalid_input`` and, for a memory named twice or with too many grants,
        ``memory_invalid``.
        """
        if not is_id("chrn", harness):
            raise errors.invalid_input("A harness id is chrn_ and 32 hexadecimal digits.", "harness_id")
        check_entries(entries, MOST)
        principal, ids = f"harness:{harness}", [one.memory_id for one in entries]
        # Nobody who may not takes the lock, and only under it is the decision final.
        async with self._store.view() as view:
            lacking = await _lacking(view, caller, principal, entries)
        if not lacking:
            return
        async with self._store.change() as tx:
            await tx.hold_line(ids)
            give = Giving(tx, "harness.attach", self._clock.now())
            for node, needs in await _lacking(tx, caller, principal, entries):
                await give(node, principal, needs)


async def _lacking(
    view: View, caller: Caller, principal: str, entries: Sequence[Entry]
) -> list[tuple[str, int]]:
    """What ``principal`` has to be granted, and where; refused where ``caller`` may not."""
    ids = [one.memory_id for one in entries]
    held = await view.places(Caller.whole(principal), ids)
    seen = await view.places(caller, ids)
    lacking: list[tuple[str, int]] = []
    for index, (entry, has, place) in enumerate(zip(entries, held, seen, strict=True)):
        needs = cap_of(entry.access)
        if has is not None and has.mask & needs == needs:
            continue
        demand(place, Privilege.DELETE, f"memories.{index}.memory_id")
        lacking.append((entry.memory_id, needs))
    return lacking


def check_entries(entries: Sequence[Entry], most: int, *, once: bool = True) -> None:
    """``invalid_input`` for too many entries or an unknown access; with ``once`` ``memory_invalid`` for a
    memory named twice.
    """
    if len(entries) > most:
        raise errors.invalid_input(f"At most {most} memories are attached.", "memories")
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry.access not in ("read", "write"):
            raise errors.invalid_input("The access is read or write.", f"memories.{index}.access")
        if once and entry.memory_id in seen:
            raise errors.memory_invalid("A memory is attached once.", f"memories.{index}.memory_id")
        seen.add(entry.memory_id)
