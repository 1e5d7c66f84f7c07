"""A family of child processes: started, watched, waited for and stopped together."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from service_kit.embedded.errors import LaunchError, Stopped, TookTooLongError
from service_kit.embedded.privileges import Identity

__all__ = ["Child", "Command", "Family"]

_POLL_S: Final = 0.02
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start and how. ``orphan_signal`` is sent to it when this process dies (Linux)."""

    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path | None  # None: our stderr
    cwd: Path
    identity: Identity | None = None
    orphan_signal: signal.Signals = signal.SIGKILL
    stop_signal: signal.Signals = signal.SIGTERM
    force_signal: signal.Signals = signal.SIGKILL


class Child:
    """One running process, the leader of its own session, so that a terminal's Ctrl-C is not for it."""

    def __init__(self, name: str, command: Command) -> None:
        self.name: str = name
        self.command: Command = command
        self._log_start: int = _size(command.log)
        with _output(command.log) as output:
            identity = command.identity
            self._popen: subprocess.Popen[bytes] = subprocess.Popen(
                list(command.argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(command.env),
                cwd=command.cwd,
                user=None if identity is None else identity.uid,
                group=None if identity is None else identity.gid,
                extra_groups=None if identity is None else [],
                umask=0o077,
                start_new_session=True,
                # This process has one thread, so nothing can be held locked in the child.
                preexec_fn=_bound_to(os.getpid(), command.orphan_signal),  # noqa: PLW1509
            )
        self.pid: int = self._popen.pid

    def ended(self) -> int | None:
        """The exit code (negative: the signal) once it has ended, else None."""
        return self._popen.poll()

    def how(self) -> str:
        """How it ended, for people, with its last words when it left any."""
        code = self.ended()
        if code is None:
            return "still runs"
        told = f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"
        words = self.last_words()
        return f"ended with {told}" + (f" ({words})" if words else "")

    def last_words(self) -> str:
        """The last complaint in its log since it was started."""
        return _complaint(self.command.log, self._log_start)

    def failure(self) -> LaunchError:
        """Its unexpected end, in one line."""
        log = "" if self.command.log is None else f"; its log: {self.command.log}"
        return LaunchError(f"{self.name} {self.how()}{log}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it still runs."""
        if self.ended() is None:
            with contextlib.suppress(ProcessLookupError):
                self._popen.send_signal(number)

    def stop(self, grace_s: float, hurry: Callable[[], bool]) -> None:
        """Ask it to end; force it when the grace is over or ``hurry`` says so. Returns when it is gone."""
        self.signal(self.command.stop_signal)
        deadline = time.monotonic() + grace_s
        while self.ended() is None and time.monotonic() < deadline and not hurry():
            time.sleep(_POLL_S)
        self.signal(self.command.force_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(20)
        self.signal(signal.SIGKILL)
        self._popen.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it started and left behind


@dataclass(slots=True)
class Family:
    """Children in the order they were started. ``stopping`` says whether the end was asked for.

    ``changed`` is called after each start and stop, for whoever keeps a record.
    """

    stopping: Callable[[], bool] = lambda: False
    changed: Callable[[], None] = lambda: None
    children: dict[str, Child] = field(default_factory=dict[str, Child])

    def spawn(self, name: str, command: Command) -> Child:
        """Start a process that is to run until it is stopped."""
        child = self._start(name, command)
        self.children[name] = child
        self.changed()
        return child

    def run(self, jobs: Mapping[str, Command], timeout_s: float) -> None:
        """Run commands side by side to their ends. Raises :class:`LaunchError` when one fails."""
        running: dict[str, Child] = {}
        try:
            for name, command in jobs.items():
                running[name] = self._start(name, command)
            self.until(lambda: _all_done(running), timeout_s, " and ".join(jobs))
        finally:
            for child in running.values():
                child.stop(0.0, lambda: True)

    def until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait for ``condition``. Raises :class:`LaunchError` when a child ends or time runs out,
        :class:`Stopped` when the end was asked for.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.stopping():
                raise Stopped
            self.check()
            if time.monotonic() > deadline:
                raise TookTooLongError(f"{what} took longer than {timeout_s:.0f} s")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """:class:`LaunchError` when a child has ended by itself."""
        for child in self.children.values():
            if child.ended() is not None:
                raise child.failure()

    def stop(self, names: Sequence[str], grace_s: float, hurry: Callable[[], bool]) -> None:
        """Stop these one after the other; names that do not run are passed over."""
        for name in names:
            child = self.children.get(name)
            if child is not None:
                child.stop(grace_s, hurry)
                del self.children[name]

    def rotate(self, max_bytes: int) -> None:
        """Move logs that grew past ``max_bytes`` aside, keeping one old one each.

        Children hold their files open for appending, so the file is copied and emptied.
        """
        for child in self.children.values():
            log = child.command.log
            if log is not None and _size(log) > max_bytes:
                shutil.copyfile(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)

    def _start(self, name: str, command: Command) -> Child:
        try:
            return Child(name, command)
        except (OSError, subprocess.SubprocessError) as error:
            raise LaunchError(f"{name} cannot be started: {error}") from error


def _all_done(running: Mapping[str, Child]) -> bool:
    codes = {name: child.ended() for name, child in running.items()}
    for name, code in codes.items():
        if code:
            raise running[name].failure()
    return all(code == 0 for code in codes.values())


def _bound_to(parent: int, number: signal.Signals) -> Callable[[], None] | None:
    """What makes a new child get ``number`` when its parent dies."""
    libc = _LIBC
    if libc is None:
        return None

    def bind() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return bind


@contextlib.contextmanager
def _output(log: Path | None) -> Generator[int]:
    if log is None:
        yield sys.stderr.fileno()
        return
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def _size(log: Path | None) -> int:
    try:
        return 0 if log is None else log.stat().st_size
    except OSError:
        return 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _complaint(log: Path | None, start: int) -> str:
    """The last line that complains, or simply the last one."""
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(start, _size(log) - 16_384))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    said = [text for text in map(_sentence, lines) if text]
    complaints = [text for text in said if any(word in text for word in ("FATAL", "PANIC", "rror:"))]
    return (complaints or said or [""])[-1][:300]


def _sentence(line: str) -> str:
    """The message of a log line, whether JSON or plain."""
    if line.startswith("{"):
        try:
            document = cast("dict[str, object]", json.loads(line))
        except ValueError:
            return line.strip()
        level = str(document.get("level", document.get("severity", "")))
        text = str(document.get("message", document.get("body", line)))
        return f"error: {text}" if level.upper() in ("ERROR", "CRITICAL") else text
    return line.strip()
