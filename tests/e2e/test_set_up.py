"""`grove up`: from an empty directory to ready, again and again, and what happens when something is in the way."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from service_kit.embedded import state
from service_kit.embedded.home import FORMAT, Home
from service_kit.embedded.postgres import find_pg_bin
from service_kit.embedded.processes import Family
from tests.fixtures.parts import embedded_postgres, short_directory
from tests.fixtures.stack import GROVE, Stack, environment, running

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
SERVICES = ("gateway", "authz", "memory", "runner", "provider")


@pytest.fixture
def home() -> Generator[Path]:
    with short_directory() as directory:
        yield directory / "home"


def up(home: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """`grove up` that is expected to end by itself."""
    return subprocess.run(
        [str(GROVE), "up"],
        env=environment(home, changes),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def members(stack: Stack) -> dict[str, state.Member]:
    return stack.state().members


def wait_for_the_end_of(left: dict[str, state.Member]) -> None:
    Family().until(lambda: not any(state.alive(one) for one in left.values()), PATIENCE_S, "the end of all")


def stderr_of(stack: Stack) -> str:
    return (stack.home.parent / f"{stack.home.name}.stderr").read_text()


def processes_of(home: Path) -> Iterator[int]:
    """Every process that was told of this home."""
    needle = f"GROVE_HOME={home}".encode()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and needle in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


@pytest.mark.timeout(600)
def test_it_starts_stops_and_starts_again_with_its_data(home: Path, tell: Callable[[str], None]):
    with running(home) as first:
        everyone = members(first)
        assert set(everyone) == {"postgres", "valkey", *SERVICES}
        for name in SERVICES:
            assert httpx.get(f"{first.ops(name)}/readyz").status_code == 200
        alice = first.token(person="alice")
        made = httpx.post(
            f"{first.url}/v1/memories",
            headers={"Authorization": f"Bearer {alice}"},
            json={"name": "kept"},
            timeout=30,
        )
        assert made.status_code in (200, 201), made.text
        assert first.stop(signal.SIGINT) == 0
        wait_for_the_end_of(everyone)
        assert list(processes_of(home)) == []
        assert not (home / "run" / "state.json").exists()
    with running(home) as second:
        kept = httpx.get(
            f"{second.url}/v1/memories/{made.json()['id']}",
            headers={"Authorization": f"Bearer {alice}"},
            timeout=30,
        )
        assert kept.status_code == 200, kept.text
        assert second.admin_token == first.admin_token
        assert "migrating" not in stderr_of(second).rpartition("grove: starting in")[2]
        tell(f"first start {first.started_in_s:.1f} s, second {second.started_in_s:.1f} s")


def test_what_it_keeps_is_private(stack: Stack):
    for path in (stack.home, stack.home / "keys", stack.home / "run"):
        assert path.stat().st_mode & 0o077 == 0
    for path in (
        stack.home / "admin.token",
        *(stack.home / "keys").iterdir(),
        stack.home / "run" / "state.json",
    ):
        assert path.stat().st_mode & 0o777 == 0o600


def test_each_service_is_a_process_with_a_login_of_its_own(stack: Stack):
    pids = {stack.pid(name) for name in SERVICES}
    assert len(pids) == 5
    url = stack.state().database_url
    assert url is not None
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select distinct usename from pg_stat_activity where usename like 'grove\\_%'"
        )
        logins = {str(row[0]) for row in rows}
    assert logins <= {"grove_authz", "grove_memory", "grove_runner", "grove_provider"}
    assert {"grove_authz", "grove_memory"} <= logins


def test_a_second_one_on_the_same_directory_is_told_of_the_first(stack: Stack):
    done = up(stack.home)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"grove: already running (pid {stack.process.pid})"


def test_the_doctor_finds_a_running_deployment_well(stack: Stack):
    done = stack.grove("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    for name in SERVICES:
        assert f"ok    {name}" in done.stdout


def test_the_doctor_says_where_the_programs_of_a_running_postgres_are(stack: Stack):
    told = stack.grove("doctor").stdout.partition("postgres")[2].partition("\n")[0]
    assert told.endswith(f" in {find_pg_bin().bin}, answers")


def test_the_doctor_says_how_many_vectors_of_which_model_are_waited_for(stack: Stack):
    """The provider measures every few seconds, and tells its model at its start."""
    deadline = time.monotonic() + 60
    while "minilm" not in (told := stack.grove("doctor").stdout).partition("vectors")[2].partition("\n")[0]:
        assert time.monotonic() < deadline, told
        time.sleep(1)


def test_a_token_made_at_the_command_line_works_until_it_is_revoked(stack: Stack):
    made = stack.grove("token", "create", "--credential", "ci", "--group", "builders", "--ttl", "1h")
    assert (made.returncode, made.stderr) == (0, "")
    token = made.stdout.strip()
    headers = {"Authorization": f"Bearer {token}"}
    whoami = httpx.get(f"{stack.url}/v1/grovekeeper/whoami", headers=headers, timeout=30)
    assert whoami.status_code == 200, whoami.text
    assert "credential:ci" in whoami.text
    revoked = stack.grove("token", "revoke", token)
    assert revoked.returncode == 0, revoked.stderr
    refused = httpx.get(f"{stack.url}/v1/grovekeeper/whoami", headers=headers, timeout=30)
    assert refused.status_code == 401


def test_a_busy_port_is_said_before_anything_is_started(home: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = up(home, GROVE_PORT=str(port))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"grove: port {port} is taken by another program",
        "grove: remedy: set GROVE_PORT to another port",
    ]
    assert not (home / "postgres" / "data").exists()


def test_a_directory_of_a_newer_release_is_refused(home: Path):
    home.mkdir()
    (home / "grovekeeper.json").write_text(json.dumps({"format": FORMAT + 1, "version": "99.1"}))
    done = up(home)
    assert done.returncode == 2
    assert "was written by grovekeeper 99.1, which is newer than this one" in done.stderr
    assert [one.name for one in home.iterdir()] == ["grovekeeper.json"]


@pytest.mark.timeout(600)
def test_a_service_that_dies_ends_everything_in_one_clear_line(home: Path):
    with running(home) as stack:
        everyone = members(stack)
        stack.kill("memory")
        assert stack.process.wait(PATIENCE_S) == 1
        log = home / "logs" / "memory.log"
        assert stderr_of(stack).splitlines()[-1].startswith("grove: memory ended with signal SIGKILL")
        assert stderr_of(stack).splitlines()[-1].endswith(f"; its log: {log}")
        wait_for_the_end_of(everyone)
        assert list(processes_of(home)) == []


@pytest.mark.timeout(600)
def test_a_killed_supervisor_takes_everything_with_it_and_the_next_start_recovers(home: Path):
    with running(home) as stack:
        everyone = members(stack)
        sockets = stack.state().sockets
        stack.process.kill()
        stack.process.wait(PATIENCE_S)
        if sys.platform == "linux":
            wait_for_the_end_of(everyone)
    assert sockets is not None
    with running(home) as stack:
        assert httpx.get(f"{stack.ops('gateway')}/readyz").status_code == 200
        assert not Path(sockets).exists()
        assert stack.grove("down").returncode == 0
        assert stack.process.wait(PATIENCE_S) == 0


def test_asking_twice_does_not_wait_for_a_graceful_end(home: Path):
    """A first Ctrl-C in the middle of a start, and a second at once: nothing is left."""
    process = subprocess.Popen(
        [str(GROVE), "up"], env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with process:
        assert process.stderr is not None
        while select.select([process.stderr], [], [], PATIENCE_S)[0]:
            if b"starting gateway" in process.stderr.readline():
                break
        everyone = dict(found.members) if (found := state.read(Home(home))) else {}
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    wait_for_the_end_of(everyone)
    assert list(processes_of(home)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop privileges")
def test_root_runs_postgres_as_somebody_else_even_where_nobody_else_may_look(stack: Stack):
    status = Path(f"/proc/{stack.pid('postgres')}/status").read_text()
    uids = next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
    assert "0" not in uids
    assert stack.home.stat().st_uid == 0
    assert stack.home.stat().st_mode & 0o077 == 0
    assert (stack.home / "postgres" / "data").stat().st_uid == int(uids[0])


@pytest.mark.timeout(600)
def test_a_postgres_and_a_redis_of_ones_own_are_used_instead_of_the_embedded_ones(home: Path, redis_url: str):
    with embedded_postgres() as url, contextlib.ExitStack() as block:
        ours = {"GROVE_DATABASE_URL": url, "GROVE_REDIS_URL": redis_url}
        prepared = subprocess.run(
            [str(GROVE), "migrate"],
            env=environment(home, ours),
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
            check=False,
        )
        assert prepared.returncode == 0, prepared.stderr
        stack = block.enter_context(running(home, ours))
        assert set(members(stack)) == set(SERVICES)
        assert "migrating" not in stderr_of(stack)
        assert not (home / "postgres" / "data").exists()
        assert stack.grove("doctor").returncode == 0
        with psycopg.connect(url) as connection:
            schemas = {str(row[0]) for row in connection.execute("select nspname from pg_namespace")}
        assert {"authz", "memory", "runner", "provider"} <= schemas
        assert stack.stop() == 0


def test_an_unreachable_database_is_one_clear_line(home: Path):
    done = up(home, GROVE_DATABASE_URL="postgresql://grove:x@127.0.0.1:9/none?connect_timeout=3")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "migrate ended with exit code 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(processes_of(home)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_one_clear_line_and_nothing_is_left_running(home: Path):
    home.mkdir()
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(home)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"this root may not mount: {mounted.stderr.strip()}")
    try:
        done = up(home)
    finally:
        subprocess.run(["/bin/umount", str(home)], check=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the disk is full" in done.stderr
    assert list(processes_of(home)) == []
