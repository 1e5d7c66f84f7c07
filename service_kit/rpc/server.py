"""``run``: the blocking main of a gRPC service, the same for all of them.

It installs telemetry, builds the service, serves gRPC (with health and reflection) and the operators'
HTTP, runs the background work, and on SIGTERM stops in order: not ready, drain, calls end, background
work ends, pools close, telemetry is sent, exit 0. A second SIGTERM cuts the grace short.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
import uvloop

from service_kit import telemetry
from service_kit.identity import PassportVerifier
from service_kit.ops import ListenError, OpsServer, bind
from service_kit.rpc.health import Health
from service_kit.rpc.interceptors import Chassis
from service_kit.settings import Settings, SettingsError

__all__ = ["Wiring", "run", "serve"]

_log: Final = logging.getLogger(__name__)
_CANCELLATIONS: Final = 30
_GARBAGE: Final = (10_000, 20, 20)
"""Objects made before the youngest are looked through, and so on: calls leave little that is garbage."""
_METADATA_BYTES: Final = 64 * 1024  # a passport names up to 128 groups with 6,000 characters
_Settings = TypeVar("_Settings", bound=Settings)


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What a service hands to :func:`run`.

    ``servicers`` register themselves on a server; ``service_names`` are their full proto names;
    ``background`` are run until the end (one that raises ends the process, one that returns is done);
    ``ready`` says whether requests can be served; ``public_methods`` are full method names that need no
    passport; ``drain`` is awaited after readiness is false and before calls are ended: end long streams there.
    """

    servicers: list[Callable[[grpc.aio.Server], None]]
    service_names: list[str]
    background: list[Callable[[], Coroutine[Any, Any, None]]] = field(
        default_factory=list[Callable[[], Coroutine[Any, Any, None]]]
    )
    ready: Callable[[], Awaitable[bool]] = _always
    public_methods: frozenset[str] = frozenset()
    drain: Callable[[], Awaitable[None]] | None = None


Build = Callable[[_Settings], AbstractAsyncContextManager[Wiring]]


def run(name: str, settings: _Settings, build: Build[_Settings]) -> int:
    """Serve until told to stop; answers the exit code: 0 stopped in order, 1 failed."""
    sent = telemetry.setup(name, settings)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_main(name, settings, build))
    except (ListenError, SettingsError) as error:
        _log.error("%s cannot start: %s", name, error)
        return 1
    except Exception:  # noqa: BLE001 - the edge of the process
        _log.exception("%s failed", name)
        return 1
    finally:
        sent.shutdown()


async def _main(name: str, settings: _Settings, build: Build[_Settings]) -> int:
    stop = asyncio.Event()
    hurry = asyncio.Event()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, told)
    return await serve(name, settings, build, stop=stop, hurry=hurry, started=_leave_alone)


def _leave_alone(_port: int, _ops_port: int) -> None:
    """What was made until a process serves stays: looking through it for garbage costs a tenth of a call."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)


async def serve(
    name: str,
    settings: _Settings,
    build: Build[_Settings],
    *,
    stop: asyncio.Event,
    hurry: asyncio.Event | None = None,
    started: Callable[[int, int], None] | None = None,
) -> int:
    """What :func:`run` runs; ``started`` is told the gRPC and the operators' port."""
    async with AsyncExitStack() as stack:
        wiring = await stack.enter_async_context(build(settings))
        verifier = PassportVerifier(settings.passport_keys_file) if settings.passport_keys_file else None
        server = _server(settings)
        chassis = Chassis(verifier, wiring.public_methods)
        health = Health(wiring.service_names, wiring.ready)
        await health.register(server)
        for register in wiring.servicers:
            register(chassis.around(server))
        ops = await stack.enter_async_context(OpsServer(settings.ops_listen, health.ready))
        port = _listen(server, settings.listen)
        await server.start()
        _log.info("%s serves", name, extra={"port": port, "ops_port": ops.port})
        if started is not None:
            started(port, ops.port)
        work = _Background([health.watch, *wiring.background])
        failed = await work.until(stop)
        await _stop(
            server, health, wiring, 0.0 if failed else settings.stop_grace_s, hurry or asyncio.Event()
        )
        await work.end()
    _log.info("%s stopped", name)
    return 1 if failed else 0


async def _stop(
    server: grpc.aio.Server, health: Health, wiring: Wiring, grace_s: float, hurry: asyncio.Event
) -> None:
    await health.stop()
    hurried = asyncio.create_task(hurry.wait())

    async def politely() -> None:
        if wiring.drain is not None:
            await wiring.drain()
        await server.stop(grace_s)

    polite = asyncio.create_task(politely())
    await asyncio.wait({polite, hurried}, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not polite.done():
        polite.cancel()
        await server.stop(None)
    await asyncio.gather(polite, hurried, return_exceptions=True)


class _Background:
    """The tasks that live as long as the process."""

    def __init__(self, work: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        self._tasks: set[asyncio.Task[None]] = {
            asyncio.create_task(one(), name=getattr(one, "__qualname__", repr(one))) for one in work
        }

    async def until(self, stop: asyncio.Event) -> bool:
        """Wait for ``stop`` (False) or for a task to die (True, and one line says which)."""
        stopping = asyncio.create_task(stop.wait())
        running: set[asyncio.Task[Any]] = {stopping, *self._tasks}
        try:
            while not stopping.done():
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {stopping}:
                    error = None if task.cancelled() else task.exception()
                    if error is not None or task.cancelled():
                        _log.error("background work %s died", task.get_name(), exc_info=error)
                        return True
            return False
        finally:
            stopping.cancel()

    async def end(self) -> None:
        """Cancel them all and wait for the end of each. A cancellation can get lost on its way (Python
        3.11's ``wait_for``), so it is repeated.
        """
        left = self._tasks
        for _ in range(_CANCELLATIONS):
            for task in left:
                task.cancel()
            if left:
                _, left = await asyncio.wait(left, timeout=1.0)
        for task in left:
            _log.error("background work %s does not stop", task.get_name())
        for task in self._tasks - left:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.warning("background work %s ended badly", task.get_name(), exc_info=error)


def _server(settings: Settings) -> grpc.aio.Server:
    limit = settings.rpc_max_message_bytes
    options: list[tuple[str, int]] = [
        ("grpc.so_reuseport", 0),
        ("grpc.max_send_message_length", limit),
        ("grpc.max_receive_message_length", limit),
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ]
    if settings.rpc_max_connection_age_s is not None:
        options.append(("grpc.max_connection_age_ms", int(settings.rpc_max_connection_age_s * 1000)))
    return grpc.aio.server(options=options, maximum_concurrent_rpcs=settings.rpc_max_concurrent)


def _listen(server: grpc.aio.Server, listen: str) -> int:
    if not listen.startswith("unix:"):
        # gRPC writes a line of its own to stderr and gives no reason: find out first.
        bind(listen).close()
    try:
        return server.add_insecure_port(listen)
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {listen}") from error
