"""Cursors: the sort keys of the last row seen, opaque to the caller, checked when they come back."""

import base64
import binascii
import json
from typing import Final, cast

from service_kit.errors import GroveError

__all__ = ["MAX_CURSOR", "clamp_limit", "decode_cursor", "encode_cursor"]

MAX_CURSOR: Final = 2048
"""Longest cursor that is read, in characters."""

_BIGINT: Final = 2**63


def encode_cursor(*keys: str | int) -> str:
    """The cursor of the row whose sort keys are ``keys``."""
    text = json.dumps(keys, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, n: int) -> tuple[str | int, ...]:
    """The ``n`` sort keys in ``cursor``; ``invalid_input`` (param ``cursor``) when it is not one of ours."""
    keys = _parse(cursor)
    if keys is None or len(keys) != n or not all(_is_key(key) for key in keys):
        raise GroveError("invalid_input", "The cursor is not one this server gave out.", param="cursor")
    return tuple(cast(list[str | int], keys))


def _parse(cursor: str) -> list[object] | None:
    if not cursor or len(cursor) > MAX_CURSOR:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        value = cast(object, json.loads(raw.decode()))
    except (binascii.Error, ValueError, RecursionError):
        return None
    return cast(list[object], value) if isinstance(value, list) else None


def _is_key(key: object) -> bool:
    """Only what Postgres can compare: no NUL, no lone surrogate, no integer wider than a bigint."""
    if isinstance(key, str):
        return "\x00" not in key and not any("\ud800" <= character <= "\udfff" for character in key)
    return isinstance(key, int) and not isinstance(key, bool) and -_BIGINT <= key < _BIGINT


def clamp_limit(limit: int | None, default: int = 50, maximum: int = 200) -> int:
    """A page size: absent or 0 is ``default``, above ``maximum`` is ``maximum``, negative is refused."""
    if limit is None or limit == 0:
        return default
    if limit < 0:
        raise GroveError("invalid_input", "The limit must be a positive number.", param="limit")
    return min(limit, maximum)
