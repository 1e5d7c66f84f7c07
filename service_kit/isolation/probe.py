"""What this platform lets us have: found by doing it once."""

import hashlib
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from service_kit.isolation import cgroup
from service_kit.isolation.order import Mode, Order, answered, sent

__all__ = ["Walls", "launcher", "probe"]

_PROBE_S: Final = 20.0
_FIRST: Final = 1_000_000_000
_SOME: Final = 1_000_000_000
_FEW: Final = 20_000
"""Accounts are taken from high numbers, where nobody has any; in a container that has only the low ones, from those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What holds around a command. ``mode``: how all that came of it is found; ``accounts``: the first uid of those
    commands get and how many there are, None when they run as the server does; ``cgroups``: where one is made for each,
    ``bounded``: whether it bounds anything; ``missing``: what does not hold, for an operator to read.
    """

    mode: Mode
    accounts: tuple[int, int] | None
    cgroups: Path | None
    bounded: bool
    missing: tuple[str, ...]

    @property
    def private(self) -> bool:
        """Whether a command cannot read what is the server's: its keys, its data, other commands' folders."""
        return self.mode == "namespaces" or self.accounts is not None

    def account(self, whose: str) -> int | None:
        """The account for whatever belongs to ``whose``, always the same one."""
        if self.accounts is None:
            return None
        first, count = self.accounts
        return first + int.from_bytes(hashlib.sha256(whose.encode()).digest()[:8]) % count


def launcher(control: int) -> tuple[list[str], dict[str, str]]:
    """The argument list and the environment of a launcher that reads its order from ``control``. Nothing is inherited."""
    paths = os.pathsep.join(one for one in sys.path if one)
    argv = [sys.executable, "-P", "-S", "-m", "service_kit.isolation.launcher", str(control)]
    return argv, {"PYTHONPATH": paths, "LC_ALL": "C.UTF-8"}


def probe(directory: Path, cgroups: Path | None) -> Walls:
    """Try the walls from the highest down. ``directory``: where commands will work, which has to exist; ``cgroups``:
    the one that was set aside for us, None for our own. Blocks for up to a second.
    """
    parent = cgroup.find(cgroups)
    bounded = parent is not None and cgroup.bounds(parent)
    accounts = _accounts() if _is_root() else None
    missing = (
        []
        if bounded
        else ["limits on a turn's memory and processes as a whole: no cgroup v2 with both is ours"]
    )
    account = None if accounts is None else accounts[0]
    refusal = _refusal(Order(argv=(), directory="/tmp", environment={}, account=account))  # noqa: S108 - its own
    if not refusal:
        if accounts is None:
            missing.append("an account of its own for each session: the server does not run as root")
        return Walls(
            mode="namespaces", accounts=accounts, cgroups=parent, bounded=bounded, missing=tuple(missing)
        )
    missing.insert(0, f"namespaces, and so a file system and a process table of its own ({refusal})")
    if accounts is not None:
        order = Order(argv=(), directory=str(directory), environment={}, account=account, mode="descent")
        if refusal := _refusal(order):
            missing.append(f"an account of its own for each session ({refusal})")
            accounts = None
    else:
        missing.append("an account of its own for each session: the server does not run as root")
    return Walls(mode="descent", accounts=accounts, cgroups=parent, bounded=bounded, missing=tuple(missing))


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _accounts() -> tuple[int, int] | None:
    """Numbers that are mapped here."""
    try:
        ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except OSError:
        return None
    most = max((int(first) + int(count) for first, _, count in ranges), default=0)
    if most >= _FIRST + _SOME:
        return _FIRST, _SOME
    return (most - _FEW, _FEW - 1) if most > 2 * _FEW else None


def _refusal(order: Order) -> str:
    """Why a command could not be started so; empty when it could."""
    mine, theirs = socket.socketpair()
    argv, environment = launcher(theirs.fileno())
    with mine:
        with theirs:
            process = subprocess.Popen(
                argv,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        with process:
            try:
                mine.settimeout(_PROBE_S)
                mine.sendall(sent(order))
                got = mine.recv(4096)
                return answered(got).error if got else "the launcher broke off"
            except (OSError, msgspec.MsgspecError) as error:
                return type(error).__name__
            finally:
                mine.close()
                try:
                    process.wait(_PROBE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
