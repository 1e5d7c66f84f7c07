"""Ports on the loopback interface."""

import atexit
import contextlib
import errno
import random
import socket
from typing import Final

from service_kit.embedded.errors import REFUSED, LaunchError

__all__ = ["HOST", "free_ports", "require_free"]

HOST: Final = "127.0.0.1"
_RANGE: Final = (20_000, 32_000)  # below the ports that systems hand to outgoing connections
_claims: Final = contextlib.ExitStack()  # held until this process ends
atexit.register(_claims.close)


def require_free(port: int) -> None:
    """:class:`LaunchError` unless ``port`` can be listened on."""
    try:
        with socket.create_server((HOST, port)):
            return
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "is taken by another program" if taken else f"cannot be used: {error.strerror}"
        raise LaunchError(f"port {port} {why}", "set GROVE_PORT to another port", REFUSED) from None


def free_ports(count: int, *, besides: int = 0) -> list[int]:
    """``count`` different ports nobody listens on now, without ``besides``.

    They are this process's until it ends, for all who ask here: what starts between the choice and the listening
    would choose the same ones.
    """
    start = random.SystemRandom().randrange(*_RANGE)
    span = _RANGE[1] - _RANGE[0]
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for step in range(span):
            port = _RANGE[0] + (start - _RANGE[0] + step) % span
            if port == besides:
                continue
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server((HOST, port)))
                _claims.enter_context(_claim(port))
                found.append(port)
            if len(found) == count:
                return found
    raise LaunchError(f"no {count} free ports between {_RANGE[0]} and {_RANGE[1]}")


def _claim(port: int) -> socket.socket:
    """The UDP port of the same number: nobody else uses it, and the system frees it when its holder is gone."""
    claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        claim.bind((HOST, port))
    except OSError:
        claim.close()
        raise
    return claim
