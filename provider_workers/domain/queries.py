"""Queries over one memory, in a language of its provider's (Memories, sections 6.4 and 6.5)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from provider_workers.domain import checks, errors
from provider_workers.domain.model import Capabilities, Record

__all__ = ["Answered", "Asked", "Queries", "QueryAdapter", "Value"]

MAX_STATEMENT: Final = 64 * 1024
"""Longest statement, in UTF-8 bytes."""
MAX_PARAMS_BYTES: Final = 64 * 1024
MAX_PARAMS: Final = 100

Value = str | int | float | bool | None
"""A parameter as a statement is given it; a list or an object is its JSON."""

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_value: Final = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A statement with its parameters, and whose turn it takes.

    ``readable``: other memories whose references say more than two ids. ``absent_is_null``: a parameter that is
    named and not given is null. ``check``: compile it only.
    """

    language: str
    statement: str
    params: Mapping[str, Value] = field(default_factory=dict[str, Value])
    readable: frozenset[str] = frozenset()
    absent_is_null: bool = False
    check: bool = False
    whose: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """Records where the result is records, else rows, each a JSON array. ``degraded`` names bounds applied."""

    records: tuple[Record, ...] | None
    columns: tuple[str, ...] = ()
    rows: tuple[bytes, ...] = ()
    degraded: tuple[str, ...] = ()


class QueryAdapter(Protocol):
    """A provider that declares queries."""

    @property
    def capabilities(self) -> Capabilities:
        """Its document."""
        ...

    async def query(self, memory_id: str, asked: Asked) -> Answered:
        """Run a statement that only reads where it can reach this memory and nothing else, by means it cannot undo.

        ``memory_invalid`` (param ``statement``) for one that cannot be run; ``grovekeeper_busy`` when too many
        wait. A bound of time, rows, bytes or memory is named in ``degraded``.
        """
        ...

    async def referenced_memories(self, memory_id: str) -> tuple[str, ...]:
        """Other memories that references of this memory's records name."""
        ...


class Queries:
    """The operations, by the provider a memory is bound to."""

    def __init__(self, adapters: Mapping[str, QueryAdapter]) -> None:
        self._adapters = adapters

    async def query(self, address: tuple[str, str], asked: Asked) -> Answered:
        """``memory_unsupported`` for a provider or a language without queries."""
        checks.identifier(address[1], "memory_id")
        adapter = self._adapter(address[0])
        declared = adapter.capabilities
        if asked.language not in {*declared.named_query_languages, *declared.free_query_languages}:
            raise errors.unsupported("queries in this language")
        if len(asked.statement.encode(errors="replace")) > MAX_STATEMENT:
            raise errors.invalid_content(f"A statement has at most {MAX_STATEMENT} bytes.", "statement")
        return await adapter.query(address[1], asked)

    async def referenced_memories(self, address: tuple[str, str]) -> tuple[str, ...]:
        """Other memories that references of this memory's records name."""
        checks.identifier(address[1], "memory_id")
        return await self._adapter(address[0]).referenced_memories(address[1])

    def _adapter(self, provider: str) -> QueryAdapter:
        adapter = self._adapters.get(provider)
        if adapter is None:
            raise errors.unsupported("queries")
        return adapter


def params_of(written: bytes) -> dict[str, Value]:
    """The parameters in a JSON object. ``memory_invalid`` names the one that no statement can be given."""
    if len(written) > MAX_PARAMS_BYTES:
        raise errors.too_large(f"Params have at most {MAX_PARAMS_BYTES} bytes.", "params")
    try:
        given = _object.decode(written or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise errors.invalid_content("Params are a JSON object.", "params") from None
    if len(given) > MAX_PARAMS:
        raise errors.invalid_content(f"A query has at most {MAX_PARAMS} params.", "params")
    return {name: _param(bytes(raw), f"params.{name[:64]}") for name, raw in given.items()}


def _param(raw: bytes, param: str) -> Value:
    if raw[:1] in b"[{":
        return raw.decode()
    try:
        value: object = _value.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        raise errors.invalid_content(f"{param} is not a JSON value.", param) from None
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise errors.invalid_content(f"{param} has more than 64 bits; send it as a text.", param)
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise errors.invalid_content(f"{param} is larger than a number can be.", param)
        return value
    if isinstance(value, str):
        return value
    raise errors.invalid_content(f"{param} is of no type a query takes.", param)
