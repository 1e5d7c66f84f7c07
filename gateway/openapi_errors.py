"""Which errors an operation can answer, and how the OpenAPI document says so."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from service_kit.errors import rule

__all__ = ["codes_of", "error_responses"]

Json: TypeAlias = dict[str, Any]

_EVERYWHERE: Final = (
    "unsupported_protocol_version",
    "grovekeeper_too_large",
    "server_error",
    "grovekeeper_unavailable",
)
_WITH_CREDENTIAL: Final = (
    "missing_credential",
    "invalid_credential",
    "rate_limited",
    "grovekeeper_deadline",
)
_BY_NAME: Final[Mapping[str, tuple[str, ...]]] = {
    "memory_id": ("memory_not_found", "memory_forbidden"),
    "record_id": ("memory_record_not_found",),
    "harness_id": ("harness_not_found",),
    "response_id": ("response_not_found",),
    "session_id": ("session_not_found",),
    "file_id": ("file_not_found",),
    "name": ("invalid_input",),
    "principal": ("invalid_input",),
}
"""By what the path names; whatever it names, an address with a slash too many leads nowhere."""
_BY_AREA: Final[Mapping[str, tuple[str, ...]]] = {
    "memories": ("invalid_input", "memory_unavailable"),
    "files": ("invalid_input",),
    "harnesses": ("harness_unavailable",),
    "models": ("harness_unavailable",),
    "responses": ("harness_unavailable",),
    "sessions": ("harness_unavailable",),
    "traces": ("harness_unavailable",),
    "shared": ("rate_limited",),
    "grovekeeper": ("insufficient_scope",),
}
_BY_HEADER: Final[Mapping[str, tuple[str, ...]]] = {
    "Idempotency-Key": ("invalid_input", "grovekeeper_idempotency_mismatch"),
    "If-Match": ("invalid_input", "grovekeeper_conflict"),
    "Last-Event-ID": ("invalid_input",),
    "Range": ("grovekeeper_range_not_satisfiable",),
    "If-Range": (),
    "If-None-Match": (),
}
_NAMED: Final = re.compile(r"{(\w+)}")
_TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"


def codes_of(path: str, operation: Json, said: Iterable[str]) -> set[str]:
    """The codes of an operation: what it says itself (codes, and headers it heeds) and what follows from that."""
    codes = {*_EVERYWHERE, *_BY_AREA.get(path.split("/")[2], ())}
    for one in said:
        codes |= {*_BY_HEADER.get(one, (one,))}
    if operation.get("security") != []:
        codes |= {*_WITH_CREDENTIAL}
    names = _NAMED.findall(path)
    for name in names:
        codes |= {*_BY_NAME.get(name, ()), "grovekeeper_not_found"}
    if "requestBody" in operation:
        codes.add("invalid_input")
        if path.startswith("/v1/memories"):
            codes |= {"memory_invalid", "memory_unsupported"}
    if any(one["in"] == "query" for one in operation.get("parameters", ())):
        codes.add("invalid_input")
    return codes


def error_responses(codes: Iterable[str]) -> dict[str, tuple[str, Json]]:
    """By status the name of a response component and the component."""
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(rule(code).http, []).append(code)
    return {str(status): (".".join(ones), _component(ones)) for status, ones in sorted(by_status.items())}


def _component(codes: list[str]) -> Json:
    code = {"properties": {"code": {"enum": codes}}}
    schema: Json = {"allOf": [{"$ref": "#/components/schemas/Envelope"}, {"properties": {"error": code}}]}
    shown = {
        "type": rule(codes[0]).type,
        "code": codes[0],
        "message": "One sentence that says what is wrong.",
        "param": None,
        "detail": {"trace_id": _TRACE},
    }
    headers: Json = {"UHP-Version": {"schema": {"type": "string"}}}
    if "rate_limited" in codes:
        headers["Retry-After"] = {"description": "Seconds.", "schema": {"type": "string"}}
    return {
        "description": f"{', '.join(codes)}.",
        "headers": headers,
        "content": {"application/json": {"schema": schema, "example": {"error": shown}}},
    }
