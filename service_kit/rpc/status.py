"""How an error crosses: gRPC status by the table, and the whole of it in trailing metadata."""

import json
import logging
from collections.abc import Mapping
from typing import Final, cast

import grpc
from google.protobuf.message import DecodeError

from protos.common.v1 import common_pb2
from service_kit.errors import TABLE, GroveError, internal

__all__ = ["ERROR_KEY", "PASSPORT_KEY", "from_error", "status_of", "to_bytes", "unimplemented"]

ERROR_KEY: Final = "grove-error-bin"
PASSPORT_KEY: Final = "grove-passport"

_MAX_DETAIL: Final = 4096
_MAX_MESSAGE: Final = 1024
_log: Final = logging.getLogger(__name__)


def status_of(error: GroveError) -> grpc.StatusCode:
    """The gRPC status of an error's code."""
    return grpc.StatusCode[error.rule.grpc]


def unimplemented() -> GroveError:
    """A method that a peer, which may be anybody's, does not carry out."""
    return GroveError("grovekeeper_method_not_allowed", "This part of the server does not do that.")


def to_bytes(error: GroveError) -> bytes:
    """The error as it travels in ``grove-error-bin``; metadata is small, so a large detail stays behind."""
    detail = b"" if error.detail is None else json.dumps(error.detail, default=str).encode()
    if len(detail) > _MAX_DETAIL:
        _log.warning("the detail of %s is too large to send", error.code)
        detail = b""
    return common_pb2.Error(
        code=error.code, message=error.message[:_MAX_MESSAGE], param=error.param or "", detail_json=detail
    ).SerializeToString()


def from_error(failure: grpc.aio.AioRpcError) -> GroveError:
    """The error a call ended with; nothing of the transport's own words is kept."""
    for key, value in failure.trailing_metadata():
        if key == ERROR_KEY and isinstance(value, bytes):
            return _parse(value)
    match failure.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return GroveError("grovekeeper_deadline", "The server took too long to answer.")
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED | grpc.StatusCode.ABORTED:
            return GroveError("grovekeeper_unavailable", "A part of the server cannot be reached; try again.")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in (failure.details() or ""):
            return GroveError("grovekeeper_too_large", "The request or its answer is too large.")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return GroveError("grovekeeper_unavailable", "The server is too busy; try again.")
        case grpc.StatusCode.UNIMPLEMENTED:
            return unimplemented()
        case code:
            _log.error("a call failed with %s and no error of ours: %s", code.name, failure.details())
            return internal()


def _parse(value: bytes) -> GroveError:
    try:
        sent = common_pb2.Error.FromString(value)
        detail = cast("object", json.loads(sent.detail_json)) if sent.detail_json else None
    except (DecodeError, ValueError):
        _log.exception("a peer sent an error that cannot be read")
        return internal()
    if sent.code not in TABLE:
        # A peer of a newer release may know codes we do not.
        _log.error("a peer sent the unknown error %r", sent.code)
        return internal()
    return GroveError(
        sent.code,
        sent.message,
        param=sent.param or None,
        detail=cast("Mapping[str, object]", detail) if isinstance(detail, dict) else None,
    )
