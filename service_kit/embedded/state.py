"""``run/state.json``: the running deployment, and what an earlier one may have left behind."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, cast

from service_kit.embedded.home import Home, write_private

__all__ = ["Member", "State", "alive", "clear_leftovers", "read", "started_at", "write"]

_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the deployment. ``started`` tells it from a later one with the same id."""

    pid: int
    started: str
    listen: str | None = None
    ops: str | None = None
    log: str | None = None


@dataclass(slots=True)
class State:
    """What other commands need to know of a running deployment. Holds secrets: the file is private."""

    supervisor: int
    url: str
    ready: bool = False
    database_url: str | None = None
    redis_url: str | None = None
    sockets: str | None = None
    members: dict[str, Member] = field(default_factory=dict[str, Member])


def write(home: Home, state: State) -> None:
    """Replace the state file."""
    write_private(home.state, json.dumps(asdict(state), indent=1) + "\n")


def read(home: Home) -> State | None:
    """The state file; None when there is none that can be read."""
    try:
        document = cast("dict[str, object]", json.loads(home.state.read_text(encoding="utf-8")))
        members = cast("Mapping[str, Mapping[str, str]]", document.pop("members"))
        state = State(**cast("dict[str, int]", document))  # pyright: ignore[reportArgumentType]
        state.members = {
            name: Member(**{**one, "pid": int(one["pid"])})  # pyright: ignore[reportArgumentType]
            for name, one in members.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return state


def started_at(pid: int) -> str:
    """When a process started, in a form only good for comparing; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else fields[19]  # a zombie has ended
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
    answer = subprocess.run(  # systems without /proc
        ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - wherever the system keeps it
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip()


def alive(member: Member) -> bool:
    """Whether this very process still runs."""
    return bool(member.started) and started_at(member.pid) == member.started


def clear_leftovers(home: Home) -> list[str]:
    """End what a killed supervisor left running; answers the names. Call it only under the lock."""
    state = read(home)
    if state is None:
        return []
    left = {name: one for name, one in state.members.items() if alive(one)}
    for name, one in left.items():
        # Postgres and Valkey put their data in order first; the services have nothing to lose.
        _send(one, {"postgres": signal.SIGINT, "valkey": signal.SIGTERM}.get(name, signal.SIGKILL))
    deadline = time.monotonic() + _PATIENCE_S
    for one in left.values():
        while alive(one):
            if time.monotonic() > deadline:
                _send(one, signal.SIGKILL)
            time.sleep(0.02)
    if state.sockets is not None:
        shutil.rmtree(state.sockets, ignore_errors=True)
    home.state.unlink(missing_ok=True)
    return sorted(left)


def _send(member: Member, number: signal.Signals) -> None:
    try:
        os.kill(member.pid, number)
    except ProcessLookupError:
        return
