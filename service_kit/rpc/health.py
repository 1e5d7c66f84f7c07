"""The standard health service (grpc.health.v1), kept in step with readiness."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, cast

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

__all__ = ["EXEMPT", "Health", "is_ready"]

EXEMPT: Final = ("/grpc.health.v1.", "/grpc.reflection.")
"""Prefixes of methods that need neither a passport nor a deadline."""

_READY_TIMEOUT_S: Final = 3.0
_log: Final = logging.getLogger(__name__)


async def is_ready(ready: Callable[[], Awaitable[bool]]) -> bool:
    """The answer of a readiness check that may hang or break."""
    try:
        async with asyncio.timeout(_READY_TIMEOUT_S):
            return await ready()
    except TimeoutError:
        return False
    except Exception:  # noqa: BLE001 - whatever keeps a service from being ready, the answer is no
        _log.exception("the readiness check failed")
        return False


class _Servicer(Protocol):
    """What ``grpc_health`` offers under ``health.aio``, which its stubs leave out."""

    async def set(
        self, service: str, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType
    ) -> None: ...
    async def enter_graceful_shutdown(self) -> None: ...


class Health:
    """Health and reflection on a server; ``watch`` follows readiness until cancelled."""

    def __init__(self, services: Sequence[str], ready: Callable[[], Awaitable[bool]]) -> None:
        self._servicer: _Servicer = cast("_Servicer", cast("Any", health).aio.HealthServicer())
        self._services: tuple[str, ...] = ("", *services)
        self._ready: Callable[[], Awaitable[bool]] = ready
        self._stopping: bool = False

    async def register(self, server: grpc.aio.Server) -> None:
        """Add both services to ``server``; NOT_SERVING until readiness is seen."""
        cast("Any", health_pb2_grpc).add_HealthServicer_to_server(self._servicer, server)
        names = [*self._services[1:], health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, server)
        await self._set(serving=False)

    async def ready(self) -> bool:
        """Readiness as the world may know it: false from the moment stopping begins."""
        return not self._stopping and await is_ready(self._ready)

    async def watch(self, every_s: float = 2.0) -> None:
        """Keep the health service in step with readiness."""
        known = False
        while True:
            serving = await self.ready()
            if serving != known:
                await self._set(serving=serving)
                _log.info("ready" if serving else "not ready")
                known = serving
            await asyncio.sleep(every_s if known else min(every_s, 0.25))

    async def stop(self) -> None:
        """NOT_SERVING from here on."""
        self._stopping = True
        await self._servicer.enter_graceful_shutdown()

    async def _set(self, *, serving: bool) -> None:
        status = (
            health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        for service in self._services:
            await self._servicer.set(service, status)
