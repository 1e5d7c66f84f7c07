"""The one place where agents reach this process: HTTP on loopback, a door for each thing they may use.

One port, so that a wall around an agent needs one hole. Each door asks for a token of a turn by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import uvicorn

from service_kit.ops import Server, bind

__all__ = ["Door", "Loopback", "Receive", "Scope", "Send", "header", "listening", "refuse", "whole"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Door = Callable[[Scope, Receive, Send], Awaitable[None]]

_JSON: Final = (b"content-type", b"application/json")


class Loopback:
    """What is served: each door has the paths that begin with its name. ``url`` says where, without a ``/`` at its end."""

    def __init__(self, url: str) -> None:
        self.url: str = url
        self._doors: dict[str, Door] = {}

    def open(self, name: str, door: Door) -> None:
        """``/name`` and what lies below is ``door``'s from now on."""
        self._doors[name] = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            return
        # A path may be "*", which begins with no slash.
        door = self._doors.get(str(scope["path"]).removeprefix("/").partition("/")[0])
        if door is None:
            await refuse(send, 404)
            return
        await door(scope, receive, send)


@asynccontextmanager
async def listening(listen: str) -> AsyncGenerator[Loopback]:
    """Serve on ``host:port`` inside the block. ``ListenError`` when that is impossible."""
    listener = bind(listen)
    host, port = listener.getsockname()[:2]
    loopback = Loopback(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    config = uvicorn.Config(
        cast("Any", loopback),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        # An upstream's answer has its own.
        server_header=False,
        date_header=False,
    )
    server = Server(config)
    task = asyncio.create_task(server.serve([listener]), name="loopback http")
    try:
        yield loopback
    finally:
        server.should_exit = True
        await task


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name (in lower case)."""
    headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


async def whole(receive: Receive, most: int) -> bytes | None:
    """The whole body; None when it has more than ``most`` bytes. What has come of it when its sender leaves."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > most:
            return None
        if not message.get("more_body", False):
            return bytes(body)


async def refuse(send: Send, status: int, body: bytes = b"") -> None:
    """Answer with a status and a JSON body, or none."""
    headers = [(b"content-length", b"%d" % len(body)), _JSON]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
