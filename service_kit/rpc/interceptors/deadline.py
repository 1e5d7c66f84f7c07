"""Every call names its deadline: an unbounded one would hold what it holds for ever."""

from typing import Any, cast

import grpc

from service_kit.errors import GroveError

__all__ = ["require_deadline"]


def require_deadline(context: grpc.aio.ServicerContext[Any, Any]) -> None:
    """``invalid_input`` for a call without a deadline."""
    # The stubs promise a number; without a deadline there is none.
    if cast("float | None", context.time_remaining()) is None:
        raise GroveError("invalid_input", "Every call between services names a deadline.")
