"""``grove down``: ask the supervisor of a directory to stop, and wait for it."""

import os
import signal
import time
from typing import Final

from service_kit.embedded import state
from service_kit.embedded.errors import LaunchError
from service_kit.embedded.home import Home
from service_kit.embedded.settings import UpSettings

__all__ = ["down"]

_POLL_S: Final = 0.05


def down(settings: UpSettings, timeout_s: float) -> str:
    """Answers what was done, for people. Raises :class:`LaunchError` when it does not end in time."""
    home = Home(settings.directory())
    if not home.held():
        if home.judge() is None or not home.state.exists():
            return "nothing runs there"
        with home.claim():
            left = state.clear_leftovers(home)
        return f"ended what a killed supervisor had left: {', '.join(left)}" if left else "nothing runs there"
    pid = home.holder()
    if pid is None:
        raise LaunchError("it is just starting or stopping", "try again in a moment")
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise LaunchError(f"it runs as another user (pid {pid})", "stop it as that user") from None
    except ProcessLookupError:
        pass
    deadline = time.monotonic() + timeout_s
    while home.held():
        if time.monotonic() > deadline:
            raise LaunchError(f"it has not stopped after {timeout_s:.0f} s (pid {pid})")
        time.sleep(_POLL_S)
    return "stopped"
