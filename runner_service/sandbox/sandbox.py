"""Starting a command behind walls, and ending everything that came of it."""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from runner_service.sandbox.running import LINE_BYTES, Running
from service_kit.ids import new_id
from service_kit.isolation import cgroup
from service_kit.isolation.order import Mount, Order, answered, sent
from service_kit.isolation.probe import Walls, launcher, probe

__all__ = ["Command", "Limits", "Places", "Sandbox", "SpawnError"]

_log: Final = logging.getLogger(__name__)
_START_S: Final = 20.0
_END_S: Final = 10.0
_WORKSPACE: Final = "/workspace"
_HOME: Final = "/home/agent"
_SCRATCH: Final = "/tmp"  # noqa: S108 - the command's own
_PACKAGE: Final = "/opt/agent"


class SpawnError(Exception):
    """A command did not start. The message is the system's, for a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one turn. ``memory_bytes`` of all its processes where cgroups bound, of each of them elsewhere."""

    memory_bytes: int = 4 * 1024**3
    processes: int = 512
    files: int = 4096
    file_bytes: int = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of one turn: ``workspace`` is the session's working folder, ``home`` what else its agent keeps,
    ``scratch`` its temporary files, ``package`` the agent's programs, which it only reads. Whoever holds one of the
    first three must not be able to put another in its place.
    """

    workspace: Path
    home: Path
    scratch: Path
    package: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. ``argv[0]`` is a path below the package; paths in ``argv`` and ``environment`` are those inside.
    ``whose`` is the session: its account is always the same. ``private`` are files in its home, by name, written anew.
    """

    whose: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    places: Places
    private: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)


class Sandbox:
    """Runs commands. ``root``: where sessions' folders lie; it is made, and everybody may pass through it."""

    def __init__(self, limits: Limits, root: Path, cgroups: Path | None = None) -> None:
        self._limits: Limits = limits
        self._root: Path = root
        self._cgroups: Path | None = cgroups
        self._walls: Walls | None = None
        self._probing: asyncio.Lock = asyncio.Lock()

    async def walls(self) -> Walls:
        """What holds here; tried once, and what does not is said once in the log."""
        async with self._probing:
            if self._walls is None:
                self._walls = await asyncio.to_thread(self._probe)
                if self._walls.missing:
                    _log.warning("turns of agents run without %s", "; without ".join(self._walls.missing))
            return self._walls

    async def inside(self, places: Places) -> Places:
        """The same folders by the names a command has for them."""
        if (await self.walls()).mode == "descent":
            return places
        return Places(
            workspace=Path(_WORKSPACE), home=Path(_HOME), scratch=Path(_SCRATCH), package=Path(_PACKAGE)
        )

    def places(self, session_id: str, package: Path, workspace: Path | None = None) -> Places:
        """The folders of a session, outside."""
        own = self._root / session_id
        return Places(
            workspace=workspace or own / "workspace", home=own / "home", scratch=own / "tmp", package=package
        )

    @asynccontextmanager
    async def running(self, command: Command) -> AsyncGenerator[Running]:
        """Run it inside the block; when the block is left, for whatever reason, nothing of it is left.

        Raises ``SpawnError``.
        """
        walls = await self.walls()
        inside = await self.inside(command.places)
        group = await asyncio.to_thread(self._prepare, command, walls)
        order = self._order(command, walls, inside, group)
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        running: Running | None = None
        try:
            with theirs:
                running = await _started(theirs)
            await _begun(mine, order)
            yield running
        finally:
            # What the launcher waits for.
            mine.close()
            if running is not None:
                # Whoever is cancelled a second time here must not leave the command behind.
                await asyncio.shield(asyncio.ensure_future(running.end(_END_S)))
            elif group:
                await asyncio.to_thread(_forget, group)

    def _probe(self) -> Walls:
        self._root.mkdir(parents=True, exist_ok=True)
        # Names in it are ids nobody can guess, and what lies below each is its session's alone.
        self._root.chmod(0o711)
        walls = probe(self._root, self._cgroups)
        if walls.cgroups is not None:
            cgroup.tidy(walls.cgroups)
        return walls

    def _prepare(self, command: Command, walls: Walls) -> str:
        """Folders that belong to the session's account, its private files, and a cgroup; answers the cgroup."""
        account = walls.account(command.whose)
        here = command.places
        for place in (here.workspace, here.home, here.scratch):
            place.mkdir(mode=0o711, parents=True, exist_ok=True)
        # Whatever the server's umask is, the session's account passes through.
        here.home.parent.chmod(0o711)
        for name, content in command.private.items():
            _write(here.home / Path(name).name, content)
        for place in (here.workspace, here.home, here.scratch):
            _hand_over(place, account)
        if walls.cgroups is None:
            return ""
        try:
            return str(
                cgroup.create(
                    walls.cgroups,
                    new_id("turn"),
                    memory_bytes=self._limits.memory_bytes,
                    processes=self._limits.processes,
                )
            )
        except OSError as error:
            raise SpawnError(f"no cgroup: {error}") from error

    def _order(self, command: Command, walls: Walls, inside: Places, group: str) -> Order:
        limits = self._limits
        here = command.places
        return Order(
            argv=tuple(command.argv),
            directory=str(inside.workspace),
            environment={"TMPDIR": str(inside.scratch), "HOME": str(inside.home), **command.environment},
            mounts=(
                Mount(str(here.workspace), str(inside.workspace), writable=True),
                Mount(str(here.home), str(inside.home), writable=True),
                Mount(str(here.scratch), str(inside.scratch), writable=True),
                Mount(str(here.package), str(inside.package), writable=False),
            ),
            mode=walls.mode,
            account=walls.account(command.whose),
            cgroup=group,
            data_bytes=0 if walls.bounded else limits.memory_bytes,
            processes=limits.processes,
            files=limits.files,
            file_bytes=limits.file_bytes,
        )


async def _started(control: socket.socket) -> Running:
    argv, environment = launcher(control.fileno())
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=environment,
            pass_fds=[control.fileno()],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            # A signal from a terminal is for the service, which ends its commands in order.
            start_new_session=True,
        )
    except OSError as error:
        raise SpawnError(f"no launcher: {error}") from error
    return Running(process)


async def _begun(control: socket.socket, order: Order) -> None:
    """Give the order, and hear that the command begins."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_START_S):
            await loop.sock_sendall(control, sent(order))
            got = await loop.sock_recv(control, 4096)
        error = answered(got).error if got else "the launcher broke off"
    except TimeoutError:
        error = "the launcher does not answer"
    except OSError as refusal:
        error = f"the launcher broke off: {refusal}"
    except msgspec.MsgspecError:
        error = "the launcher answered what is no answer"
    if error:
        raise SpawnError(error)


def _write(path: Path, content: bytes) -> None:
    """A file nobody else reads, in place of whatever lies there; never through a link."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _forget(group: str) -> None:
    with contextlib.suppress(OSError):
        Path(group).rmdir()


def _hand_over(place: Path, account: int | None) -> None:
    """Give a folder and all in it to an account. Links are given, not followed."""
    place.chmod(0o700)
    if account is None:
        return
    shutil.chown(place, account, account)
    for _, folders, files, at in os.fwalk(place, follow_symlinks=False):
        for name in (*folders, *files):
            if os.stat(name, dir_fd=at, follow_symlinks=False).st_uid != account:
                os.chown(name, account, account, dir_fd=at, follow_symlinks=False)
