"""What is asked of background work: by an operator of every memory, by a reader of one. No contents."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from provider_workers.domain import checks, errors
from provider_workers.domain.model import Backlog, Job, JobKey, JobPage, Page
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

__all__ = ["STATUSES", "BackgroundWork", "JobKeeper"]

STATUSES: Final = ("pending", "completed", "failed", "queued", "running", "stopped")
"""Of derivations the first three; of consolidation runs those of section 9.2."""
_UNDONE: Final = ("pending", "failed", "queued", "running")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


class JobKeeper(Protocol):
    """A provider whose derivations, and consolidation runs if it has some, are jobs."""

    async def list(self, statuses: Sequence[str], after: JobKey | None, limit: int) -> tuple[Job, ...]:
        """Jobs of every memory, newest first, after the one with this key."""
        ...

    async def find(self, job_id: str) -> Job | None:
        """A derivation of any memory."""
        ...

    async def retry(self, job_id: str) -> Job:
        """Begin a failed derivation again, so that nothing is derived twice. ``grovekeeper_not_found``;
        ``grovekeeper_conflict`` for one that has not failed.
        """
        ...

    async def backlog(self, memory_id: str) -> Backlog:
        """What is still to be done in one memory."""
        ...


class BackgroundWork:
    """The jobs of all providers that keep some, by provider id."""

    def __init__(self, keepers: Mapping[str, JobKeeper]) -> None:
        self._keepers = keepers

    async def list(self, provider: str, statuses: Sequence[str], page: Page) -> JobPage:
        """Newest first; without ``statuses`` those that have not ended well."""
        if not set(statuses) <= set(STATUSES):
            raise errors.invalid(f"A job's status is one of {', '.join(STATUSES)}.", "status")
        limit, after = clamp_limit(page.limit), _after(page.cursor)
        found = [
            job
            for name, keeper in self._keepers.items()
            if provider in ("", name)
            for job in await keeper.list(statuses or _UNDONE, after, limit + 1)
        ]
        found.sort(key=lambda one: (one.created_at, one.id), reverse=True)
        more = len(found) > limit
        last = found[limit - 1] if more else None
        cursor = "" if last is None else encode_cursor((last.created_at - _EPOCH) // _TICK, last.id)
        return JobPage(tuple(found[:limit]), cursor)

    async def retry(self, job_id: str) -> Job:
        """Begin a failed job of any provider again."""
        checks.identifier(job_id, "job_id")
        for keeper in self._keepers.values():
            if await keeper.find(job_id) is not None:
                return await keeper.retry(job_id)
        raise errors.job_not_found()

    async def backlog(self, provider: str, memory_id: str) -> Backlog:
        """What is still to be done in one memory. ``memory_unsupported`` where the provider keeps no jobs."""
        checks.identifier(memory_id, "memory_id")
        keeper = self._keepers.get(provider)
        if keeper is None:
            raise errors.unsupported("background derivation")
        return await keeper.backlog(memory_id)


def _after(cursor: str) -> JobKey | None:
    if not cursor:
        return None
    ticks, job_id = decode_cursor(cursor, 2)
    if not isinstance(ticks, int) or not isinstance(job_id, str) or not 0 <= ticks < 253_402_300_799_000_000:
        raise errors.invalid("The cursor is not one this server gave out.", "cursor")
    return _EPOCH + timedelta(microseconds=ticks), job_id
