"""Resolving references with the reader's privileges (Memories, section 4.2)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from memory_service.domain.model import Privilege, Record, Reference
from memory_service.domain.ports import AccessTree, Descriptions, Provider

_BATCH: Final = 1_000

Target = tuple[str, str]


class References:
    """Says of each reference whether its reader can follow it."""

    def __init__(self, access: AccessTree, descriptions: Descriptions, provider: Provider) -> None:
        self._access = access
        self._descriptions = descriptions
        self._provider = provider

    async def resolve(self, records: Sequence[Record]) -> tuple[Record, ...]:
        """The records with every reference resolved.

        One that cannot be followed, because the reader may not read the target's memory or because the
        target is gone, keeps its two ids and nothing else: the two cases look the same.
        """
        targets = {(one.memory_id, one.record_id) for record in records for one in record.references}
        if not targets:
            return tuple(records)
        available = await self._available(targets)
        return tuple(
            replace(record, references=tuple(_seen(one, available) for one in record.references))
            for record in records
        )

    async def _available(self, targets: Iterable[Target]) -> frozenset[Target]:
        """The targets the caller may read and that exist."""
        by_memory: dict[str, set[str]] = defaultdict(set)
        for memory_id, record_id in targets:
            by_memory[memory_id].add(record_id)
        readable: set[str] = set()
        memory_ids = sorted(by_memory)
        for start in range(0, len(memory_ids), _BATCH):
            batch = memory_ids[start : start + _BATCH]
            readable |= await self._access.check_many(batch, Privilege.READ)
        by_provider: dict[str, list[Target]] = defaultdict(list)
        for description in (await self._descriptions.get(sorted(readable))).values():
            by_provider[description.provider] += [
                (description.id, record_id) for record_id in by_memory[description.id]
            ]
        found: set[Target] = set()
        for provider, asked in by_provider.items():
            found |= await self._provider.exist(provider, asked)
        return frozenset(found)


def _seen(reference: Reference, available: frozenset[Target]) -> Reference:
    if (reference.memory_id, reference.record_id) in available:
        return replace(reference, available=True)
    return Reference("", reference.memory_id, reference.record_id, available=False)
