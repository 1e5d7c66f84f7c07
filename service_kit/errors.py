"""The one error type that crosses services, and the one table that says what each code means.

Three edges read :data:`TABLE`: the RPC server (gRPC status), the RPC client (retryable) and the
gateway's envelope (HTTP status and type). Codes are UHP's (Errors; Memories §12) and, prefixed with
the product's name, our own. Nothing here knows a wire: gRPC statuses are named, not imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["TABLE", "GroveError", "Rule", "internal", "rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What one code means at every edge.

    ``http`` is the status of the envelope, ``type`` its ``error.type``, ``grpc`` the name of the
    ``grpc.StatusCode`` between services, ``retryable`` whether the same request may succeed later.
    """

    http: int
    type: str
    grpc: str
    retryable: bool = False


_REQUEST = "invalid_request_error"
_AUTHENTICATION = "authentication_error"
_PERMISSION = "permission_error"
_RATE = "rate_limit_error"
_HARNESS = "harness_error"
_SERVER = "server_error"

TABLE: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        # UHP, every request
        "unsupported_protocol_version": Rule(400, _REQUEST, "INVALID_ARGUMENT"),
        "invalid_input": Rule(400, _REQUEST, "INVALID_ARGUMENT"),
        "missing_credential": Rule(401, _AUTHENTICATION, "UNAUTHENTICATED"),
        "invalid_credential": Rule(401, _AUTHENTICATION, "UNAUTHENTICATED"),
        "insufficient_scope": Rule(403, _PERMISSION, "PERMISSION_DENIED"),
        "rate_limited": Rule(429, _RATE, "RESOURCE_EXHAUSTED", retryable=True),
        "quota_exhausted": Rule(429, _RATE, "RESOURCE_EXHAUSTED"),
        # UHP, objects
        "harness_not_found": Rule(404, _REQUEST, "NOT_FOUND"),
        "response_not_found": Rule(404, _REQUEST, "NOT_FOUND"),
        "session_not_found": Rule(404, _REQUEST, "NOT_FOUND"),
        "session_expired": Rule(404, _REQUEST, "NOT_FOUND"),
        "file_not_found": Rule(404, _REQUEST, "NOT_FOUND"),
        "harness_mismatch": Rule(409, _REQUEST, "FAILED_PRECONDITION"),
        "session_busy": Rule(409, _REQUEST, "ABORTED", retryable=True),
        "file_too_large": Rule(413, _REQUEST, "OUT_OF_RANGE"),
        "model_unavailable": Rule(422, _REQUEST, "FAILED_PRECONDITION"),
        "unsupported_base": Rule(422, _REQUEST, "FAILED_PRECONDITION"),
        "harness_unavailable": Rule(503, _SERVER, "UNAVAILABLE", retryable=True),
        "preview_unavailable": Rule(501, _SERVER, "UNIMPLEMENTED"),
        "preview_failed": Rule(502, _SERVER, "INTERNAL", retryable=True),
        # UHP, inside a failed response only
        "harness_error": Rule(200, _HARNESS, "UNKNOWN"),
        "provider_error": Rule(200, _HARNESS, "UNKNOWN"),
        "timeout": Rule(200, _HARNESS, "UNKNOWN"),
        # Memories §12
        "memory_not_found": Rule(404, _REQUEST, "NOT_FOUND"),
        "memory_forbidden": Rule(403, _PERMISSION, "PERMISSION_DENIED"),
        "memory_record_not_found": Rule(404, _REQUEST, "NOT_FOUND"),
        "memories_not_attached": Rule(404, _REQUEST, "NOT_FOUND"),
        "memory_invalid": Rule(422, _REQUEST, "INVALID_ARGUMENT"),
        "memory_unsupported": Rule(422, _REQUEST, "FAILED_PRECONDITION"),
        "memory_busy": Rule(409, _REQUEST, "ABORTED", retryable=True),
        "memory_unavailable": Rule(503, _SERVER, "UNAVAILABLE", retryable=True),
        # our own
        "grovekeeper_not_found": Rule(404, _REQUEST, "NOT_FOUND"),
        "grovekeeper_method_not_allowed": Rule(405, _REQUEST, "UNIMPLEMENTED"),
        "grovekeeper_conflict": Rule(409, _REQUEST, "ABORTED"),
        "grovekeeper_idempotency_mismatch": Rule(422, _REQUEST, "FAILED_PRECONDITION"),
        "grovekeeper_range_not_satisfiable": Rule(416, _REQUEST, "OUT_OF_RANGE"),
        "grovekeeper_too_large": Rule(413, _REQUEST, "OUT_OF_RANGE"),
        "grovekeeper_unavailable": Rule(503, _SERVER, "UNAVAILABLE", retryable=True),
        # Whoever has waited for a turn is not to wait again unasked, as the callers of what is unavailable do.
        "grovekeeper_busy": Rule(503, _SERVER, "RESOURCE_EXHAUSTED", retryable=True),
        "grovekeeper_deadline": Rule(504, _SERVER, "DEADLINE_EXCEEDED", retryable=True),
        "server_error": Rule(500, _SERVER, "INTERNAL", retryable=True),
    }
)


def rule(code: str) -> Rule:
    """The rule of ``code``. An unknown code is a programming error: ``LookupError``."""
    try:
        return TABLE[code]
    except KeyError:
        msg = f"no error is called {code!r}"
        raise LookupError(msg) from None


class GroveError(Exception):
    """A refusal or failure with a code of :data:`TABLE`.

    ``message`` is one sentence safe to show a user: no credential, host name, path or stack trace.
    ``param`` names the request field at fault. ``detail`` is small and JSON-able; the edge adds the
    trace id to it.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.rule: Rule = rule(code)
        self.code: str = code
        self.message: str = message
        self.param: str | None = param
        self.detail: Mapping[str, object] | None = detail

    def __repr__(self) -> str:
        return f"GroveError({self.code!r}, {self.message!r}, param={self.param!r})"

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.rule.retryable


def internal() -> GroveError:
    """What is answered for a failure nobody foresaw: nothing of it leaves the process."""
    return GroveError("server_error", "The server failed to answer this request.")
