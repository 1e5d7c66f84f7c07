"""Fields of a record's attributes, by dotted paths: read, set and removed, and every other byte left as it is.

Numbers keep their digits (``1.10``, integers of any size), objects the order of their keys. A path is
``attributes.a.b``: names of objects, without lists.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from service_kit.errors import GroveError

__all__ = ["Definition", "changed", "definition", "path_of", "projection"]

MAX_PATH: Final = 16
"""Names of one path."""
MAX_SET: Final = 100
"""Attributes one operation sets."""

_ROOT: Final = "attributes."
_objects: Final = msgspec.json.Decoder(dict[str, Raw])
_encoder: Final = msgspec.json.Encoder()


class _Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a value comes from: exactly one of these."""

    const: Raw | UnsetType = UNSET
    input: str | UnsetType = UNSET
    now: bool | UnsetType = UNSET
    remove: bool | UnsetType = UNSET


class _Written(Struct, frozen=True, forbid_unknown_fields=True):
    set: dict[str, _Source]


class Definition:
    """What an operation sets; see :func:`definition`."""

    def __init__(self, sources: Mapping[tuple[str, ...], _Source]) -> None:
        self._sources = sources

    def apply(self, attributes: bytes, given: bytes, now: datetime) -> bytes:
        """The attributes after the operation. An input that was not given leaves its attribute as it is."""
        for path, source in self._sources.items():
            if source.remove:
                attributes = changed(attributes, path, None)
            elif source.now:
                moment = now.astimezone(UTC).isoformat().replace("+00:00", "Z")
                attributes = changed(attributes, path, _encoder.encode(moment))
            elif not isinstance(source.const, UnsetType):
                attributes = changed(attributes, path, bytes(source.const))
            else:
                value = _at(given, cast("str", source.input).split("."))
                attributes = attributes if value is None else changed(attributes, path, value)
        return attributes


def definition(written: bytes, param: str) -> Definition:
    """What an operation does, as it is registered (UTF-8 JSON): ``{"set": {"attributes.status": {"const": "done"}}}``.

    Each attribute gets ``{"const": any JSON}``, ``{"input": "a.b"}`` (a field of the operation's input),
    ``{"now": true}`` (the instant, RFC 3339 in UTC) or ``{"remove": true}``. ``memory_invalid`` for anything else.
    """
    try:
        stated = msgspec.json.decode(written, type=_Written).set
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(f"{param} is no definition of an operation: {str(error)[:300]}.", param) from None
    if not 1 <= len(stated) <= MAX_SET:
        raise _invalid(f"{param}.set names 1 to {MAX_SET} attributes.", f"{param}.set")
    sources = {path_of(path, f"{param}.set"): source for path, source in stated.items()}
    for path, source in stated.items():
        if not _says_one_thing(source):
            raise _invalid(
                f"{path} is set from one of const, input, now (true) and remove (true).",
                f"{param}.set.{path}",
            )
    return Definition(sources)


def _says_one_thing(source: _Source) -> bool:
    values = (source.const, source.input, source.now, source.remove)
    said = [one for one in values if not isinstance(one, UnsetType)]
    return len(said) == 1 and said[0] is not False and said[0] != ""


def path_of(written: str, param: str) -> tuple[str, ...]:
    """The names of ``attributes.a.b``. ``memory_invalid`` for what is no such path."""
    names = tuple(written.removeprefix(_ROOT).split("."))
    if not written.startswith(_ROOT) or not all(names) or len(names) > MAX_PATH:
        raise _invalid(f"{written[:100]!r} is no path like attributes.status.", param)
    return names


def changed(
    attributes: bytes, path: Sequence[str], value: bytes | None, *, within: str = "attributes"
) -> bytes:
    """The attributes with ``value`` (JSON) at ``path``, or without it (None). ``memory_invalid`` where something
    that is no object is on the way; ``within`` is what it is called there.
    """
    try:
        fields = _objects.decode(attributes or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _invalid(f"{within} is no object.", within) from None
    head, *rest = path
    if rest:
        inner = fields.get(head)
        if inner is None and value is None:
            return attributes
        below = changed(b"{}" if inner is None else bytes(inner), rest, value, within=f"{within}.{head}")
        fields[head] = Raw(below)
    elif value is None:
        fields.pop(head, None)
    else:
        fields[head] = Raw(value)
    return _encoder.encode(fields)


def projection(attributes: bytes, paths: Iterable[str]) -> str:
    """What lies at the paths, as one line: the words a record is found by. Lists are joined by commas; what is
    absent, null or an object says nothing.
    """
    try:
        # Numbers as they are written: what is looked for is their digits.
        value = cast("object", json.loads(attributes or b"{}", parse_int=str, parse_float=str))
    except (ValueError, RecursionError):
        return ""
    said = (_said(_within(value, path.removeprefix(_ROOT).split("."))) for path in paths)
    return ", ".join(one for one in said if one)


def _within(value: object, names: Iterable[str]) -> object:
    for name in names:
        value = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    return value


def _said(value: object) -> str:
    if isinstance(value, str):
        return " ".join(value.replace("\0", "").split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(one for one in map(_said, cast("list[object]", value)) if one)
    return ""


def _at(raw: bytes, names: Sequence[str]) -> bytes | None:
    for name in names:
        try:
            found = _objects.decode(raw or b"{}").get(name)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if found is None:
            return None
        raw = bytes(found)
    return raw


def _invalid(message: str, param: str) -> GroveError:
    return GroveError("memory_invalid", message, param=param)
