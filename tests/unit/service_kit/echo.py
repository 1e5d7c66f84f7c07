"""A small service behind the whole chassis: bytes in, bytes out."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import grpc
from opentelemetry import trace

from service_kit.errors import GroveError
from service_kit.identity import current_passport, passport_or_none
from service_kit.rpc import client, server
from service_kit.settings import Settings

SERVICE = "test.Echo"
PUBLIC = f"{SERVICE}/Public"

Context = grpc.aio.ServicerContext[bytes, bytes]


class Echo:
    """The handlers; what a test wants to know of them is left in attributes."""

    def __init__(self) -> None:
        self.calls: int = 0
        self.entered: asyncio.Event = asyncio.Event()
        self.left: asyncio.Event = asyncio.Event()
        self.release: asyncio.Event = asyncio.Event()
        self.failures: int = 0

    async def unary(self, request: bytes, _: Context) -> bytes:
        self.calls += 1
        match request:
            case b"who":
                return current_passport().principal.encode()
            case b"refuse":
                raise GroveError(
                    "memory_forbidden", "You may not.", param="memory.id", detail={"needs": ["write"]}
                )
            case b"break":
                raise RuntimeError("the password is hunter2")
            case b"flaky":
                if self.calls <= self.failures:
                    raise GroveError("grovekeeper_unavailable", "Not now.")
                return b"at last"
            case b"wait":
                await self._wait()
                return b"waited"
            case b"big":
                return b"x" * 300_000
            case b"trace":
                return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id).encode()
            case b"large detail":
                raise GroveError("invalid_input", "m" * 5000, detail={"a": "d" * 10_000})
            case _:
                return request

    async def public(self, _request: bytes, _: Context) -> bytes:
        passport = passport_or_none()
        return passport.principal.encode() if passport else b"nobody"

    async def stream(self, request: bytes, _: Context) -> AsyncGenerator[bytes]:
        try:
            for number in range(3):
                yield b"%d %s" % (number, current_passport().principal.encode())
            match request:
                case b"refuse":
                    raise GroveError("session_busy", "Busy.", detail={"retry_after_ms": 5})
                case b"break":
                    raise RuntimeError("the password is hunter2")
                case b"wait":
                    await self._wait()
                case _:
                    yield trace.format_trace_id(trace.get_current_span().get_span_context().trace_id).encode()
        finally:
            self.left.set()

    async def take(self, requests: AsyncIterator[bytes], context: Context) -> bytes:
        """Says who sent how much; ``early`` answers at once, the rest is as in :meth:`unary`."""
        taken = 0
        async for request in requests:
            self.calls += 1
            taken += len(request)
            if request == b"early":
                return b"enough"
            if request in (b"refuse", b"break", b"wait", b"trace"):
                return await self.unary(request, context)
        return b"%d %s" % (taken, current_passport().principal.encode())

    async def _wait(self) -> None:
        self.entered.set()
        try:
            await self.release.wait()
        finally:
            self.left.set()

    def register(self, grpc_server: grpc.aio.Server) -> None:
        handlers: dict[str, Any] = {
            "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "Public": grpc.unary_unary_rpc_method_handler(self.public),
            "Take": grpc.stream_unary_rpc_method_handler(cast("Any", self.take)),
            "Stream": grpc.unary_stream_rpc_method_handler(self.stream),
        }
        generic = grpc.method_handlers_generic_handler(SERVICE, handlers)
        grpc_server.add_generic_rpc_handlers((generic,))


@dataclass
class Served:
    """A running server: its handlers, its ports, and a way to stop it."""

    echo: Echo
    settings: Settings
    port: int
    ops_port: int
    stop: asyncio.Event
    hurry: asyncio.Event
    ended: asyncio.Task[int]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def client(self, safe: Iterable[str] = ()) -> AsyncGenerator["Stub"]:
        async with client.channel(self.address, self.settings, safe=safe) as channel:
            yield Stub(channel)


class Stub:
    """What protoc would have made."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.unary: Callable[..., Any] = channel.unary_unary(f"/{SERVICE}/Unary")
        self.public: Callable[..., Any] = channel.unary_unary(f"/{SERVICE}/Public")
        stream = cast("Any", channel).unary_stream(f"/{SERVICE}/Stream")
        self.stream: Callable[..., AsyncIterator[bytes]] = stream
        self.take: Callable[..., Any] = channel.stream_unary(f"/{SERVICE}/Take")


@asynccontextmanager
async def serving(settings: Settings, echo: Echo, **wiring: Any) -> AsyncGenerator[Served]:
    """Serve ``echo``; the server is stopped, in order, when the block ends."""

    @asynccontextmanager
    async def build(_: Settings) -> AsyncGenerator[server.Wiring]:
        parts: dict[str, Any] = {
            "servicers": [echo.register],
            "service_names": [SERVICE],
            "public_methods": frozenset({PUBLIC}),
        }
        yield server.Wiring(**(parts | wiring))

    stop, hurry = asyncio.Event(), asyncio.Event()
    ports: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
    ended = asyncio.create_task(
        server.serve(
            "echo",
            settings,
            build,
            stop=stop,
            hurry=hurry,
            started=lambda port, ops_port: ports.set_result((port, ops_port)),
        )
    )
    await asyncio.wait({ended, ports}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        ended.result()
    port, ops_port = ports.result()
    served = Served(echo, settings, port, ops_port, stop, hurry, ended)
    try:
        yield served
    finally:
        stop.set()
        hurry.set()
        await asyncio.wait({ended})
