"""A service that dies, as by ``kill -9``, at one point of its code: ``dying.py SERVICE MODULE:CLASS.METHOD:WHEN``.

It is the service as it is, but for one method, before or after which the process ends.
"""

import importlib
import os
import signal
import sys
from typing import Any

__all__ = ["arrange"]


def arrange(point: str) -> None:
    """Make the process end at ``module:Class.method:before`` or ``…:after``."""
    module, path, when = point.split(":")
    owner, method = path.split(".")
    kind = getattr(importlib.import_module(module), owner)
    inner = getattr(kind, method)

    async def dies(*arguments: Any, **named: Any) -> Any:
        if when == "after":
            await inner(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, method, dies)


if __name__ == "__main__":
    service, at = sys.argv[1:]
    arrange(at)
    sys.exit(importlib.import_module(f"{service}.__main__").main([]))
