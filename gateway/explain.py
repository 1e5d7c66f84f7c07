"""What msgspec says of a request that does not fit its schema, as a dotted field and a sentence."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import inspect

from gateway.errors import invalid
from service_kit.errors import GroveError

__all__ = ["explained"]

_AT: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>(?:key in )?\$[^`]*)`)?$", re.DOTALL)
_STEP: Final = re.compile(r"\[(\d+|\.\.\.)\]")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`(?P<rest>[^,]*?)(?:, got `(?P<got>[^`]*)`)?")

_BOUNDS: Final = ("of length", "<", ">")
_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "datetime": "a time with an offset, as RFC 3339 writes it",
}


def explained(error: msgspec.ValidationError, kind: type[msgspec.Struct], within: str = "") -> GroveError:
    """``invalid_input`` with the field of ``kind`` at fault, ``within`` another or the body. Nothing of what was sent
    is repeated.
    """
    parts = _AT.match(str(error))
    what, where = (str(error), None) if parts is None else (parts["what"], parts["where"])
    inner = _dotted(where or "$")
    param = ".".join(one for one in (within, inner) if one)
    missing = _MISSING.fullmatch(what)
    if missing is not None:
        param = f"{param}.{missing['field']}" if param else missing["field"]
        return invalid(f"{param} is required.", param)
    if what.startswith("Invalid enum value"):
        # msgspec does not say which there are.
        allowed = ", ".join(dict.fromkeys(_values([inspect.type_info(kind)], inner.split("."))))
        return invalid(f"{param} is one of {allowed}." if allowed else f"{param} is not one we know.", param)
    return invalid(f"{param or 'The body'} {_complaint(what)}.", param or None)


def _values(kinds: list[inspect.Type], steps: list[str]) -> Iterator[str]:
    """What may stand where ``steps`` lead to."""
    for kind in kinds:
        match kind:
            case inspect.UnionType(types=several):
                yield from _values(list(several), steps)
            case inspect.LiteralType(values=values) if not steps:
                yield from map(str, values)
            case inspect.StructType(fields=fields) if steps:
                yield from _values([one.type for one in fields if one.encode_name == steps[0]], steps[1:])
            case inspect.ListType(item_type=item) if steps:
                yield from _values([item], steps[1:])
            case _:
                pass


def _dotted(where: str) -> str:
    """``$.episodes[0].content`` as ``episodes.0.content``."""
    steps = _STEP.sub(r".\1", where.removeprefix("key in ").removeprefix("$"))
    return steps.strip(".").replace("....", "").replace("...", "*")


def _complaint(what: str) -> str:
    expected = _EXPECTED.fullmatch(what)
    if expected is not None:
        got = f", not {_named(expected['got'])}" if expected["got"] else ""
        return f"must be {_wanted(expected['wanted'], expected['rest'].strip())}{got}"
    if "datetime" in what or "RFC3339" in what:
        return f"must be {_WORDS['datetime']}"
    return "is not acceptable"


def _wanted(wanted: str, rest: str) -> str:
    bound = rest if rest.startswith(_BOUNDS) else ""
    return f"{_named(wanted)} {bound}".strip()


def _named(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))
