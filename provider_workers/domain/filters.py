r"""The filter language of recall and list (Memories, section 6.2): parsed, typed and bounded.

``{field, op, value}`` or a tree of ``and`` / ``or`` / ``not``. Fields are ``type``,
``attributes.<path>`` (dots go into objects, a number into an array; ``\.`` is a dot of a name and ``\\`` a
backslash) and ``time.valid_from``,
``time.valid_to``, ``time.written_at``, ``time.invalidated_at``.

Every condition is true or false, never unknown: a field that is absent is not equal to anything, so
``ne`` and ``nin`` hold for it, and no comparison does. ``eq null`` means absent or null; ``exists``
means present, be it as null. Comparisons look at one JSON type: numbers by value, strings by code
point; a value of another type does not match.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Final

import msgspec

from provider_workers.domain import errors, limits

__all__ = ["All", "Any", "Condition", "Filter", "Json", "Not", "Op", "Value", "check", "condition"]

PARAM: Final = "filters"
TIMES: Final = frozenset({"valid_from", "valid_to", "written_at", "invalidated_at"})

_SEGMENT: Final = re.compile(r"(?:^|(?<=\.))(?:\\[.\\]|[^.])*(?=\.|$)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([.\\])")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_EXPONENT: Final = 1_000
_MAX_DIGITS: Final = 1_000


class Op(StrEnum):
    """What a condition asks of a field."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NIN = "nin"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    EXISTS = "exists"


_ORDERED: Final = frozenset({Op.GT, Op.GTE, Op.LT, Op.LTE})
_LISTED: Final = frozenset({Op.IN, Op.NIN})


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value as it was written; ``kind`` is ``null bool number string array object``."""

    kind: str
    text: str


Value = Json | str | datetime | bool | None
"""For an attribute a :class:`Json`, for ``type`` a string, for a time an instant, for ``exists`` a bool."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. ``root`` is ``type``, ``attributes`` or a name of :data:`TIMES`; ``path`` only for
    attributes. ``values`` has one value, or those of ``in`` and ``nin``.
    """

    root: str
    path: tuple[str, ...]
    op: Op
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class All:
    """Every one holds; true when there is none."""

    filters: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one holds; false when there is none."""

    filters: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """It does not hold."""

    filter: "Filter"


Filter = Condition | All | Any | Not


def condition(field: str, op: str, value: bytes) -> Condition:
    """The condition a caller wrote; ``value`` is UTF-8 JSON. ``invalid_input`` says what is wrong with it."""
    root, path = _field(field)
    if op not in set(Op):
        raise errors.invalid(f"The filter on {field[:100]} takes one of {', '.join(Op)} as op.", PARAM)
    known = Op(op)
    if known is Op.EXISTS:
        return Condition(root, path, known, (_flag(value, field),))
    if known in _LISTED:
        items = _items(value, field, op)
        return Condition(root, path, known, tuple(_value(root, item, field, known) for item in items))
    return Condition(root, path, known, (_value(root, value, field, known),))


def check(tree: Filter) -> Filter:
    """The tree itself, if it is within bounds; ``invalid_input`` otherwise."""
    nodes, deepest = _measure(tree, 1)
    if nodes > limits.MAX_FILTER_NODES:
        raise errors.invalid(f"A filter has at most {limits.MAX_FILTER_NODES} nodes.", PARAM)
    if deepest > limits.MAX_FILTER_DEPTH:
        raise errors.invalid(f"A filter is at most {limits.MAX_FILTER_DEPTH} levels deep.", PARAM)
    return tree


def _measure(tree: Filter, depth: int) -> tuple[int, int]:
    match tree:
        case Condition():
            return 1, depth
        case Not(inner):
            nodes, deepest = _measure(inner, depth + 1)
            return nodes + 1, deepest
        case All(filters) | Any(filters):
            measured = [_measure(one, depth + 1) for one in filters]
            return 1 + sum(nodes for nodes, _ in measured), max([depth, *(deep for _, deep in measured)])


def _field(field: str) -> tuple[str, tuple[str, ...]]:
    root, _, rest = field.partition(".")
    if root == "type" and not rest:
        return "type", ()
    if root == "time" and rest in TIMES:
        return rest, ()
    if root == "attributes":
        path = _path(rest)
        if all(path) and len(path) <= limits.MAX_FILTER_PATH and len(rest) <= 1_000 and "\0" not in rest:
            return root, path
    raise errors.invalid(
        f"A filter cannot look at the field {field[:100]!r}: it is type, attributes.<name> or one of"
        f" {', '.join(f'time.{one}' for one in sorted(TIMES))}.",
        PARAM,
    )


def _path(rest: str) -> tuple[str, ...]:
    return tuple(_ESCAPED.sub(r"\1", one) for one in _SEGMENT.findall(rest))


def _flag(value: bytes, field: str) -> bool:
    if not value:
        return True
    flag = _json(value, field)
    if flag.kind != "bool":
        raise errors.invalid(f"The filter exists on {field} takes true or false.", PARAM)
    return flag.text == "true"


def _items(value: bytes, field: str, op: str) -> Sequence[bytes]:
    if _json(value, field).kind != "array":
        raise errors.invalid(f"The filter {op} on {field} takes a list.", PARAM)
    items = msgspec.json.decode(value, type=list[msgspec.Raw])
    if len(items) > limits.MAX_FILTER_VALUES:
        raise errors.invalid(f"A filter lists at most {limits.MAX_FILTER_VALUES} values.", PARAM)
    return [bytes(item) for item in items]


def _value(root: str, value: bytes, field: str, op: Op) -> Value:
    given = _json(value, field)
    if root == "attributes":
        if op in _ORDERED and given.kind not in {"number", "string"}:
            raise errors.invalid(
                f"The filter {op} on {field} takes a number or a string, not {_named(given)}.", PARAM
            )
        return given
    if given.kind == "null" and op not in _ORDERED:
        return None
    if given.kind != "string":
        raise errors.invalid(f"The filter {op} on {field} takes a string, not {_named(given)}.", PARAM)
    text = msgspec.json.decode(given.text, type=str)
    return text if root == "type" else _instant(text, field, op)


def _named(given: Json) -> str:
    return {"null": "null", "bool": "a boolean", "array": "a list", "object": "an object"}.get(
        given.kind, f"a {given.kind}"
    )


def _instant(text: str, field: str, op: Op) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if _DATE.fullmatch(text):
            return moment.replace(tzinfo=UTC)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise errors.invalid(
        f"The filter {op} on {field} takes a time such as 2026-10-01T17:00:00Z or a date such as 2026-10-01.",
        PARAM,
    )


def _json(value: bytes, field: str) -> Json:
    """A JSON value, checked; a number must be one that can be compared."""
    try:
        text = value.decode().strip()
        msgspec.json.decode(value, type=msgspec.Raw)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        raise errors.invalid(f"The value of the filter on {field} is not JSON.", PARAM) from None
    kind = _KINDS.get(text[:1], "number")
    if kind == "number":
        _comparable(text, field)
    return Json(kind, text)


_KINDS: Final = {"n": "null", "t": "bool", "f": "bool", '"': "string", "[": "array", "{": "object"}


def _comparable(text: str, field: str) -> None:
    try:
        exponent = Decimal(text).adjusted()
    except InvalidOperation:
        exponent = _MAX_EXPONENT + 1
    if len(text) > _MAX_DIGITS or abs(exponent) > _MAX_EXPONENT:
        raise errors.invalid(f"The number in the filter on {field} is too large to compare.", PARAM)
