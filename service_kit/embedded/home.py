"""``$GROVE_HOME``: its layout, the marker that says it is ours, and the lock that says who runs it."""

import fcntl
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, cast

from service_kit.embedded.errors import REFUSED, LaunchError, from_os_error

__all__ = ["FORMAT", "Home", "product_version", "write_private"]

FORMAT: Final = 1
_FIRST_START_BYTES: Final = 256 * 1024 * 1024
_START_BYTES: Final = 32 * 1024 * 1024
_NOT_CONTENT: Final = frozenset({"lost+found"})  # an empty disk, freshly mounted


def product_version() -> str:
    """The installed version of the product."""
    return metadata.version("grovekeeper")


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one deployment. Nothing is touched before :meth:`claim`."""

    path: Path

    @property
    def marker(self) -> Path:
        """Says that the directory is ours, and in which format."""
        return self.path / "grovekeeper.json"

    @property
    def postgres(self) -> Path:
        """The embedded Postgres' directory."""
        return self.path / "postgres"

    @property
    def valkey(self) -> Path:
        """The embedded Valkey's directory."""
        return self.path / "valkey"

    @property
    def keys(self) -> Path:
        """Secrets; see ``keys``."""
        return self.path / "keys"

    @property
    def admin_token(self) -> Path:
        """The administrator's token, for people to read."""
        return self.path / "admin.token"

    @property
    def run(self) -> Path:
        """What is true only while it runs."""
        return self.path / "run"

    @property
    def state(self) -> Path:
        """The running deployment; see ``state``."""
        return self.run / "state.json"

    @property
    def lock(self) -> Path:
        """Held by the one supervisor of this directory; its text is that process's id."""
        return self.run / "lock"

    @property
    def logs(self) -> Path:
        """One file for each process."""
        return self.path / "logs"

    def judge(self) -> str | None:
        """The version that last ran here, None for a directory yet to be laid out.

        Raises :class:`LaunchError` for a directory that is not ours or that a newer release wrote.
        """
        try:
            text = self.marker.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._refuse_foreign()
            return None
        except NotADirectoryError:
            raise LaunchError(
                f"{self.path} is not a directory", "set GROVE_HOME to a directory", REFUSED
            ) from None
        except OSError as error:
            raise from_os_error(error) from error
        found, version = _marker(self.marker, text)
        if found > FORMAT:
            raise LaunchError(
                f"{self.path} was written by grovekeeper {version}, which is newer than this one"
                f" ({product_version()})",
                "upgrade this installation, or set GROVE_HOME to another directory",
                REFUSED,
            )
        return version

    def _refuse_foreign(self) -> None:
        try:
            content = [one for one in self.path.iterdir() if one.name not in _NOT_CONTENT]
        except FileNotFoundError:
            return
        except OSError as error:
            raise from_os_error(error) from error
        if content:
            raise LaunchError(
                f"{self.path} is not empty and not a grovekeeper directory",
                "set GROVE_HOME to an empty or new directory",
                REFUSED,
            )

    @contextmanager
    def claim(self) -> Generator[bool]:
        """Hold the directory for this process; the value says whether it is its first start.

        Lays the directory out when it is new. Raises :class:`LaunchError` when it is foreign, newer,
        unwritable, on a full disk, or already held ("already running (pid N)").
        """
        version = self.judge()
        try:
            self._lay_out(first=version is None)
            handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise from_os_error(error) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LaunchError(
                    f"already running{_named(self.holder())}", "stop it with `grove down`", REFUSED
                ) from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            try:
                self._mark()
            except OSError as error:
                raise from_os_error(error) from error
            yield version is None
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)

    def held(self) -> bool:
        """Whether a supervisor runs on this directory now."""
        try:
            handle = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def holder(self) -> int | None:
        """The process id written in the lock, when there is one."""
        try:
            return int(self.lock.read_text(encoding="utf-8").strip())
        except (OSError, ValueError):
            return None

    def _lay_out(self, *, first: bool) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(self.path).free
        if free < (_FIRST_START_BYTES if first else _START_BYTES):
            raise LaunchError(
                f"the disk is full: {free // (1024 * 1024)} MiB are left for {self.path}",
                "free some space, or move GROVE_HOME to another disk",
                REFUSED,
            )
        if first:
            self._mark()
        for directory in (self.postgres, self.valkey, self.keys, self.run, self.logs):
            directory.mkdir(mode=0o700, exist_ok=True)

    def _mark(self) -> None:
        text = json.dumps({"format": FORMAT, "version": product_version()}) + "\n"
        if not self.marker.exists() or self.marker.read_text(encoding="utf-8") != text:
            write_private(self.marker, text)


def _named(pid: int | None) -> str:
    return f" (pid {pid})" if pid is not None else ""


def _marker(path: Path, text: str) -> tuple[int, str]:
    try:
        document = cast("object", json.loads(text))
        if not isinstance(document, dict):
            raise TypeError(text)
        fields = cast("dict[str, object]", document)
        return int(str(fields["format"])), str(fields.get("version", "of an unknown version"))
    except (ValueError, TypeError, KeyError):
        raise LaunchError(
            f"{path} is damaged, so what is in its directory cannot be judged",
            "restore it, or set GROVE_HOME to another directory",
            REFUSED,
        ) from None


def write_private(path: Path, text: str) -> None:
    """Write a file only its owner can read, whole or not at all."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
