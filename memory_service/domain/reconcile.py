"""Mending what a crash left half done between authz and this service."""

import logging
from datetime import datetime, timedelta
from typing import Final

from memory_service.domain.clear import clear_deleted, forget_memories
from memory_service.domain.model import Page
from memory_service.domain.ports import AccessTree, Descriptions
from service_kit.clock import Clock

SETTLED: Final = timedelta(minutes=1)
"""Younger memories may be in the middle of being created; they are left alone."""
KEYS_KEPT: Final = timedelta(hours=48)
"""How long an idempotency key is kept (the specification asks for 24 hours at least)."""

_BATCH: Final = 200
_log = logging.getLogger(__name__)


class Reconciler:
    """Compares the two sides: nodes without a description are discarded, descriptions without a node purged,
    and what was deleted is cleared.
    """

    def __init__(self, access: AccessTree, descriptions: Descriptions, clock: Clock) -> None:
        self._access = access
        self._descriptions = descriptions
        self._clock = clock

    async def run(self) -> None:
        """One pass over everything that has settled, in batches."""
        before = self._clock.now() - SETTLED
        await clear_deleted(self._access, self._descriptions)
        discarded = await self._discard_half_created(before)
        purged = await self._purge_half_deleted(before)
        await self._descriptions.drop_old_keys(self._clock.now() - KEYS_KEPT)
        if discarded or purged:
            _log.warning("reconciled: %d half-created, %d half-deleted memories", discarded, purged)

    async def _discard_half_created(self, before: datetime) -> int:
        cursor, total = "", 0
        while True:
            ids, cursor = await self._access.older_than(before, Page(_BATCH, cursor))
            described = await self._descriptions.get(ids)
            orphans = [one for one in ids if one not in described]
            if orphans:
                await self._access.discard(orphans)
                total += len(orphans)
            if not cursor:
                return total

    async def _purge_half_deleted(self, before: datetime) -> int:
        after, total = "", 0
        while True:
            ids = await self._descriptions.ids_after(after, _BATCH, before)
            if not ids:
                return total
            after = ids[-1]
            there = await self._access.existing(ids)
            gone = [one for one in ids if one not in there]
            if gone:
                await forget_memories(self._descriptions, gone, before)
                total += len(gone)
