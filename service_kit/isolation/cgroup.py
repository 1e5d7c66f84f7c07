"""A cgroup (v2) for one command: its memory and processes are bounded together, and all of it can be killed at once."""

import contextlib
import os
from pathlib import Path
from typing import Final

__all__ = ["bounds", "create", "find", "tidy"]

_PREFIX: Final = "grove-"


def find(named: Path | None) -> Path | None:
    """Where cgroups may be made: ``named``, or else this process's own; None when the platform lets us make none."""
    parent = named or _own()
    if parent is None:
        return None
    probe = parent / f"{_PREFIX}probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return None
    return parent


def bounds(parent: Path) -> bool:
    """Whether what is made below ``parent`` has memory and processes of its own to bound."""
    try:
        controllers = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return {"memory", "pids"} <= set(controllers)


def create(parent: Path, name: str, *, memory_bytes: int, processes: int) -> Path:
    """A cgroup for one command. Raises ``OSError``."""
    group = parent / f"{_PREFIX}{name}"
    group.mkdir()
    for file, most in (("memory.max", memory_bytes), ("pids.max", processes)):
        if most and (group / file).exists():
            (group / file).write_text(str(most))
    if (group / "memory.swap.max").exists():
        (group / "memory.swap.max").write_text("0")
    return group


def tidy(parent: Path) -> None:
    """Remove empty ones that a killed launcher left."""
    for group in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            group.rmdir()


def _own() -> Path | None:
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    own = next((line.removeprefix("0::") for line in groups if line.startswith("0::")), None)
    where = next((line.split()[4] for line in mounts if " - cgroup2 " in line), None)
    if own is None or where is None or ".." in own:
        return None
    return Path(where, own.lstrip("/"))
