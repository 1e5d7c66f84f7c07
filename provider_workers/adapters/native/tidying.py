"""What is kept for a while only: finished jobs, what derivation took each day, and the answers of idempotency keys."""

from typing import Final

from service_kit.db.pool import Database

__all__ = ["Tidying"]

_BATCH: Final = 1_000


class Tidying:
    """Jobs are kept ``keep_jobs_days`` after their end, usage as long after its day, keys ``keep_keys_hours`` after their use."""

    def __init__(self, database: Database, keep_jobs_days: int, keep_keys_hours: int) -> None:
        self._database = database
        self._keep_jobs_days = keep_jobs_days
        self._keep_keys_hours = keep_keys_hours

    async def run(self) -> None:
        """One pass, a batch in each transaction."""
        while await self._drop_jobs() == _BATCH:
            pass
        while await self._drop_usage() == _BATCH:
            pass
        while await self._drop_keys() == _BATCH:
            pass

    async def _drop_jobs(self) -> int:
        async with self._database.begin() as tx:
            return await tx.execute(
                "delete from job where (memory_id, job_id) in (select memory_id, job_id from job"
                " where finished_at < now() - make_interval(days => %s) limit %s)",
                (self._keep_jobs_days, _BATCH),
            )

    async def _drop_usage(self) -> int:
        async with self._database.begin() as tx:
            return await tx.execute(
                "delete from derivation_usage where (memory_id, day) in (select memory_id, day from derivation_usage"
                " where day < (now() at time zone 'utc')::date - %s limit %s)",
                (self._keep_jobs_days, _BATCH),
            )

    async def _drop_keys(self) -> int:
        async with self._database.begin() as tx:
            return await tx.execute(
                "delete from idempotency where (principal, operation, key) in"
                " (select principal, operation, key from idempotency"
                " where created_at < now() - make_interval(hours => %s) limit %s)",
                (self._keep_keys_hours, _BATCH),
            )
