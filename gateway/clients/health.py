"""Whether another service serves, by the standard health service."""

from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service_kit.errors import GroveError

__all__ = ["HealthClient"]


class HealthClient:
    """Asks one service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._health = cast("Any", health_pb2_grpc).HealthStub(channel)

    async def serving(self, timeout_s: float = 2.0) -> bool:
        """Whether it answers that it serves."""
        try:
            answer = await self._health.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except GroveError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
