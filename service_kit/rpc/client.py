"""Calling another service: ``Stub(channel(...))``, then await its methods.

The channel does what every call needs: the trace and the current passport go along, a deadline is
always set, and a failure comes back as the :class:`~service_kit.errors.GroveError` the other side
raised. It wraps the multi-callables instead of using gRPC's client interceptors, which cost a task a
call and cannot see a stream end. A unary method therefore answers a coroutine, also one that is sent a
stream of requests; a streaming one a :class:`Stream`, best used under :func:`streaming`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import grpc
from grpc._cython import cygrpc  # pyright: ignore[reportMissingTypeStubs] - see _send

from service_kit import telemetry
from service_kit.errors import GroveError
from service_kit.identity import Passport, fresh_passport
from service_kit.rpc.interceptors import telemetry as observed
from service_kit.rpc.passport import ServicePassport
from service_kit.rpc.status import PASSPORT_KEY, from_error
from service_kit.settings import Settings
from service_kit.tasks import told_to_stop

__all__ = ["Channel", "ServicePassport", "Stream", "channel", "streaming"]

Metadata = tuple[tuple[str, str], ...]
_Item = TypeVar("_Item")

_RECONNECT_MIN_MS: Final = 100
_RECONNECT_MAX_MS: Final = 500  # a service that is back is used within what a safe call's retries last
_KEEPALIVE_MS: Final = 30_000


def channel(target: str, settings: Settings, *, safe: Iterable[str] = ()) -> grpc.aio.Channel:
    """A channel to the service at ``target`` (``host:port``, ``unix:path`` or a full gRPC target).

    ``safe`` are the full names (``package.Service/Method``) of the methods that may be sent twice: they
    are retried when the service is unavailable. Close it with ``await channel.close()`` or ``async with``.
    """
    limit = settings.rpc_max_message_bytes
    options: list[tuple[str, str | int]] = [
        ("grpc.service_config", _service_config(safe)),
        ("grpc.max_send_message_length", limit),
        ("grpc.max_receive_message_length", limit),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MIN_MS),
        ("grpc.min_reconnect_backoff_ms", _RECONNECT_MIN_MS * 10),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MAX_MS),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.enable_http_proxy", 0),
        ("grpc.lb_policy_name", "round_robin"),
        # A connection of its own: what was at this address before, and failed, is another channel's trouble.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    full = target if ":/" in target or target.startswith("unix:") else f"dns:///{target}"
    return Channel(grpc.aio.insecure_channel(full, options), settings.rpc_timeout_s)


def _service_config(safe: Iterable[str]) -> str:
    config: dict[str, object] = {"loadBalancingConfig": [{"round_robin": {}}]}
    names = [
        dict(zip(("service", "method"), name.removeprefix("/").split("/"), strict=True)) for name in safe
    ]
    if names:
        config["methodConfig"] = [
            {
                "name": names,
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 3,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
        config["retryThrottling"] = {"maxTokens": 20, "tokenRatio": 0.2}
    return json.dumps(config)


class Channel(grpc.aio.Channel):
    """A channel whose calls carry identity, trace and deadline, and raise ``GroveError``."""

    def __init__(self, inner: grpc.aio.Channel, timeout_s: float) -> None:
        self._inner: grpc.aio.Channel = inner
        self._timeout_s: float = timeout_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        await self._inner.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._inner.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._inner.channel_ready()

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _Unary(method, self._inner.unary_unary(method, *args, **kwargs), self._timeout_s)

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _Streaming(method, self._inner.unary_stream(method, *args, **kwargs), self._timeout_s)

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _Sending(method, self._inner.stream_unary(method, *args, **kwargs), self._timeout_s)

    def stream_stream(self, method: str, *_args: Any, **_kwargs: Any) -> Any:
        return _unsupported(method)


def _unsupported(method: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise NotImplementedError(f"{method} streams both ways, which no service here does")

    return refuse


def _metadata(
    observation: observed.Observation, passport: Passport | None, extra: Metadata | None
) -> Metadata:
    """Trace and identity, then what the caller adds."""
    own = tuple(telemetry.carrier(observation.span).items())
    if passport is not None:
        own = (*own, (PASSPORT_KEY, passport.token))
    return own + (extra or ())


class _Unary:
    """``await stub.Method(request, timeout=…)``: the response, or ``GroveError``."""

    def __init__(self, method: str, inner: Any, timeout_s: float) -> None:
        self._method: str = method
        self._inner: Any = inner
        self._timeout_s: float = timeout_s

    async def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: Metadata | None = None
    ) -> Any:
        passport = await fresh_passport()
        observation = observed.client(self._method)
        try:
            response = await self._inner(
                request,
                timeout=self._timeout_s if timeout is None else timeout,
                metadata=_metadata(observation, passport, metadata),
            )
        except grpc.aio.AioRpcError as failure:
            error = from_error(failure)
            observation.fail(error)
            raise error from failure
        except asyncio.CancelledError:
            observation.cancel()
            raise _unless_cancelled() from None
        observation.end()
        return response


def _unless_cancelled() -> BaseException:
    """A call raises CancelledError also when the *other* side cancelled; only our own may pass as such."""
    if told_to_stop():
        return asyncio.CancelledError()
    return GroveError("grovekeeper_unavailable", "A part of the server stopped answering; try again.")


class _Sending:
    """``await stub.Method(requests, timeout=…)``: the response to a stream of requests, or ``GroveError``.

    A request is asked for once the one before it was taken: a slow other side slows ``requests`` down. When
    those raise, the call is given up and their error raised; when the other side answers early, the rest is
    not asked for.
    """

    def __init__(self, method: str, inner: Any, timeout_s: float) -> None:
        self._method: str = method
        self._inner: Any = inner
        self._timeout_s: float = timeout_s

    async def __call__(
        self, requests: AsyncIterable[Any], *, timeout: float | None = None, metadata: Metadata | None = None
    ) -> Any:
        passport = await fresh_passport()
        observation = observed.client(self._method)
        call = self._inner(
            timeout=self._timeout_s if timeout is None else timeout,
            metadata=_metadata(observation, passport, metadata),
        )
        try:
            await _send(call, requests)
            response = await call
            observation.end()
        except grpc.aio.AioRpcError as failure:
            error = from_error(failure)
            observation.fail(error)
            raise error from failure
        except asyncio.CancelledError:
            raise _unless_cancelled() from None
        finally:
            # What ended stays as it is.
            call.cancel()
            observation.cancel()
        return response


async def _send(call: Any, requests: AsyncIterable[Any]) -> None:
    """What cannot be sent any more is no failure: the call has ended, and says how when it is awaited.

    gRPC's own ``write`` would put INTERNAL in the place of how it ended (grpc/grpc#36066): it is gone around.
    """
    await call.wait_for_connection()
    with suppress(asyncio.InvalidStateError, cygrpc.InternalError):
        async for request in requests:
            if call.done():
                return
            serialize = call._request_serializer  # noqa: SLF001 - see above
            message = request if serialize is None else serialize(request)
            await call._cython_call.send_serialized_message(message)  # noqa: SLF001 - see above
        if not call.done():
            await call.done_writing()


class _Streaming:
    """``stub.Method(request, timeout=…)``: a :class:`Stream`."""

    def __init__(self, method: str, inner: Any, timeout_s: float) -> None:
        self._method: str = method
        self._inner: Any = inner
        self._timeout_s: float = timeout_s

    def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: Metadata | None = None
    ) -> "Stream[Any]":
        observation = observed.client(self._method)

        def start(passport: Passport | None) -> Any:
            return self._inner(
                request,
                timeout=self._timeout_s if timeout is None else timeout,
                metadata=_metadata(observation, passport, metadata),
            )

        return Stream(start, observation)


class Stream(AsyncIterator[_Item]):
    """The responses of a streaming call, which starts with the first one asked for. Its span ends when it
    is exhausted, fails, or is given up.
    """

    def __init__(self, start: Callable[[Passport | None], Any], observation: observed.Observation) -> None:
        self._start: Callable[[Passport | None], Any] = start
        self._observation: observed.Observation = observation
        self._call: Any = None
        self._items: AsyncIterator[_Item] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Item:
        try:
            if self._items is None:
                self._call = self._start(await fresh_passport())
                self._items = cast("AsyncIterator[_Item]", self._call.__aiter__())
            return await anext(self._items)
        except StopAsyncIteration:
            self._observation.end()
            raise
        except grpc.aio.AioRpcError as failure:
            error = from_error(failure)
            self._observation.fail(error)
            raise error from failure
        except GroveError as error:
            self._observation.fail(error)
            raise
        except asyncio.CancelledError:
            self.cancel()
            raise _unless_cancelled() from None

    def cancel(self) -> bool:
        """Give the call up; one that already ended stays as it is."""
        cancelled = self._call is not None and bool(self._call.cancel())
        self._observation.cancel()
        return cancelled

    async def aclose(self) -> None:
        """Give the call up, as ``contextlib.aclosing`` asks."""
        self.cancel()

    def __del__(self) -> None:
        self._observation.cancel()


@asynccontextmanager
async def streaming(call: AsyncIterable[_Item]) -> AsyncGenerator[AsyncIterator[_Item]]:
    """Iterate a streaming call inside the block; leaving it, however, ends the call.

    ``async with streaming(stub.Follow(request, timeout=600)) as events: async for event in events: …``
    """
    try:
        yield aiter(call)
    finally:
        if isinstance(call, Stream):
            call.cancel()
