"""Ending everything that came of a command where no PID namespace does it."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

__all__ = ["kill_account", "kill_descendants", "sweep"]

_PAUSE_S: Final = 0.005


def sweep(account: int | None, group: int) -> None:
    """Kill until nothing is left to wait for. ``group``: the process group of the command. The caller is a subreaper,
    so whoever lost its parent is the caller's child.
    """
    while True:
        if account is not None:
            kill_account(account)
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
        kill_descendants()
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(_PAUSE_S)


def kill_account(account: int) -> None:
    """Kill every process of an account at once: the kernel lets none of them fork in between."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(account, account, account)
            os.setresuid(account, account, account)
            os.kill(-1, signal.SIGKILL)
        except OSError:
            pass
        finally:
            os._exit(0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def kill_descendants() -> None:
    """Kill whatever descends from the calling process, as far as the kernel shows it."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state parent …; a name may hold blanks and brackets.
            parent = int(status.read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    for pid in found[1:]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
