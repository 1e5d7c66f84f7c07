"""What leaves a handler that fails: our error whole, any other as ``server_error`` and a line in the log."""

import logging
from typing import Any, Final, NoReturn

import grpc

from service_kit.errors import GroveError, internal
from service_kit.rpc.status import ERROR_KEY, status_of, to_bytes, unimplemented

__all__ = ["as_grove_error", "refuse"]

_log: Final = logging.getLogger(__name__)


def as_grove_error(error: Exception, method: str) -> GroveError:
    """``error`` if it is ours, what a servicer left out as that; else it is logged with its traceback and hidden."""
    if isinstance(error, GroveError):
        if error.code == "server_error":
            _log.error("%s failed: %s", method, error.message, exc_info=error)
        return error
    if isinstance(error, NotImplementedError):
        return unimplemented()
    _log.error("%s failed: %s", method, type(error).__name__, exc_info=error)
    return internal()


async def refuse(context: grpc.aio.ServicerContext[Any, Any], error: GroveError) -> NoReturn:
    """End the call with ``error``."""
    await context.abort(status_of(error), error.message, ((ERROR_KEY, to_bytes(error)),))
