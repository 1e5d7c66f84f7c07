"""What surrounds every handler: telemetry, then errors, then the deadline, then identity.

They are one wrapper, so that a call runs in one task and context, and a stream is closed in the task that
opened it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import grpc

from service_kit.identity import PassportVerifier
from service_kit.rpc.interceptors import deadline, errors, identity, telemetry

__all__ = ["Chassis"]

_Context = grpc.aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in its stubs only
_Answer = Callable[[Any, _Context], Awaitable[Any]]


class Chassis:
    """Wraps handlers, all but those that stream both ways; ``public`` are full method names needing no passport.

    Handlers are wrapped once, where they are registered: gRPC's own interceptors are looked through anew at
    every call.
    """

    def __init__(self, verifier: PassportVerifier | None, public: frozenset[str] = frozenset()) -> None:
        self._verifier: PassportVerifier | None = verifier
        self._public: frozenset[str] = frozenset("/" + name.removeprefix("/") for name in public)

    def around(self, server: grpc.aio.Server) -> grpc.aio.Server:
        """The server, for servicers to register themselves on."""
        return cast("grpc.aio.Server", _Registrar(server, self))

    def wrap(self, method: str, handler: _Handler) -> _Handler:
        """The handler of a method, with all that surrounds it."""
        if handler.unary_unary is not None:
            answer = self._around(method, cast("_Answer", handler.unary_unary))
            return grpc.unary_unary_rpc_method_handler(
                cast("Any", answer), handler.request_deserializer, handler.response_serializer
            )
        if handler.unary_stream is not None:
            stream = _written(cast("Callable[[Any, _Context], AsyncGenerator[Any]]", handler.unary_stream))
            return grpc.unary_stream_rpc_method_handler(
                cast("Any", self._around(method, stream)),
                handler.request_deserializer,
                handler.response_serializer,
            )
        if handler.stream_unary is not None:
            taking = self._around(method, cast("_Answer", handler.stream_unary))
            return grpc.stream_unary_rpc_method_handler(
                cast("Any", taking), handler.request_deserializer, handler.response_serializer
            )
        raise NotImplementedError(f"{method} streams both ways, which no service here does")

    def _around(self, method: str, answer: _Answer) -> _Answer:
        verifier, public = self._verifier, method in self._public

        async def wrapped(request: Any, context: _Context) -> Any:
            metadata = _texts(context)
            observation = telemetry.server(method, metadata)
            telemetry.make_current(observation)
            try:
                deadline.require_deadline(context)
                identity.admit(metadata, verifier, public=public)
                response = await answer(request, context)
            except asyncio.CancelledError:
                observation.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - the edge of the process
                refusal = errors.as_grove_error(error, method)
                observation.fail(refusal)
                await errors.refuse(context, refusal)
            observation.end()
            return response

        return wrapped


class _Registrar:
    """Takes the place of a server where servicers register themselves."""

    def __init__(self, server: grpc.aio.Server, chassis: Chassis) -> None:
        self._server: grpc.aio.Server = server
        self._chassis: Chassis = chassis

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add handlers that are asked for one by one."""
        self._server.add_generic_rpc_handlers([_Generic(one, self._chassis) for one in handlers])

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, _Handler]) -> None:
        """Add handlers by name."""
        wrapped = {name: self._chassis.wrap(f"/{service}/{name}", one) for name, one in handlers.items()}
        cast("Any", self._server).add_registered_method_handlers(service, wrapped)


class _Generic(grpc.GenericRpcHandler):
    """Wraps what another one answers, once."""

    def __init__(self, inner: grpc.GenericRpcHandler, chassis: Chassis) -> None:
        self._inner: grpc.GenericRpcHandler = inner
        self._chassis: Chassis = chassis
        self._wrapped: dict[str, _Handler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "_Handler | None":
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is None:
            handler = self._inner.service(handler_call_details)
            if handler is None:
                return None
            known = self._wrapped[method] = self._chassis.wrap(method, handler)
        return known


def _written(stream: Callable[[Any, _Context], AsyncGenerator[Any]]) -> _Answer:
    """A handler that writes what the generator yields, and closes it whatever happens to the call."""

    async def written(request: Any, context: _Context) -> None:
        responses = stream(request, context)
        try:
            async for response in responses:
                await context.write(response)
        finally:
            await responses.aclose()

    return written


def _texts(context: _Context) -> dict[str, str]:
    """The call's metadata that is text."""
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
