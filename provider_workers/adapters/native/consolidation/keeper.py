"""Consolidation runs of the native provider: started, read, reverted, and due by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from provider_workers.adapters.native.consolidation.due import Dues, When
from provider_workers.adapters.native.consolidation.reverting import revert
from provider_workers.adapters.native.consolidation.runs import Runs, add, of_run, open_runs
from provider_workers.adapters.native.consolidation.summaries import Summaries
from provider_workers.adapters.native.consolidation.working import ATTEMPTS, CONSOLIDATE, Working
from provider_workers.adapters.native.keys import Claim, claim, settle
from provider_workers.adapters.native.languages import Languages
from provider_workers.adapters.native.vectors import Vectors
from provider_workers.domain import errors
from provider_workers.domain.consolidations import Budget, ChangePage, Due, Run, RunPage, Wanted
from provider_workers.domain.model import Page, Stamp
from service_kit.db.pool import Database
from service_kit.jobs import Jobs

__all__ = ["Consolidation", "Tidy"]

MOST_OPEN: Final = 4
"""Runs of one memory that work or wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidy:
    """What an operator may set of consolidation; see ``settings``."""

    similarity: float = 0.9
    alike: float = 0.6
    seconds: int = 600
    summary_episodes: int = 20
    when: When = field(default_factory=When)


class Consolidation:
    """The verbs of ``provider_workers.domain.consolidations.ConsolidationKeeper``. Registers its task on ``jobs``."""

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        jobs: Jobs,
        told: Tidy,
        answer_bytes: int,
        languages: Languages,
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._budget = Budget(told.seconds, "seconds")
        self._runs = Runs(database, answer_bytes)
        self._dues = Dues(database, told.when)
        bounds = told.similarity, told.alike, told.when.at_once
        summaries = Summaries(vectors, told.summary_episodes, languages)
        working = Working(database, vectors, jobs, summaries, bounds)
        jobs.task(CONSOLIDATE, working.run, attempts=ATTEMPTS)

    async def start(self, memory_id: str, wanted: Wanted, stamp: Stamp) -> Run:
        claimed = Claim(stamp, "consolidate", memory_id)
        async with self._database.begin() as tx:
            done = await claim(tx, claimed)
            if done is not None:
                return await of_run(tx, memory_id, done["job_id"])
            if await open_runs(tx, memory_id) >= MOST_OPEN:
                raise errors.too_many_runs(MOST_OPEN)
            await add(tx, memory_id, wanted, wanted.budget or self._budget)
            await self._jobs.defer(tx, CONSOLIDATE, {"memory_id": memory_id, "run_id": wanted.run_id})
            await settle(tx, claimed, job_id=wanted.run_id)
            return await of_run(tx, memory_id, wanted.run_id)

    async def run(self, memory_id: str, run_id: str) -> Run:
        return await self._runs.run(memory_id, run_id)

    async def runs(self, memory_id: str, page: Page) -> RunPage:
        return await self._runs.runs(memory_id, page)

    async def changes(self, memory_id: str, run_id: str, page: Page) -> ChangePage:
        return await self._runs.changes(memory_id, run_id, page)

    async def revert(self, memory_id: str, run_id: str, stamp: Stamp) -> Run:
        return await revert(self._database, memory_id, run_id, stamp)

    async def due(self) -> Sequence[Due]:
        return await self._dues.due()
