"""The data directory: whose it is, which format, who runs it."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from service_kit.embedded import home as home_module
from service_kit.embedded.errors import REFUSED, LaunchError, from_os_error
from service_kit.embedded.home import FORMAT, Home, product_version, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_directory_is_laid_out_private_and_marked(tmp_path: Path):
    home = Home(tmp_path / "deep" / "home")
    with home.claim() as first:
        assert first
        assert json.loads(home.marker.read_text()) == {"format": FORMAT, "version": product_version()}
        private = (home.path, home.postgres, home.valkey, home.keys, home.run, home.logs)
        assert [mode(one) for one in private] == [0o700] * 6
    with home.claim() as first:
        assert not first


def test_an_empty_disk_is_as_good_as_a_new_directory(tmp_path: Path):
    (tmp_path / "lost+found").mkdir()
    with Home(tmp_path).claim() as first:
        assert first


def test_a_foreign_directory_is_refused_and_left_as_it_was(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("precious")
    with (
        pytest.raises(LaunchError, match="not empty and not a grovekeeper directory") as refusal,
        Home(tmp_path).claim(),
    ):
        pytest.fail("a foreign directory was taken")
    assert refusal.value.code == REFUSED
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_of_a_newer_release_is_refused(tmp_path: Path):
    (tmp_path / "grovekeeper.json").write_text(json.dumps({"format": FORMAT + 1, "version": "99.1"}))
    with (
        pytest.raises(LaunchError, match=r"written by grovekeeper 99\.1, which is newer") as refusal,
        Home(tmp_path).claim(),
    ):
        pytest.fail("a newer directory was taken")
    assert refusal.value.remedy is not None
    assert refusal.value.remedy.startswith("upgrade")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "x"}', "\x00"])
def test_a_damaged_marker_is_refused_rather_than_guessed_at(tmp_path: Path, text: str):
    (tmp_path / "grovekeeper.json").write_text(text)
    with pytest.raises(LaunchError, match="damaged"):
        Home(tmp_path).judge()


def test_a_file_is_no_directory(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match="is not a directory"):
        Home(tmp_path / "file").judge()


def test_a_second_supervisor_is_told_who_runs_it(tmp_path: Path):
    home = Home(tmp_path / "home")
    with home.claim():
        assert home.held()
        with pytest.raises(LaunchError, match=rf"already running \(pid {os.getpid()}\)"), home.claim():
            pytest.fail("two supervisors at once")
    assert not home.held()
    assert home.holder() is None


def test_the_lock_ends_with_its_process_however_it_ends(tmp_path: Path):
    script = (
        "import os, sys; from pathlib import Path; from service_kit.embedded.home import Home\n"
        "with Home(Path(sys.argv[1])).claim(): os._exit(9)"
    )
    home = Home(tmp_path / "home")
    done = subprocess.run([sys.executable, "-c", script, str(home.path)], check=False, timeout=60)
    assert done.returncode == 9
    assert home.holder() is not None
    with home.claim() as first:
        assert not first


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def little(_path: Path) -> SimpleNamespace:
        return SimpleNamespace(total=10**9, used=10**9, free=4096)

    monkeypatch.setattr(shutil, "disk_usage", little)
    with pytest.raises(LaunchError, match="the disk is full"), Home(tmp_path).claim():
        pytest.fail("started on a full disk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "the disk is full (/x)"),
        (errno.EROFS, "not allowed to write (/x): Read-only file system"),
        (errno.EACCES, "not allowed to write (/x): Permission denied"),
        (errno.EIO, "Input/output error (/x)"),
    ],
)
def test_what_the_file_system_refuses_is_one_clear_line(number: int, told: str):
    assert from_os_error(OSError(number, os.strerror(number), "/x")).message == told


def test_a_disk_that_fills_while_laying_out_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(home_module, "write_private", full)
    with pytest.raises(LaunchError, match="the disk is full"), Home(tmp_path / "home").claim():
        pytest.fail("went on without its marker")


def test_a_private_file_is_replaced_whole_and_readable_by_its_owner_only(tmp_path: Path):
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert (path.read_text(), mode(path)) == ("new", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]
