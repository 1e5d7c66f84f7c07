"""What surrounds every handler: telemetry, then errors, then the deadline, then identity.

They are one gRPC interceptor, so that a call passes through one wrapper, runs in one task and context,
and a stream is closed in the task that opened it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc

from service_kit.identity import PassportVerifier
from service_kit.rpc.health import EXEMPT
from service_kit.rpc.interceptors import deadline, errors, identity, telemetry

__all__ = ["Chassis"]

_Context = grpc.aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in its stubs only
_Answer = Callable[[Any, _Context], Awaitable[Any]]


class Chassis(grpc.aio.ServerInterceptor):
    """Wraps unary and server-streaming handlers; ``public`` are full method names needing no passport."""

    def __init__(self, verifier: PassportVerifier | None, public: frozenset[str] = frozenset()) -> None:
        self._verifier: PassportVerifier | None = verifier
        self._public: frozenset[str] = frozenset("/" + name.removeprefix("/") for name in public)
        self._wrapped: dict[str, tuple[_Handler, _Handler]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["_Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler | None":
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(EXEMPT):
            return handler
        known = self._wrapped.get(method)
        if known is None or known[0] is not handler:
            known = self._wrapped[method] = handler, self._wrap(method, handler)
        return known[1]

    def _wrap(self, method: str, handler: _Handler) -> _Handler:
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
        raise NotImplementedError(f"{method} streams requests, which no service here does")

    def _around(self, method: str, answer: _Answer) -> _Answer:
        async def wrapped(request: Any, context: _Context) -> Any:
            metadata = _texts(context)
            observation = telemetry.server(method, metadata)
            with telemetry.current(observation):
                try:
                    deadline.require_deadline(context)
                    identity.admit(metadata, self._verifier, public=method in self._public)
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
