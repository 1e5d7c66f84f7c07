"""The UHP error envelope: every answer of the gateway that is not 2xx has this one shape.

Status and type come from the one table in :mod:`service_kit.errors`. ``detail`` always carries
``trace_id``, by which the whole request can be found in the traces and logs of every service. A
``retry_after`` in it, in seconds, is the header of that name too.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gateway.schemas.discovery import Envelope, Fault
from service_kit import telemetry
from service_kit.errors import GroveError, internal

__all__ = ["JSON", "from_http", "invalid", "response", "status_of"]

JSON: Final = "application/json; charset=utf-8"

_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    # RFC 9110 §11.6.1 wants the scheme named.
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    # What is left of a body that is too large is not waited for.
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: {"Connection": "close"},
}


def status_of(error: GroveError) -> int:
    """The HTTP status. A code that belongs inside a failed response only is our failure out here."""
    return error.rule.http if error.rule.http >= HTTPStatus.BAD_REQUEST else HTTPStatus.INTERNAL_SERVER_ERROR


def response(error: GroveError, headers: Mapping[str, str] | None = None) -> Response:
    """The answer for a refusal or a failure."""
    status, detail = status_of(error), error.detail or {}
    fault = Fault(
        type=error.rule.type,
        code=error.code,
        message=error.message,
        param=error.param,
        detail={**detail, "trace_id": telemetry.trace_id()},
    )
    said = {"Retry-After": str(detail["retry_after"])} if "retry_after" in detail else {}
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and "bytes" in detail:
        said["Content-Range"] = f"bytes */{detail['bytes']}"  # RFC 9110 §15.5.17
    return Response(
        msgspec.json.encode(Envelope(error=fault), enc_hook=str),
        status,
        {**_HEADERS.get(status, {}), **said, **(headers or {})},
        media_type=JSON,
    )


def invalid(message: str, param: str | None = None) -> GroveError:
    """A request that cannot be understood."""
    return GroveError("invalid_input", message, param=param)


def from_http(error: HTTPException) -> GroveError:
    """What the framework refuses by itself, in our words."""
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return GroveError("grovekeeper_not_found", "There is nothing at this address.")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return GroveError("grovekeeper_method_not_allowed", "This address does not take that method.")
        case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return invalid("The request cannot be understood.")
        case _:
            return internal()
