"""Removing what deleted memories held: authz makes them unreachable in one step, the rest follows here."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memory_service.domain.ports import AccessTree, Descriptions

_BATCH: Final = 500


async def clear_deleted(access: AccessTree, descriptions: Descriptions) -> int:
    """Lets go of everything that was deleted, level by level; answers how many memories that were.

    Safe to run at any time, again, and twice at once: authz keeps naming a deleted memory until it is told
    that the purge of its records is enqueued.
    """
    total = 0
    while deleted := await access.deleted(_BATCH):
        await forget_memories(descriptions, deleted)
        await access.purge(deleted)
        total += len(deleted)
    return total


async def forget_memories(
    descriptions: Descriptions, memory_ids: Sequence[str], made_before: datetime | None = None
) -> None:
    """Removes descriptions and enqueues the purge of their records, in one transaction. With ``made_before``
    only of those that nobody took up again since.
    """
    async with descriptions.begin() as tx:
        for purge in await tx.remove(memory_ids, made_before):
            await tx.enqueue_purge(purge)
