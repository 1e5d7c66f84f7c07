"""Whom Postgres runs as when root starts it, and what that user can reach."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from service_kit.embedded import privileges
from service_kit.embedded.errors import LaunchError
from service_kit.embedded.postgres import find_pg_bin
from service_kit.embedded.privileges import Identity, give, published, reachable, unprivileged
from tests.fixtures.parts import short_directory

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def open_directory() -> Generator[Path]:
    """A directory everybody can walk into, unlike pytest's own."""
    with short_directory() as made:
        made.chmod(0o755)
        yield made


def test_what_lies_below_a_closed_directory_is_out_of_reach(open_directory: Path):
    closed = open_directory / "closed"
    inner = closed / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")
    assert reachable(inner / "file")
    closed.chmod(0o700)
    assert not reachable(inner / "file")
    assert not reachable(inner / "missing")


def test_hidden_binaries_are_copied_once_to_where_everybody_can_run_them(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
):
    hidden = open_directory / "hidden"
    program = hidden / "part" / "bin" / "program"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    (hidden / "other").mkdir()
    monkeypatch.setattr(privileges, "_PUBLIC", ("/proc/nowhere", str(open_directory / "public")))
    root = published(hidden, ("part", "missing"), "copy-1")
    assert root == open_directory / "public" / "copy-1"
    assert (root / "part" / "bin" / "program").stat().st_mode & 0o777 == 0o755
    assert [one.name for one in root.iterdir()] == ["part"]
    program.unlink()
    assert published(hidden, ("part",), "copy-1") == root
    assert (root / "part" / "bin" / "program").exists()


def test_when_there_is_no_public_place_the_operator_is_told(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(privileges, "_PUBLIC", ("/proc/nowhere",))
    with pytest.raises(LaunchError, match="cannot reach"):
        published(open_directory, (), "copy-1")


@only_root
def test_the_owner_of_existing_data_is_whom_it_runs_as(open_directory: Path):
    data = open_directory / "data"
    fresh = unprivileged(data)
    assert fresh is not None
    assert fresh.uid != 0
    data.mkdir()
    give(data, Identity(4321, 4321))
    assert unprivileged(data) == Identity(4321, 4321)


def test_the_installed_postgres_says_its_version():
    assert int(find_pg_bin().version().partition(".")[0]) >= 17
