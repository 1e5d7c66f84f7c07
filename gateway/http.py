"""Reading requests and writing answers: bytes to schemas and back, with msgspec on both sides."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import JSON, invalid
from gateway.explain import explained
from gateway.revisions import Revision
from gateway.schemas.base import Answer, Ask, Text

__all__ = [
    "SLASH",
    "Idempotency",
    "answer",
    "body",
    "decode",
    "expected_version",
    "idempotency",
    "object_body",
    "optional_body",
    "query",
    "raw_answer",
    "renewal",
    "revision_of",
    "segment",
]

_Ask = TypeVar("_Ask", bound=Ask)

SLASH: Final = "\x1f"
"""Stands in a path for a slash that is part of a name; the edge puts it there, and no other control character."""

MAX_DEPTH: Final = 100
"""Deepest nesting of a request body, free-form JSON included: every part of the server can read it."""

_OPENING: Final = (b"[", b"{")
_NESTING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{\]}]', re.DOTALL)
_KEY: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
_ETAG: Final = re.compile(r'"([1-9][0-9]{0,9})"|([1-9][0-9]{0,9})')
_NUL: Final = "\x00"
_LISTS: Final = (list[str], list[Text])
_INSTANTS: Final = ("as_of", "since", "until")
_ENCODER: Final = msgspec.json.Encoder()


class _Anything(Ask, frozen=True):
    """An object with whatever fields."""


class Idempotency(msgspec.Struct, frozen=True):
    """Makes a write safe to repeat: the caller's key and the hash of its request; no key, no promise."""

    key: str = ""
    request_sha256: bytes = b""


def answer(body: Answer, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_ENCODER.encode(body), status, headers, media_type=JSON)


def raw_answer(body: bytes) -> Response:
    """A JSON answer that was composed elsewhere."""
    return Response(body, media_type=JSON)


async def body(request: Request, kind: type[_Ask]) -> tuple[_Ask, bytes]:
    """The request's body, and its bytes as they came."""
    raw = await request.body()
    if not raw.strip():
        raise invalid("This request needs a JSON body.")
    return decode(raw, kind), raw


async def optional_body(request: Request, kind: type[_Ask]) -> tuple[_Ask | None, bytes]:
    """The same for a request that may come without one."""
    raw = await request.body()
    return (decode(raw, kind) if raw.strip() else None), raw


async def object_body(request: Request) -> bytes:
    """A body that is one free-form JSON object, byte for byte; none is an empty one."""
    raw = await request.body()
    if raw.strip():
        decode(raw, _Anything)
    return raw.strip()


def decode(raw: bytes, kind: type[_Ask], within: str = "") -> _Ask:
    """``raw`` as ``kind``. Raises ``invalid_input`` naming the field at fault; ``within`` is the one that all of it
    is the value of, where that is not the body.
    """
    what = within or "The body"
    if not raw.isascii():
        _require_utf8(raw)
    if max(map(raw.count, _OPENING)) > MAX_DEPTH // 2 and _depth(raw) > MAX_DEPTH:
        raise invalid(f"{what} is nested more than {MAX_DEPTH} levels deep.", within or None)
    try:
        value = msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise explained(error, kind, within) from None
    except msgspec.DecodeError as error:
        raise invalid(f"{what} is not valid JSON: {_reason(error)}.", within or None) from None
    except RecursionError:
        raise invalid(f"{what} is nested too deeply.", within or None) from None
    if rb"\u0000" in raw:
        _refuse_nul(value, within)
    return value


def _require_utf8(raw: bytes) -> None:
    # msgspec does not look inside values that stay raw.
    try:
        raw.decode()
    except UnicodeDecodeError:
        raise invalid("The body is not valid UTF-8.") from None


def _reason(error: msgspec.DecodeError) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early or has half a surrogate pair" if "truncated" in text else text


def _depth(raw: bytes) -> int:
    deepest = depth = 0
    for found in _NESTING.finditer(raw):
        token = found[0]
        if token in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif not token.startswith(b'"'):
            depth -= 1
    return deepest


def _refuse_nul(value: object, within: str) -> None:
    """No text we read may hold NUL (Postgres keeps none); free-form JSON stays raw and may."""
    for param, text in _texts(value, within):
        if _NUL in text:
            raise invalid(f"{param} cannot contain the NUL character.", param)


def _texts(value: object, param: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield param, value
    elif isinstance(value, list):
        for index, one in enumerate(cast("list[object]", value)):
            yield from _texts(one, f"{param}.{index}")
    elif isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            inner = cast("object", getattr(value, field.name))
            yield from _texts(inner, f"{param}.{field.encode_name}".lstrip("."))


def query(request: Request, kind: type[_Ask]) -> _Ask:
    """The request's query. An empty value counts as absent; a list may be repeated and, where it is of words
    and not of names, split by commas.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    for name, value in request.query_params.multi_items():
        if _NUL in value:
            raise invalid(f"{name[:64]} cannot contain the NUL character.".replace(_NUL, ""), name[:64])
        if fields.get(name) in _LISTS:
            several = cast("list[str]", values.setdefault(name, []))
            several.extend(one for one in (value.split(",") if fields[name] == list[str] else [value]) if one)
        elif value:
            # A plus sign that was not escaped arrives as a space, which no offset has.
            values[name] = value.replace(" ", "+") if name in _INSTANTS else value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise explained(error, kind) from None


def segment(text: str) -> str:
    """A name that was a segment of the path, as it was before it was encoded: it may hold slashes."""
    return text.replace(SLASH, "/")


def idempotency(request: Request, raw: bytes) -> Idempotency:
    """The ``Idempotency-Key`` of a write with the hash of method, path and body."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return Idempotency()
    if _KEY.fullmatch(key) is None:
        raise invalid("An Idempotency-Key has 1 to 255 printable ASCII characters.", "Idempotency-Key")
    head = f"{request.method} {request.url.path}\n".encode()
    return Idempotency(key, hashlib.sha256(head + raw).digest())


def expected_version(request: Request, stated: int | None) -> int:
    """The version a change expects, from ``If-Match`` or the request; 0 when it expects none."""
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return stated or 0
    found = _ETAG.fullmatch(header.strip())
    matched = 0 if found is None else int(found[1] or found[2])
    if not 0 < matched < 2**31:
        raise invalid('If-Match names one version, as in "3".', "If-Match")
    if stated is not None and stated != matched:
        raise invalid("If-Match and expected_version name different versions.", "expected_version")
    return matched


def renewal(request: Request) -> Callable[[], Awaitable[None]]:
    """What exchanges the request's credential again, for a request that may outlive its passport."""
    return cast("Callable[[], Awaitable[None]]", request.state.renew)


def revision_of(request: Request) -> Revision:
    """The revision of the Memories chapter this request is answered in; the edge chose it."""
    return cast("Revision", request.state.revision)
