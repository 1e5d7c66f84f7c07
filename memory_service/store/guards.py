"""Which runs are watched: jobs of this service, one for each, that enqueue themselves until the run has ended."""

from typing import Final

from memory_service.domain.consolidations import Guard
from memory_service.domain.model import Address
from service_kit.db.pool import Database
from service_kit.jobs import Jobs, Payload

__all__ = ["WATCH", "JobGuards", "guard_of"]

WATCH: Final = "watch"
_AFTER_S: Final = 1.0


class JobGuards:
    """The verbs of ``domain.consolidations.Guards``. ``jobs`` must know the task :data:`WATCH`."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    async def watch(self, guard: Guard) -> None:
        payload = {
            "provider": guard.address.provider,
            "memory_id": guard.address.memory_id,
            "run_id": guard.run_id,
            "misses": guard.misses,
        }
        async with self._database.begin() as tx:
            await self._jobs.defer(tx, WATCH, payload, after_s=_AFTER_S)


def guard_of(payload: Payload) -> Guard:
    """What a job is about."""
    return Guard(Address(payload["provider"], payload["memory_id"]), payload["run_id"], payload["misses"])
