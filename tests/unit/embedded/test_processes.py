"""Families of processes: what they say when one ends, how they are stopped, what outlives their parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from service_kit.embedded import state
from service_kit.embedded.errors import LaunchError, Stopped, TookTooLongError
from service_kit.embedded.processes import Command, Family

PATIENCE_S = 20.0


def python(tmp_path: Path, code: str, log: str = "child.log") -> Command:
    return Command(argv=[sys.executable, "-c", code], env=dict(os.environ), log=tmp_path / log, cwd=tmp_path)


SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def family() -> Generator[Family]:
    made = Family()
    yield made
    made.stop(list(made.children), 0.0, lambda: True)


def up(log: Path) -> bool:
    return log.exists() and "up" in log.read_text()


def gone(pid: int) -> bool:
    return state.started_at(pid) == ""


def test_a_child_that_ends_by_itself_is_named_with_its_code_its_words_and_its_log(
    tmp_path: Path, family: Family
):
    family.spawn("memory", python(tmp_path, "import sys; sys.exit('ValueError: no such thing')"))
    with pytest.raises(LaunchError) as failure:
        family.until(lambda: False, PATIENCE_S, "waiting")
    log = tmp_path / "child.log"
    assert (
        failure.value.message == f"memory ended with exit code 1 (ValueError: no such thing); its log: {log}"
    )


def test_a_child_that_is_killed_is_named_with_the_signal(tmp_path: Path, family: Family):
    child = family.spawn("provider", python(tmp_path, SLEEPS))
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(LaunchError, match="provider ended with signal SIGKILL"):
        family.until(lambda: False, PATIENCE_S, "waiting")


def test_the_words_of_an_earlier_run_are_not_taken_for_this_ones(tmp_path: Path, family: Family):
    (tmp_path / "child.log").write_text("FATAL: long ago\n")
    child = family.spawn("memory", python(tmp_path, "import sys; print('bye'); sys.exit(3)"))
    family.children.clear()
    Family().until(lambda: child.ended() is not None, PATIENCE_S, "the end")
    assert child.how() == "ended with exit code 3 (bye)"


def test_the_message_of_a_json_log_line_is_what_is_told(tmp_path: Path, family: Family):
    line = '{"level": "ERROR", "message": "cannot listen on 127.0.0.1:1"}'
    child = family.spawn(
        "authz", python(tmp_path, f"print('''{line}'''); print('{{}}'); raise SystemExit(1)")
    )
    Family().until(lambda: child.ended() is not None, PATIENCE_S, "the end")
    assert child.last_words() == "error: cannot listen on 127.0.0.1:1"
    family.children.clear()


def test_what_cannot_be_started_is_said(tmp_path: Path, family: Family):
    command = Command(argv=["/no/such/program"], env={}, log=tmp_path / "log", cwd=tmp_path)
    with pytest.raises(LaunchError, match="gateway cannot be started"):
        family.spawn("gateway", command)


def test_commands_run_side_by_side_and_one_failure_fails_all(tmp_path: Path):
    jobs = {
        "one": python(tmp_path, "pass", "one.log"),
        "two": python(tmp_path, "raise SystemExit(4)", "two.log"),
    }
    with pytest.raises(LaunchError, match="two ended with exit code 4"):
        Family().run(jobs, PATIENCE_S)
    Family().run({"one": jobs["one"]}, PATIENCE_S)


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path):
    with pytest.raises(TookTooLongError, match="slow took longer than 0 s"):
        Family().run({"slow": python(tmp_path, SLEEPS)}, 0.3)


def test_waiting_ends_when_the_operator_wants_the_end():
    with pytest.raises(Stopped):
        Family(stopping=lambda: True).until(lambda: False, PATIENCE_S, "nothing")


def test_a_stubborn_child_is_forced_when_its_grace_is_over_or_haste_is_asked_for(
    tmp_path: Path, family: Family
):
    for grace_s, hurry in ((0.1, False), (600.0, True)):
        child = family.spawn("runner", python(tmp_path, STUBBORN, f"{hurry}.log"))
        family.until(lambda hurry=hurry: up(tmp_path / f"{hurry}.log"), PATIENCE_S, "the child")
        family.stop(["runner"], grace_s, lambda hurry=hurry: hurry)
        assert child.ended() == -signal.SIGKILL
        assert family.children == {}


def test_what_a_child_started_ends_with_it(tmp_path: Path, family: Family):
    code = f"import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}])\nprint(p.pid, flush=True)\np.wait()"
    family.spawn("runner", python(tmp_path, code))
    log = tmp_path / "child.log"
    family.until(lambda: up(log), PATIENCE_S, "the grandchild")
    grandchild = int(log.read_text().split()[0])
    family.stop(["runner"], PATIENCE_S, lambda: False)
    Family().until(lambda: gone(grandchild), PATIENCE_S, "the grandchild's end")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_children_do_not_outlive_a_killed_parent(tmp_path: Path):
    code = (
        "import sys, time; from pathlib import Path; from service_kit.embedded.processes import Command, Family\n"
        f"child = Family().spawn('x', Command(argv=[sys.executable, '-c', {SLEEPS!r}], env={{}}, log=Path('x.log'), cwd=Path('.')))\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        Family().until(lambda: up(tmp_path / "x.log"), PATIENCE_S, "the child")
        parent.kill()
    Family().until(lambda: gone(pid), PATIENCE_S, "the child's end")


def test_a_log_that_grew_too_long_is_moved_aside_and_written_on(tmp_path: Path, family: Family):
    code = "import time\nfor _ in range(600): print('x' * 999, flush=True); time.sleep(0.005)\nprint('up', flush=True); time.sleep(600)"
    family.spawn("memory", python(tmp_path, code))
    log = tmp_path / "child.log"
    family.until(lambda: log.stat().st_size > 50_000, PATIENCE_S, "some output")
    family.rotate(50_000)
    assert (tmp_path / "child.log.1").stat().st_size > 50_000
    family.until(lambda: up(log), PATIENCE_S, "the rest")
    assert not log.read_bytes().startswith(b"\0")


def test_a_process_is_told_from_a_later_one_with_the_same_id(tmp_path: Path, family: Family):
    child = family.spawn("memory", python(tmp_path, SLEEPS))
    started = state.started_at(child.pid)
    assert state.alive(state.Member(child.pid, started))
    assert not state.alive(state.Member(child.pid, "0"))
    family.stop(["memory"], 0.0, lambda: True)
    assert not state.alive(state.Member(child.pid, started))
