"""What a command behind the walls can do, and what is left of it afterwards: nothing."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from runner_service.sandbox.running import CommandLostError
from runner_service.sandbox.sandbox import Command, Limits, Sandbox, SpawnError
from service_kit.isolation.probe import Walls
from tests.unit.runner_service.sandbox.programs import ENDS, WAITS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
ROOT = Path(__file__).resolve().parents[4]
SHELL = "/bin/sh"


async def sandbox_of(root: Path, mode: str, limits: Limits | None = None) -> Sandbox:
    """One whose walls are as on a platform without namespaces, where ``mode`` says so."""
    sandbox = Sandbox(limits or Limits(), root)
    walls = await sandbox.walls()
    if mode == "descent":
        sandbox._walls = replace(walls, mode="descent")
    elif mode == "poor":
        sandbox._walls = replace(walls, mode="descent", accounts=None, cgroups=None)
    elif walls.mode != "namespaces":
        pytest.skip("this platform lets us have no namespaces")
    return sandbox


def command(sandbox: Sandbox, script: str, *, session: str = "one", **environment: str) -> Command:
    return Command(
        whose=session,
        argv=[SHELL, "-c", script],
        environment={"PATH": "/usr/bin:/bin", **environment},
        places=sandbox.places(session, Path("/usr/share")),
    )


async def output(sandbox: Sandbox, script: str, **more: str) -> list[str]:
    async with sandbox.running(command(sandbox, script, **more)) as running:
        running.close_input()
        return [line.decode() async for line in running.lines()]


def alive(mark: str) -> list[int]:
    """Sleepers of this test, wherever they hide."""
    found = list[int]()
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"3217.{mark}".encode() in one.read_bytes():
                found.append(int(one.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def mark() -> str:
    return f"{os.getpid()}{time.monotonic_ns()}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    # Every folder above must be open to a turn's own account where there is no tree of its own.
    for one in (tmp_path, *tmp_path.parents):
        if one.stat().st_uid == os.geteuid() and one != Path("/"):
            one.chmod(one.stat().st_mode | 0o011)
    return tmp_path / "sessions"


MODES = pytest.mark.parametrize("mode", ["namespaces", "descent", "poor"])


@pytest.fixture
def kept_to_itself(root: Path) -> Generator[None]:
    """As `grove up` runs its services."""
    root.mkdir()
    before = os.umask(0o077)
    yield
    os.umask(before)


@MODES
@pytest.mark.usefixtures("kept_to_itself")
async def test_a_command_runs_though_the_server_keeps_its_files_to_itself(mode: str, root: Path):
    sandbox = await sandbox_of(root, mode)
    told = await output(
        sandbox, "cat /etc/passwd >/dev/null && echo kept > note && cat note && date >/dev/null && echo ran"
    )
    assert told == ["kept", "ran"]


@MODES
async def test_nothing_is_left_after_a_command_ended_by_itself(mode: str, root: Path, mark: str):
    sandbox = await sandbox_of(root, mode)
    async with sandbox.running(command(sandbox, ENDS.format(mark=mark))) as running:
        assert await anext(running.lines()) == b"ready"
        assert len(alive(mark)) >= 4
        await running.send(b"go on")
        assert await running.code() == 0
    assert not alive(mark)


@MODES
async def test_nothing_is_left_after_a_cancel(mode: str, root: Path, mark: str):
    sandbox = await sandbox_of(root, mode)
    ready = asyncio.Event()

    async def turn() -> None:
        async with sandbox.running(command(sandbox, WAITS.format(mark=mark))) as running:
            async for _ in running.lines():
                ready.set()

    task = asyncio.create_task(turn())
    await asyncio.wait_for(ready.wait(), 20)
    assert len(alive(mark)) >= 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(mark)


RUNNER = """
import asyncio, sys
from pathlib import Path
from dataclasses import replace
from runner_service.sandbox.sandbox import Command, Limits, Sandbox
async def main():
    sandbox = Sandbox(Limits(), Path(sys.argv[1]))
    walls = await sandbox.walls()
    if sys.argv[3] == "descent": sandbox._walls = replace(walls, mode="descent")
    if sys.argv[3] == "poor": sandbox._walls = replace(walls, mode="descent", accounts=None, cgroups=None)
    command = Command(whose="s", argv=["/bin/sh", "-c", sys.argv[2]], environment={"PATH": "/usr/bin:/bin"},
                      places=sandbox.places("s", Path("/usr/share")))
    async with sandbox.running(command) as running:
        async for line in running.lines():
            print(line.decode(), flush=True)
asyncio.run(main())
"""


@MODES
async def test_nothing_is_left_when_the_runner_is_killed(mode: str, root: Path, mark: str):
    await sandbox_of(root, mode)
    with subprocess.Popen(  # noqa: ASYNC220 - the loop that starts it is the test's alone
        [sys.executable, "-c", RUNNER, str(root), WAITS.format(mark=mark), mode],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    ) as runner:
        assert runner.stdout is not None
        assert await asyncio.to_thread(runner.stdout.readline) == b"ready\n"
        assert len(alive(mark)) >= 4
        os.kill(runner.pid, signal.SIGKILL)
    await until(lambda: not alive(mark))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not holds():  # noqa: ASYNC110 - nobody tells when a process is gone
            await asyncio.sleep(0.02)


async def test_a_command_sees_no_file_process_or_variable_that_is_not_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GROVE_SERVICE_TOKEN", "secret-of-the-server")
    secret = root.parent / "keys"
    secret.write_text("key")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root.parent / "s"))
        sandbox = await sandbox_of(root, "namespaces")
        await output(sandbox, "echo other > kept; echo other > ~/kept", session="other")
        said = await output(
            sandbox,
            f"env; pwd; ls -a; ls / /workspace /home /run; ls {root} {root.parent}; cat {secret} {root}/other/*/kept;"
            " ls /proc | grep -c '^[0-9]'; cat /etc/shadow; echo x > /usr/x; echo x > /x; id -u; cat /etc/hostname",
            session="mine",
        )
    text = "\n".join(said)
    assert "secret-of-the-server" not in text
    assert "kept" not in text
    assert "key" not in said
    assert "other" not in said
    assert "/workspace" in said
    assert {line.partition("=")[0] for line in said if "=" in line} <= {
        "HOME",
        "TMPDIR",
        "PATH",
        "PWD",
        "_",
        "SHLVL",
        "OLDPWD",
    }
    processes = [int(line) for line in said if line.isdigit() and int(line) < 1000]
    assert processes
    assert max(processes) <= 5
    assert secret.read_text() == "key"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives accounts")
@pytest.mark.parametrize("mode", ["namespaces", "descent"])
async def test_each_session_has_an_account_and_it_stays_the_same(mode: str, root: Path):
    sandbox = await sandbox_of(root, mode)
    first = await output(sandbox, "id -u; echo kept > file", session="first")
    again = await output(sandbox, "id -u; cat file", session="first")
    second = await output(sandbox, f"id -u; cat {root}/first/workspace/file", session="second")
    assert again == [*first, "kept"]
    assert len(second) == 1
    assert second != first
    assert "0" not in first + second


@MODES
async def test_too_many_processes_too_many_files_and_too_large_ones_are_refused(mode: str, root: Path):
    if mode == "poor" or os.geteuid() != 0:
        pytest.skip("processes are bounded by account")
    limits = Limits(processes=20, files=32, file_bytes=100_000)
    sandbox = await sandbox_of(root, mode, limits)
    said = await output(
        sandbox,
        "head -c 200000 /dev/zero > big; wc -c < big; ulimit -n;"
        "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done 2>/dev/null; jobs -p | wc -l; echo end",
    )
    assert said[:2] == ["100000", "32"]
    assert len(said) == 2 or int(said[2]) < 40


async def test_memory_beyond_the_bound_is_not_to_be_had(root: Path):
    sandbox = await sandbox_of(root, "namespaces", Limits(memory_bytes=128 * 1024 * 1024))
    said = await output(sandbox, "head -c 300000000 /dev/zero | tail -c 300000000 | wc -c")
    assert said == ["0"]


async def test_a_folder_cannot_be_swapped_for_one_outside(root: Path):
    sandbox = await sandbox_of(root, "namespaces")
    await output(sandbox, "rm -rf /tmp ~ /workspace; ln -s /etc /home/agent; ln -s /etc /home/agent/tmp")
    places = sandbox.places("one", Path("/usr/share"))
    assert places.home.is_dir()
    assert not places.scratch.is_symlink()
    async with sandbox.running(
        replace(command(sandbox, "ln -s /workspace/caught ~/secret; ls ~"), private={"secret": b"first"})
    ) as running:
        running.close_input()
        assert [line async for line in running.lines()]
    (places.home / "secret").unlink()
    (places.home / "secret").symlink_to(root.parent / "caught")
    async with sandbox.running(
        replace(command(sandbox, "cat ~/secret"), private={"secret": b"again"})
    ) as running:
        assert [line async for line in running.lines()] == [b"again"]
    assert not (root.parent / "caught").exists()


async def test_why_a_command_did_not_start_is_known(root: Path):
    sandbox = await sandbox_of(root, "namespaces")
    with pytest.raises(SpawnError, match="missing is not there"):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(
                sandbox.running(replace(command(sandbox, ""), argv=["/opt/agent/missing"]))
            )


async def test_the_end_of_what_it_complained_of_and_its_code_are_kept(root: Path):
    sandbox = await sandbox_of(root, "namespaces")
    script = "i=0; while [ $i -lt 3000 ]; do echo noise-$i >&2; i=$((i+1)); done; echo the reason >&2; exit 7"
    async with sandbox.running(command(sandbox, script)) as running:
        assert [line async for line in running.lines()] == []
        assert await running.code() == 7
        complaint = await running.complaint()
    assert complaint.endswith("the reason")
    assert len(complaint) <= 8 * 1024


async def test_a_line_nobody_can_hold_is_an_error_and_not_an_endless_buffer(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("runner_service.sandbox.sandbox.LINE_BYTES", 1000)
    sandbox = await sandbox_of(root, "namespaces")
    with pytest.raises(CommandLostError, match="a line of more than"):
        await output(sandbox, "head -c 100000 /dev/zero; sleep 100")


async def test_lines_go_both_ways(root: Path):
    sandbox = await sandbox_of(root, "namespaces")
    async with sandbox.running(command(sandbox, "while read line; do echo got $line; done")) as running:
        lines = running.lines()
        await running.send(b"one")
        assert await anext(lines) == b"got one"
        await running.send(b"two")
        assert await anext(lines) == b"got two"
        running.close_input()
        assert [line async for line in lines] == []
        assert await running.code() == 0
        with pytest.raises(CommandLostError):
            await running.send(b"three")


async def test_what_does_not_hold_is_said_once(root: Path, caplog: pytest.LogCaptureFixture):
    sandbox = Sandbox(Limits(), root)
    walls = await sandbox.walls()
    await sandbox.walls()
    warnings = [one for one in caplog.records if one.name == "runner_service.sandbox.sandbox"]
    assert len(warnings) == (1 if walls.missing else 0)


def test_a_turn_that_shares_account_and_files_with_the_server_is_not_called_private():
    walls = Walls(mode="descent", accounts=None, cgroups=None, bounded=False, missing=("all",))
    assert not walls.private
    assert replace(walls, mode="namespaces").private
    assert replace(walls, accounts=(1000, 10)).private
