"""Postgres refuses to run as root: an unprivileged user for it, and what that user must reach.

A deployment run by root often lives where nobody else may look (``/root``). Two things make it work
without opening any directory: Postgres is started *inside* its data directory and addresses it as its
working directory, and its binaries are copied once to a public place when they lie hidden.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_kit.embedded.errors import REFUSED, LaunchError

__all__ = ["Identity", "give", "published", "reachable", "unprivileged", "with_name"]

# Of the range that systemd's allocation of user ids leaves unused; no account is made for it.
_UID: Final = 60_832
_PUBLIC: Final = ("/var/lib/grovekeeper", "/usr/local/lib/grovekeeper", "/opt/grovekeeper")
_OTHERS_READ, _OTHERS_ENTER = 0o004, 0o001


@dataclass(frozen=True, slots=True)
class Identity:
    """The user and group a process is run as."""

    uid: int
    gid: int


def unprivileged(owned: Path) -> Identity | None:
    """Whom to run as instead of root; None when this process is not root.

    The owner of ``owned`` when it exists and is not root's, else a user id nothing else uses, else
    ``nobody``. :class:`LaunchError` when there is no second user here (a user namespace with only root).
    """
    if os.geteuid() != 0:
        return None
    wanted = [Identity(_UID, _UID)]
    if owned.exists() and (found := owned.stat()).st_uid != 0:
        wanted.insert(0, Identity(found.st_uid, found.st_gid))
    for one in [*wanted, with_name()]:
        if _works(one):
            return one
    raise LaunchError(
        "Postgres does not run as root, and this root cannot become another user",
        "start grovekeeper as an ordinary user, or set GROVE_DATABASE_URL to a Postgres of yours",
        REFUSED,
    )


def with_name() -> Identity:
    """An unprivileged user that has an account, as initdb demands of whoever runs it."""
    accounts = sorted(pwd.getpwall(), key=lambda one: (one.pw_name != "nobody", one.pw_uid))
    for one in accounts:
        if one.pw_uid != 0:
            return Identity(one.pw_uid, one.pw_gid)
    raise LaunchError(
        "this system has no account besides root, and Postgres cannot be set up by root",
        "add an account, or set GROVE_DATABASE_URL to a Postgres of yours",
        REFUSED,
    )


def _works(identity: Identity) -> bool:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", ":"],
            user=identity.uid,
            group=identity.gid,
            extra_groups=[],
            cwd="/",
            check=False,
            capture_output=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def give(directory: Path, identity: Identity) -> None:
    """Make ``directory`` and all in it the identity's."""
    for folder, _, files in os.walk(directory):
        os.chown(folder, identity.uid, identity.gid)
        for file in files:
            os.chown(Path(folder) / file, identity.uid, identity.gid, follow_symlinks=False)


def reachable(path: Path) -> bool:
    """Whether everybody may enter all directories down to ``path`` and read it."""
    real = path.resolve()
    try:
        above = all(parent.stat().st_mode & _OTHERS_ENTER for parent in real.parents)
        return above and bool(real.stat().st_mode & _OTHERS_READ)
    except OSError:
        return False


def published(root: Path, parts: Iterable[str], name: str) -> Path:
    """A public copy of the directories ``parts`` below ``root``, made once for each ``name``."""
    for base in map(Path, _PUBLIC):
        target = base / name
        try:
            if not target.exists():
                _copy(root, parts, target)
        except OSError:
            continue
        if reachable(target):
            return target
    raise LaunchError(
        f"Postgres has to run as another user than root, who cannot reach {root}",
        f"install grovekeeper outside of hidden directories, or make {_PUBLIC[0]} writable",
        REFUSED,
    )


def _copy(root: Path, parts: Iterable[str], target: Path) -> None:
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        for part in parts:
            if (root / part).exists():
                shutil.copytree(root / part, fresh / part, symlinks=True)
        for folder, _, files in os.walk(fresh):
            Path(folder).chmod(0o755)
            for file in map(Path(folder).joinpath, files):
                if not file.is_symlink():
                    file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        fresh.rename(target)
    except OSError:
        if not target.exists():  # else another start made the same copy first
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
