"""The file system a command sees: the system's programs and libraries, devices without content, what it was given.

No home, no data directory, no socket, no process of anybody else: what is not listed here is not there.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from service_kit.isolation import linux
from service_kit.isolation.order import Mount

__all__ = ["build"]

_AT: Final = "/sys"
"""Covered while the tree grows: a directory every Linux has and of which nothing is needed."""
_SYSTEM: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix")
_ETC: Final = (
    *("alternatives", "ca-certificates", "fonts", "host.conf", "hosts", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "magic", "mime.types", "nsswitch.conf", "pki", "protocols", "resolv.conf"),
    *("services", "ssl", "terminfo", "timezone"),
)
"""What programs look up there. Not all of it: who runs a server may keep its secrets beside."""
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_QUIET: Final = linux.NOSUID | linux.NODEV


def build(mounts: Sequence[Mount], account: int) -> None:
    """Put the calling process into it; it must be the first of its PID namespace and have mounts of its own.

    Raises ``OSError``.
    """
    # A server keeps what it makes to itself; this is made for the command's account to pass through.
    os.umask(0o022)
    linux.mount("none", "/", "", linux.REC | linux.PRIVATE)
    linux.mount("tmpfs", _AT, "tmpfs", _QUIET, "mode=755,size=8m")
    root = Path(_AT)
    for name in _SYSTEM:
        _same(Path("/", name), root / name)
    (root / "etc").mkdir()
    for name in _ETC:
        _same(Path("/etc", name), root / "etc" / name, follow=True)
    _accounts(root / "etc", account)
    _devices(root / "dev")
    for name in ("proc", "sys", "tmp", "run", "var"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "var" / "tmp").symlink_to("/tmp")  # noqa: S108 - the command's own
    linux.mount("proc", str(root / "proc"), "proc", _QUIET | linux.NOEXEC)
    for one in mounts:
        _bind(Path(one.outside), root / one.inside.lstrip("/"), writable=one.writable)
    linux.mount("none", _AT, "", linux.REMOUNT | linux.BIND | linux.RDONLY | _QUIET)
    linux.pivot_root(_AT)


def _same(outside: Path, inside: Path, *, follow: bool = False) -> None:
    """Show a path of the system as it is there; one that is not there is left out."""
    if outside.is_symlink() and not follow:
        inside.symlink_to(outside.readlink())
    elif outside.exists():
        _bind(outside.resolve(), inside, writable=False)


def _bind(outside: Path, inside: Path, *, writable: bool) -> None:
    if stat.S_ISDIR(outside.stat().st_mode):
        inside.mkdir(parents=True, exist_ok=True)
    else:
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.touch()
    linux.mount(str(outside), str(inside), "", linux.BIND | linux.REC)
    if not writable:
        # Flags that are locked may not be dropped by the way.
        kept = os.statvfs(inside).f_flag & (linux.NOSUID | linux.NODEV | linux.NOEXEC)
        linux.mount("none", str(inside), "", linux.REMOUNT | linux.BIND | linux.RDONLY | linux.NOSUID | kept)


def _accounts(etc: Path, account: int) -> None:
    """Programs ask who they are, and some fail when nobody knows."""
    (etc / "passwd").write_text(
        f"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:{account}:{account}:agent:/home/agent:/bin/sh\n"
    )
    (etc / "group").write_text(f"root:x:0:\nagent:x:{account}:\n")


def _devices(dev: Path) -> None:
    dev.mkdir()
    for name in _DEVICES:
        (dev / name).touch()
        linux.mount(f"/dev/{name}", str(dev / name), "", linux.BIND)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    (dev / "shm").mkdir()
    linux.mount("tmpfs", str(dev / "shm"), "tmpfs", _QUIET, "mode=1777,size=64m")
