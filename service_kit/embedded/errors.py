"""What an operator is told when something cannot go on: one line, a remedy, an exit code."""

import errno
from typing import Final

__all__ = ["FAILED", "REFUSED", "LaunchError", "Stopped", "TookTooLongError", "from_os_error"]

FAILED: Final = 1  # something broke on the way
REFUSED: Final = 2  # nothing was started: the operator has to change something first


class LaunchError(Exception):
    """One sentence for the operator, perhaps a remedy, and the process's exit code."""

    def __init__(self, message: str, remedy: str | None = None, code: int = FAILED) -> None:
        super().__init__(message)
        self.message: str = message
        self.remedy: str | None = remedy
        self.code: int = code


class TookTooLongError(LaunchError):
    """Something was waited for in vain."""


class Stopped(Exception):  # noqa: N818 - a wish, not an error
    """The operator asked for the end while something was still being waited for."""


def from_os_error(error: OSError) -> LaunchError:
    """The file system's refusals in an operator's words."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LaunchError(f"the disk is full{where}", "free some space, or move GROVE_HOME to another disk")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return LaunchError(
            f"not allowed to write{where}: {error.strerror}",
            "make the directory writable for this user, or set GROVE_HOME to another one",
        )
    return LaunchError(f"{error.strerror or error}{where}")
