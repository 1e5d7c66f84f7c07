"""A service that dies, as by ``kill -9``, at one point of its code: ``dying.py SERVICE MODULE:CLASS.METHOD:WHEN``.

It is the service as it is, but for one method, before or after which the process ends. What a service tries before it
serves is not that point.
"""

import importlib
import os
import signal
import sys
from typing import Any

from service_kit.objects.store import Objects

__all__ = ["arrange"]


def arrange(point: str) -> None:
    """Make the process end at ``module:Class.method:before`` or ``…:after``."""
    module, path, when = point.split(":")
    owner, method = path.split(".")
    kind = getattr(importlib.import_module(module), owner)
    inner = getattr(kind, method)

    tried, trying = Objects.check, list[bool]()

    async def check(self: Objects) -> None:
        trying.append(True)
        await tried(self)
        trying.pop()

    async def dies(*arguments: Any, **named: Any) -> Any:
        if trying:
            return await inner(*arguments, **named)
        if when == "after":
            await inner(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    Objects.check = check
    setattr(kind, method, dies)


if __name__ == "__main__":
    service, at = sys.argv[1:]
    arrange(at)
    sys.exit(importlib.import_module(f"{service}.__main__").main([]))
