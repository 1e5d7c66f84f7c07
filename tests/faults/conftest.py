"""Fixtures of what is killed."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from service_kit.identity import generate_keys
from tests.faults.worker import Process


@pytest.fixture
def start(service_database: Callable[[str], str], tmp_path: Path) -> Generator[Callable[..., Process]]:
    """Starts processes on one database; every one is gone after the test."""
    dsn = service_database("provider")
    private, public = generate_keys()
    (tmp_path / "private.json").write_text(private)
    (tmp_path / "public.json").write_text(public)
    started = list[Process]()

    def one(**more: str) -> Process:
        started.append(Process(dsn, tmp_path / "public.json", tmp_path / f"{len(started)}.log", more))
        return started[-1]

    yield one
    for process in started:
        if process.process.poll() is None:
            process.kill()
