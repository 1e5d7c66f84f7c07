"""The headers of the wire as the OpenAPI document describes them."""

from typing import Any, Final, TypeAlias

from gateway.revisions import REVISIONS
from gateway.schemas.discovery import VERSIONS

__all__ = [
    "IF_MATCH",
    "IF_NONE_MATCH",
    "IF_RANGE",
    "KEY",
    "LAST_EVENT_ID",
    "RANGE",
    "answered_headers",
    "asked_headers",
]

Json: TypeAlias = dict[str, Any]

KEY: Final = "Idempotency-Key"
"""For writes that are safe to repeat under one key."""
IF_MATCH: Final = "If-Match"
"""For changes that may expect a version, and answer the new one as ``ETag``."""
LAST_EVENT_ID: Final = "Last-Event-ID"
"""For streams that can be taken up again."""
RANGE: Final = "Range"
"""For bytes that can be read in part."""
IF_RANGE: Final = "If-Range"
IF_NONE_MATCH: Final = "If-None-Match"

_VERSION: Final = "UHP-Version"
_REVISION: Final = "UHP-Memories-Revision"
_TEXT: Final[Json] = {"type": "string"}
_ASKED: Final[dict[str, Json]] = {
    KEY: {
        "description": "Makes the write safe to repeat: 1 to 255 printable ASCII characters.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": "7f3c",
    },
    IF_MATCH: {
        "description": "Makes the change conditional on the record's latest version.",
        "schema": _TEXT,
        "example": '"3"',
    },
    LAST_EVENT_ID: {
        "description": "Takes a stream up again after this event.",
        "schema": _TEXT,
        "example": "7",
    },
    RANGE: {"description": "One range of bytes.", "schema": _TEXT, "example": "bytes=0-1023"},
    IF_RANGE: {
        "description": "The ETag of what is there already; of anything else everything is answered.",
        "schema": _TEXT,
        "example": '"7f3c"',
    },
    IF_NONE_MATCH: {
        "description": "The ETag of what is there already.",
        "schema": _TEXT,
        "example": '"7f3c"',
    },
    _VERSION: {"description": "A version of the protocol.", "schema": {"enum": list(VERSIONS)}},
    _REVISION: {
        "description": "A revision of the Memories chapter on the wire.",
        "schema": {"enum": [*REVISIONS]},
    },
}


def asked_headers(path: str, heeded: list[str]) -> list[Json]:
    """The header parameters of an operation."""
    names = [*heeded, _VERSION, *([_REVISION] if path.startswith("/v1/memories") else [])]
    return [{"name": name, "in": "header", "required": False, **_ASKED[name]} for name in names]


def answered_headers(path: str, *, tagged: bool) -> Json:
    """The headers of an operation's answer."""
    found: Json = {
        _VERSION: {"description": "The version used.", "schema": _TEXT},
        "traceparent": {"description": "The trace of this request (W3C).", "schema": _TEXT},
    }
    if path.startswith("/v1/memories"):
        found[_REVISION] = {"description": "The revision used.", "schema": _TEXT}
    if tagged:
        found["ETag"] = {
            "description": "The version of what is answered, as the conditional headers take it.",
            "schema": _TEXT,
        }
    return found
