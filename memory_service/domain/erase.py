"""Erasing records, and what was derived from them in other memories (Memories, section 5.2)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from memory_service.domain import errors
from memory_service.domain.files import Files
from memory_service.domain.model import Address, Erased, Privilege, Stamp
from memory_service.domain.ports import AccessTree, Descriptions
from memory_service.domain.work import Acts
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency

__all__ = ["Copies"]

ERASE: Final = "record.erase"
_AT_ONCE: Final = 1_000
_LOST: Final = frozenset({"memory_not_found", "memory_forbidden", "memory_unsupported"})
"""The right to erase there went between the two decisions, or the provider there erases nothing."""


class Copies:
    """Erases, in the audit before it is done, and follows derived copies as far as the caller's ``delete`` reaches."""

    def __init__(self, access: AccessTree, descriptions: Descriptions, files: Files, acts: Acts) -> None:
        self._access = access
        self._descriptions = descriptions
        self._files = files
        self._acts = acts

    async def erase(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        """What was erased, here and elsewhere, and the copies that could not be: no more than their ids is told
        of a memory the caller may not erase in.
        """
        await self._acts.record(ERASE, address.memory_id, records=str(len(record_ids)))
        first = await self._files.erase(address, record_ids, stamp)
        erased, unreachable = list(first.erased), dict.fromkeys(first.unreachable)
        seen, frontier = set(first.elsewhere), list(first.elsewhere)
        while frontier:
            there = await self._follow(frontier, stamp)
            erased += there.erased
            for one in there.erased:
                unreachable.pop(one, None)
            known = set(erased)
            unreachable |= dict.fromkeys(one for one in there.unreachable if one not in known)
            frontier = [one for one in there.elsewhere if one not in seen]
            seen.update(frontier)
        return Erased(tuple(dict.fromkeys(erased)), tuple(unreachable))

    async def _follow(self, copies: Sequence[tuple[str, str]], stamp: Stamp) -> Erased:
        """Erases those of these copies that lie where the caller holds ``delete``."""
        by_memory: dict[str, list[str]] = defaultdict(list)
        for memory_id, record_id in copies:
            by_memory[memory_id].append(record_id)
        memory_ids, allowed = sorted(by_memory), set[str]()
        for start in range(0, len(memory_ids), _AT_ONCE):
            batch = memory_ids[start : start + _AT_ONCE]
            allowed |= await self._access.check_many(batch, Privilege.DELETE)
        erased, unreachable, elsewhere = list[str](), list[str](), list[tuple[str, str]]()
        for memory_id, found in (await self._descriptions.get(sorted(allowed))).items():
            there = await self._in(Address(found.provider, memory_id), by_memory[memory_id], stamp)
            erased += there.erased
            unreachable += there.unreachable
            elsewhere += there.elsewhere
        return Erased(tuple(erased), tuple(unreachable), tuple(elsewhere))

    async def _in(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        """Erases in one other memory; a record that is gone there meanwhile cannot be read and counts as erased."""
        erased, unreachable, elsewhere = list[str](), list[str](), list[tuple[str, str]]()
        # A key is spent on the memory that was named; doing this again does nothing again.
        unkeyed = Stamp(stamp.writer, Idempotency())
        for record_id in record_ids:
            try:
                await self._acts.record(ERASE, address.memory_id, records="1")
                there = await self._files.erase(address, [record_id], unkeyed)
            except GroveError as error:
                if error.code in _LOST:
                    continue
                if error.code != errors.record_not_found().code:
                    raise
                there = Erased((record_id,), ())
            erased += there.erased
            unreachable += there.unreachable
            elsewhere += there.elsewhere
        return Erased(tuple(erased), tuple(unreachable), tuple(elsewhere))
