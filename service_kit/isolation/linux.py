"""What Python has no word for: namespaces, mounts, and what a process tells the kernel of itself.

Every call raises ``OSError``; elsewhere than on Linux with ``ENOSYS``.
"""

import ctypes
import errno
import os
import platform
import sys
from typing import Final

__all__ = [
    "BIND",
    "CLONE_NEWIPC",
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "CLONE_NEWUTS",
    "NODEV",
    "NOEXEC",
    "NOSUID",
    "PRIVATE",
    "RDONLY",
    "REC",
    "REMOUNT",
    "die_with_parent",
    "mount",
    "no_new_privileges",
    "pivot_root",
    "prctl",
    "subreaper",
    "unshare",
    "without_dump",
]

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

RDONLY: Final = 1
NOSUID: Final = 2
NODEV: Final = 4
NOEXEC: Final = 8
REMOUNT: Final = 32
BIND: Final = 4096
REC: Final = 16384
PRIVATE: Final = 1 << 18

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_MNT_DETACH: Final = 2
_SIGKILL: Final = 9
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}

_libc: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def unshare(flags: int) -> None:
    """Leave the namespaces of ``flags`` (``CLONE_NEW…``) for new ones."""
    _checked(_library().unshare(ctypes.c_int(flags)), "unshare")


def prctl(option: int, first: int, second: int = 0) -> None:
    """``prctl(2)``."""
    nothing = ctypes.c_ulong(0)
    _checked(
        _library().prctl(
            ctypes.c_int(option), ctypes.c_ulong(first), ctypes.c_ulong(second), nothing, nothing
        ),
        "prctl",
    )


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends."""
    prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def no_new_privileges() -> None:
    """No program that is started from here on gets more than it was given: setuid bits say nothing."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def without_dump() -> None:
    """Let no other process of this account look into this one."""
    prctl(_PR_SET_DUMPABLE, 0)


def subreaper() -> None:
    """Become the parent of every descendant whose own parent ends."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """``mount(2)``."""
    given = data.encode() if data else None
    _checked(
        _library().mount(
            os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), given
        ),
        f"mount {target}",
    )


def pivot_root(root: str) -> None:
    """Make ``root`` (a mount) the root directory, and let go of the one before."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, "pivot_root")
    library = _library()
    os.chdir(root)
    _checked(library.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    _checked(library.umount2(b".", ctypes.c_int(_MNT_DETACH)), "umount2")
    os.chdir("/")


def _library() -> ctypes.CDLL:
    if _libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _libc


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
