"""JSON Schemas that callers write: compiled within bounds, and instances checked against them.

A schema comes from outside and is run on an event loop, so what would make it reach out or run long is refused:
references leave the document nowhere and never in a circle, patterns take linear time, and all references
spelled out come to a bounded size, as does that size times what is checked. A reference is written in one way only,
so that what is measured here is what the library follows. Numbers of any size are compared exactly.
"""

import json
from decimal import Decimal
from functools import lru_cache
from typing import Final, NoReturn, cast

import jsonschema_rs

from service_kit.errors import GroveError

__all__ = ["MAX_BYTES", "JsonSchema", "json_schema"]

MAX_BYTES: Final = 64 * 1024
"""Longest schema, UTF-8."""
_MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 64
_MAX_WORK: Final = 10_000_000
"""Most that a schema's size times an instance's may come to: a few tenths of a second."""
_LETTERS: Final = 16
"""So many letters of a text are as much work as a value."""
_MAX_REASON: Final = 300
_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=1_000_000, dfa_size_limit=1_000_000)
_REFUSED: Final = frozenset({"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"})


class JsonSchema:
    """A schema that was compiled; see :func:`json_schema`."""

    def __init__(self, compiled: jsonschema_rs.Validator, size: int) -> None:
        self._compiled = compiled
        self._size = size

    def check(self, instance: bytes, param: str) -> None:
        """``memory_invalid`` naming what does not fit, unless ``instance`` (UTF-8 JSON) is valid by the schema."""
        try:
            # What no float can hold would be compared as null.
            value = cast("object", json.loads(instance, parse_float=Decimal))
            if self._size * _values(value) > _MAX_WORK:
                raise GroveError("memory_invalid", f"{param} holds too much for its schema.", param=param)
            error = next(iter(self._compiled.iter_errors(value)), None)
        except json.JSONDecodeError:
            raise GroveError("memory_invalid", f"{param} is not valid JSON.", param=param) from None
        except (ValueError, ArithmeticError, RecursionError):
            reason = f"{param} has a number too long, or is nested too deep, to be held against a schema."
            raise GroveError("memory_invalid", reason, param=param) from None
        if error is not None:
            where = ".".join([param, *(str(one) for one in error.instance_path)])
            reason = f"The schema does not allow {where}: {_short(error.message)}."
            raise GroveError("memory_invalid", reason, param=where)


@lru_cache(maxsize=256)
def json_schema(written: bytes, param: str) -> JsonSchema:
    """A schema (UTF-8 JSON, draft 2020-12 unless it names another). ``memory_invalid`` for one that is not taken."""
    if len(written) > MAX_BYTES:
        raise _refused(f"is longer than {MAX_BYTES} bytes", param)
    try:
        root = cast("object", json.loads(written))
        if not isinstance(root, dict):
            raise _refused("is not a JSON object", param)
        size = _Bounds(cast("dict[str, object]", root), param).check()
        compiled = jsonschema_rs.validator_for(
            written.decode(), retriever=_nowhere, pattern_options=_PATTERNS
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise _refused(f"is not a JSON Schema: {_short(_first_line(error))}", param) from None
    except (ValueError, RecursionError):
        raise _refused("is not valid JSON", param) from None
    return JsonSchema(compiled, size)


def _values(value: object) -> int:
    """How many values a value holds, itself included; names count as texts do."""
    total, left = 0, [value]
    while left:
        one = left.pop()
        total += 1
        if isinstance(one, str):
            total += len(one) // _LETTERS
        elif isinstance(one, list):
            left += cast("list[object]", one)
        elif isinstance(one, dict):
            fields = cast("dict[str, object]", one)
            left += fields.keys()
            left += fields.values()
    return total


class _Bounds:
    """How large a schema is with every reference spelled out."""

    def __init__(self, root: dict[str, object], param: str) -> None:
        self._root = root
        self._param = param
        self._ids = {"$id", "id"} if "draft-04" in str(root.get("$schema")) else {"$id"}
        self._sizes: dict[str, int] = {}
        self._open: set[str] = set()

    def check(self) -> int:
        size = self._size(self._root, 0)
        if size > _MAX_NODES:
            raise _refused("is too large with its references spelled out", self._param)
        return size

    def _size(self, node: object, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise _refused(f"is nested more than {_MAX_DEPTH} levels deep", self._param)
        if isinstance(node, list):
            return 1 + sum(self._size(one, depth + 1) for one in cast("list[object]", node))
        if not isinstance(node, dict):
            return 1
        fields = cast("dict[str, object]", node)
        total = 1
        for name, value in fields.items():
            # Draft 4 wrote "id": below it "#/…" is another place than the one that is measured.
            if isinstance(value, str) and (name in _REFUSED or (name in self._ids and depth)):
                raise _refused(f"uses {name}", self._param)
            if name == "$ref" and isinstance(value, str):
                total += self._target(value, depth)
            else:
                total += self._size(value, depth + 1)
        return total

    def _target(self, reference: str, depth: int) -> int:
        if not reference.startswith("#/") or "%" in reference:
            raise _refused("has a reference that is not of the form #/…, without %", self._param)
        if reference in self._open:
            raise _refused("refers to itself", self._param)
        if reference not in self._sizes:
            self._open.add(reference)
            self._sizes[reference] = self._size(self._at(reference), depth + 1)
            self._open.discard(reference)
        return self._sizes[reference]

    def _at(self, reference: str) -> object:
        node = cast("object", self._root)
        for name in reference[2:].split("/"):
            key = name.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = cast("dict[str, object]", node).get(key)
            else:
                raise _refused(f"has a reference to nothing: {_short(reference)}", self._param)
        return node


def _nowhere(uri: str, /) -> NoReturn:
    raise ValueError(f"no schema is fetched: {uri}")


def _refused(reason: str, param: str) -> GroveError:
    return GroveError("memory_invalid", f"The schema {reason}.", param=param)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _short(text: str) -> str:
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 1] + "…"
