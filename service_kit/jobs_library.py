"""The job queue's library, with the spots mended where it would let a job go or hold it for ever."""

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import procrastinate
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.worker import Worker

__all__ = ["UNKEYED", "Backoff", "Connector", "MendedWorker"]

_MAX_DELAY_S: Final = 300.0
_PERSIST_PAUSES_S: Final = (0.1, 0.5, 2.0)
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backoff(BaseRetryStrategy):
    """When a failed attempt is followed by another: ``base``, doubled each time, with jitter."""

    attempts: int
    base_s: float

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if isinstance(exception, asyncio.CancelledError):
            # Cut short by our own stopping: nobody's fault, at once and always.
            return RetryDecision(retry_at=datetime.now(UTC))
        if job.attempts + 1 >= self.attempts:
            _log.error(
                "job %s of %s is quarantined after %d attempts", job.id, job.task_name, job.attempts + 1
            )
            return None
        delay = min(self.base_s * 2**job.attempts, _MAX_DELAY_S) * random.uniform(0.8, 1.2)  # noqa: S311
        return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=delay))


class Connector(procrastinate.PsycopgConnector):
    """procrastinate's connector on pools of ours, one after the other."""

    async def close_async(self) -> None:
        """Let go of the pool; the original would keep a given one, closed, through every later opening."""
        self._async_pool = None


UNKEYED: Final = "update procrastinate_jobs set queueing_lock = null where id = %(job_id)s"
"""A key keeps a second job from waiting beside the first. One that goes back to waiting has lost it: another may
have come meanwhile, and two that wait under one key are refused for ever.
"""


class MendedWorker(Worker):
    """procrastinate's worker, with three of its weak spots mended."""

    async def _periodic_deferrer(self) -> None:
        """Its watch over its side tasks ends when one of them returns, so this one, which has nothing to
        do (periodic jobs are ours), must not.
        """
        await asyncio.Event().wait()

    async def _persist_job_status(self, *args: Any, **kwargs: Any) -> None:
        """A job whose end is not written down would be held for as long as this worker lives: try again,
        and then let go of everything by registering anew.
        """
        job, again = kwargs["job"], kwargs["retry_decision"]
        if again is not None and job.queueing_lock is not None:
            await self.app.connector.execute_query_async(UNKEYED, job_id=job.id)
        for pause in _PERSIST_PAUSES_S:
            try:
                return await super()._persist_job_status(*args, **kwargs)
            except ConnectorException:
                await asyncio.sleep(pause)
        try:
            await super()._persist_job_status(*args, **kwargs)
        except ConnectorException:
            _log.warning("the end of a job could not be written down; it will run again")
            self.stop()
