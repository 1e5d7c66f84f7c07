"""Authz on a real Postgres and the naive model never disagree, whatever is done to both.

``make test`` takes the same 10,000 steps every time; ``make soak`` takes as many new ones as it is told.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from authz_service.domain import list_entry_points as entry_points_module
from authz_service.store import decide, view
from authz_service.store.postgres import PostgresStore
from service_kit.db.pool import Database, Limits
from service_kit.identity import PassportSigner, generate_keys
from tests.api.authz_service.service import Authz, bootstrap, serving
from tests.contract.access.machine import AccessMachine

SOAK = int(os.environ.get("GROVE_SOAK_STEPS", "0"))
STEPS = 10_000
LONGEST = 100
_Answer = TypeVar("_Answer")


class Deployment:
    """Two services on one database, and a loop to run them in."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        keys = (directory / "private.json", directory / "public.json")
        for path, text in zip(keys, generate_keys(), strict=True):
            path.write_text(text)
        self.signer = PassportSigner(keys[0])
        self.services: Sequence[Authz] = []
        self.runner.run(self._begin(dsn, keys, bootstrap(directory)))

    async def _begin(self, dsn: str, keys: tuple[Path, Path], file: Path) -> None:
        self.services = [
            await self.stack.enter_async_context(serving(dsn, keys, file, authz_replica=replica))
            for replica in (False, True)
        ]
        database = await Database.open(dsn, "authz", Limits(maximum=2))
        self.stack.push_async_callback(database.close)
        self.store = PostgresStore(database)

    def run(self, call: Awaitable[_Answer]) -> _Answer:
        async def wait() -> _Answer:
            return await call

        return self.runner.run(wait())

    def close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()


@pytest.fixture(params=[500, 0], ids=["few children", "many children"])
def deployment(
    request: pytest.FixtureRequest,
    service_database: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Any:
    # 0 takes the other way through every listing of children: from the caller's grants.
    monkeypatch.setattr(decide, "FEW", request.param)
    monkeypatch.setattr(view, "FEW", request.param)
    monkeypatch.setattr(entry_points_module, "CHUNK", 3)
    made = Deployment(service_database("authz"), tmp_path)
    yield made
    made.close()


@pytest.mark.requirement("ME-3.1-02", "ME-3.1-03", "ME-3.1-04", "ME-3.2-01", "ME-3.2-02", "ME-3.3-01")
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_answer_differs_from_the_models(deployment: Deployment) -> None:
    class Machine(AccessMachine):
        world = deployment

    steps = (SOAK or STEPS) // 2
    run_state_machine_as_test(
        Machine,
        settings=settings(
            # Some examples end before the longest.
            max_examples=steps * 3 // (2 * LONGEST) + 5,
            stateful_step_count=LONGEST,
            derandomize=not SOAK,
            database=None,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    assert steps <= Machine.steps
