"""A provider on a real Postgres and the plain model never disagree, whatever is done to both.

``make test`` takes the same 3,000 steps every time; ``make soak`` takes as many new ones as it is told.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from pydantic import SecretStr

from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.embedding.encoder import Vector
from provider_workers.settings import Settings
from service_kit.db.pool import connect
from service_kit.errors import GroveError
from service_kit.jobs import Jobs
from tests.contract.providers.subject import Subject
from tests.contract.records.machine import RecordsMachine

SOAK = int(os.environ.get("GROVE_SOAK_STEPS", "0"))
STEPS = 3_000
LONGEST = 60
_Answer = TypeVar("_Answer")


class _NoModel:
    """An embedder that is away: what is looked at here does not depend on meaning."""

    generation = "none"
    dimension = 4

    async def warm(self) -> None:
        return None

    async def embed(self, texts: object) -> list[Vector]:
        raise GroveError("memory_unavailable", "There is no model.")

    async def aclose(self) -> None:
        return None


class Deployment:
    """A provider, and a loop to run it in."""

    def __init__(self, dsn: str) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.subject: Subject = self.runner.run(self._begin(dsn))

    async def _begin(self, dsn: str) -> Subject:
        told = Settings(database_url=SecretStr(dsn))
        database = await self.stack.enter_async_context(connect(told, "provider"))
        jobs = Jobs("provider", told)
        adapter = NativeProvider(database, _NoModel(), jobs, Options(derivation="none"))
        return Subject(adapter, jobs.run_pending)

    def run(self, call: Awaitable[_Answer]) -> _Answer:
        async def wait() -> _Answer:
            return await call

        return self.runner.run(wait())

    def close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()


@pytest.fixture
def deployment(service_database: Callable[[str], str]) -> Generator[Deployment]:
    made = Deployment(service_database("provider"))
    yield made
    made.close()


@pytest.mark.requirement("ME-5.3-01", "ME-5.3-04", "ME-5.2-01", "ME-4-06", "ME-6.2-03")
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_answer_differs_from_the_models(deployment: Deployment) -> None:
    class Machine(RecordsMachine):
        world = deployment

    steps = SOAK or STEPS
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=steps * 2 // LONGEST + 5,
            stateful_step_count=LONGEST,
            derandomize=not SOAK,
            database=None,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    assert steps <= Machine.steps
