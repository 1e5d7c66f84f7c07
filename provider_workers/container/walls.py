"""What a process gives up before it looks at a statement: the network, files, other processes, memory, time.

``leave`` is done once by the keeper, and its children inherit it; ``shut`` by each child. Each wall stands
alone: one that the platform lacks is left out and named, and the others hold. The kernel's interface is Linux's.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
import tempfile
from pathlib import Path
from typing import Final

from service_kit.isolation import linux

__all__ = ["leave", "shut", "size"]

_NOBODY: Final = 65534
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2

# seccomp's program: instructions and verdicts.
_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_KILL: Final = 0x80000000
_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS: Final = {
    # read write close lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn madvise mremap
    # getpid sendto recvfrom exit exit_group futex sigaltstack clock_gettime getrandom restart_syscall
    # gettimeofday time getrusage sched_yield fstat rseq
    "x86_64": (
        *(0, 1, 3, 8, 9, 10, 11, 12, 13, 14, 15, 28, 25, 39, 44, 45, 60, 231, 202, 131, 228, 318, 219),
        *(96, 201, 98, 24, 5, 334),
    ),
    "aarch64": (
        *(63, 64, 57, 62, 222, 226, 215, 214, 134, 135, 139, 233, 216, 172, 206, 207, 93, 94, 98, 132, 113),
        *(278, 128, 169, 165, 124, 80, 293),
    ),
}


def leave() -> list[str]:
    """Leave the network, the file system and the account of whoever started this; answers what could not be."""
    missing = list[str]()
    if sys.platform != "linux":
        return ["namespaces", "seccomp"]
    root = os.geteuid() == 0
    try:
        linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWIPC | (0 if root else linux.CLONE_NEWUSER))
    except OSError:
        missing.append("a network namespace")
    if root:
        missing += _as_nobody()
    linux.no_new_privileges()
    linux.without_dump()
    linux.die_with_parent()
    if platform.machine() not in _CALLS:
        missing.append("seccomp")
    return missing


def _as_nobody() -> list[str]:
    missing = list[str]()
    try:
        # An empty directory that is removed before anybody lives in it.
        empty = tempfile.mkdtemp(prefix="grove-container-")
        inside = os.open(empty, os.O_RDONLY | os.O_DIRECTORY)
        Path(empty).rmdir()
        os.fchdir(inside)
        os.chroot(".")
        os.close(inside)
    except OSError:
        missing.append("an empty root directory")
    try:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    except OSError:
        missing.append("an account without rights")
    return missing


def shut(keep: int, *, cpu_s: int, memory_bytes: int) -> None:
    """Close every file but ``keep``, bound what may be used, and ask the kernel for nothing new from here on.

    ``memory_bytes`` is address space in all.

    Raises ``OSError`` when seccomp is there and cannot be put up: no statement is run then.
    """
    os.closerange(0, keep)
    os.closerange(keep + 1, 4096)
    for limit, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    if sys.platform == "linux":
        linux.die_with_parent()
        _filter()


def size() -> int:
    """Address space in use now, in bytes, which counts towards its limit. ``/proc`` must be in sight."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _filter() -> None:
    machine = platform.machine()
    if machine not in _CALLS:
        return
    calls = _CALLS[machine]
    program = [
        _step(_LOAD, 0, 0, 4),
        _step(_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _step(_RETURN, 0, 0, _KILL),
        _step(_LOAD, 0, 0, 0),
        *(_step(_IF_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)),
        _step(_RETURN, 0, 0, _REFUSE),
        _step(_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(program))
    whole = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ" if struct.calcsize("P") == 8 else "HxxI", len(program), ctypes.addressof(code))
    )
    linux.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(whole))


def _step(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
