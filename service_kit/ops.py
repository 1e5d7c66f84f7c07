"""The operators' HTTP: ``/healthz`` (the process lives), ``/readyz`` (it can serve), ``/metrics``.

Of use to every process, the gateway included; it listens apart from the product's own interfaces.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Self

import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

__all__ = ["ListenError", "OpsServer", "Server", "bind", "ops_app"]


class ListenError(Exception):
    """An address cannot be listened on; the message says which and why."""


def bind(listen: str) -> socket.socket:
    """A listening TCP socket on ``host:port`` (port 0: any free one); :class:`ListenError` otherwise."""
    host, _, port = listen.rpartition(":")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), _port(port)), family=family, backlog=512)
    except (OSError, ValueError) as error:
        raise ListenError(f"cannot listen on {listen}: {_reason(error)}") from error


def _port(text: str) -> int:
    if not 0 <= (port := int(text)) <= 65535:
        raise ValueError(f"{port} is no port")
    return port


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def ops_app(ready: Callable[[], Awaitable[bool]]) -> Starlette:
    """The three endpoints; ``ready`` must answer within seconds."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        answer = await ready()
        return PlainTextResponse("ready\n" if answer else "not ready\n", 200 if answer else 503)

    async def metrics(_: Request) -> Response:
        body = await asyncio.to_thread(prometheus_client.generate_latest)
        return Response(body, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    )


class Server(uvicorn.Server):
    """uvicorn, leaving the process's signals to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class OpsServer:
    """Serves :func:`ops_app` beside whatever the process does: ``async with OpsServer(listen, ready):``."""

    def __init__(self, listen: str, ready: Callable[[], Awaitable[bool]]) -> None:
        self._listen: str = listen
        self._config: uvicorn.Config = uvicorn.Config(
            ops_app(ready),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            limit_concurrency=64,
        )
        self._server: Server = Server(self._config)
        self._task: asyncio.Task[None] | None = None
        self.port: int = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; :class:`ListenError` when that is impossible. ``port`` then tells where."""
        listener = bind(self._listen)
        self.port = int(listener.getsockname()[1])
        self._task = asyncio.create_task(self._server.serve([listener]), name="ops http")

    async def stop(self) -> None:
        """Stop listening and wait for the end."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
