"""The types of records: those of the chapter, of providers, of the configuration, and registered ones (section 8)."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from memory_service.domain import errors
from memory_service.domain.keyed import Keyed
from memory_service.domain.model import Privilege
from memory_service.domain.ports import Provider, TypeStore
from memory_service.domain.record_types import Operation, RecordType
from service_kit.attributes import definition, path_of
from service_kit.idempotency import Idempotency
from service_kit.identity import current_passport
from service_kit.json_schema import JsonSchema, json_schema

__all__ = ["CORE", "Registry", "Types", "check", "compiled"]

MAX_TYPE: Final = 100
"""Longest name of a type, in characters."""
MAX_TEXT: Final = 4_000
"""Longest description of a type or an operation, and longest ``text``, in characters."""
MAX_TYPES: Final = 1_000
"""Most types that are registered at once."""
MAX_OPERATIONS: Final = 50
MAX_PROJECTION: Final = 50
"""Attributes a projection joins."""

_NAME: Final = re.compile(r"x(\.[A-Za-z0-9_-]+)+")
_OPERATION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_PUT, _DELETE = "put_type", "delete_type"
_FREE: Final = b'{"type":"object"}'
_answers: Final = msgspec.json.Decoder(RecordType)


def _core(name: str, description: str) -> RecordType:
    return RecordType(name, description, _FREE, "the content", source="core")


CORE: Final = (
    _core("episode", "Raw experience as it arrived: a turn, a transcript, an action and its result."),
    _core("fact", "One thing worth remembering, as it was said."),
    _core("note", "A document that an agent or a person wrote and maintains."),
    _core("procedure", "A how-to with the situation it applies to."),
    _core("link", "A pointer to something kept elsewhere: an address and a description."),
)
"""The core types of section 4.1; their attributes are free-form."""


class Registry:
    """Which types there are now. Nothing is remembered between calls, so every process sees a registration at once."""

    def __init__(self, provider: Provider, kept: TypeStore, configured: Sequence[RecordType]) -> None:
        self._provider = provider
        self._kept = kept
        self._configured = tuple(configured)

    async def all(self) -> tuple[RecordType, ...]:
        """Every type, each name once: the chapter's, then the providers', configured and registered ones."""
        found: dict[str, RecordType] = {}
        for one in (*CORE, *await self._provider.types(), *self._configured, *await self._kept.list()):
            found.setdefault(one.type, one)
        return tuple(found.values())

    async def find(self, name: str, provider: str) -> RecordType | None:
        """An extension type as it holds for memories of a provider; None when it is not registered there."""
        if not name.startswith("x."):
            return None
        for one in (*await self._provider.types(), *self._configured):
            if one.type == name and one.provider in ("", provider):
                return one
        return await self._kept.get(name)

    async def operable(self) -> tuple[RecordType, ...]:
        """Those that have operations."""
        return tuple(one for one in await self.all() if one.operations)

    async def taken(self, name: str) -> bool:
        """Whether a registration may not have this name."""
        theirs = (*CORE, *await self._provider.types(), *self._configured)
        return any(one.type == name for one in theirs)


class Types:
    """The use cases of types as objects."""

    def __init__(self, registry: Registry, kept: TypeStore) -> None:
        self._registry = registry
        self._kept = kept

    async def list(self) -> tuple[RecordType, ...]:
        """Every type there is."""
        return await self._registry.all()

    async def put(self, stated: RecordType, idempotency: Idempotency) -> RecordType:
        """Registers a type or replaces it. Needs the scope ``admin``.

        ``memory_invalid`` for one that is not well made, ``grovekeeper_conflict`` for a name that is not free to
        register. Records there are stay readable, whatever their attributes hold.
        """
        _require_admin()
        if await self._registry.taken(stated.type):
            raise errors.type_is_fixed(stated.type)
        check(stated)
        key = Keyed.of(_PUT, idempotency)
        async with self._kept.begin() as tx:
            done = await tx.claim(key)
            if done is not None:
                return _answers.decode(done)
            await tx.put(stated, MAX_TYPES)
            await tx.settle(key, msgspec.json.encode(stated), None)
        return stated

    async def delete(self, name: str, idempotency: Idempotency) -> RecordType:
        """Takes a registration back; answers it as it was. Needs the scope ``admin``."""
        _require_admin()
        if await self._registry.taken(name):
            raise errors.type_is_fixed(name)
        key = Keyed.of(_DELETE, idempotency)
        async with self._kept.begin() as tx:
            done = await tx.claim(key)
            if done is not None:
                return _answers.decode(done)
            gone = await tx.remove(name)
            if gone is None:
                raise errors.type_not_found()
            await tx.settle(key, msgspec.json.encode(gone), None)
        return gone


def check(stated: RecordType) -> None:
    """``memory_invalid`` unless a registration is well made."""
    if len(stated.type) > MAX_TYPE or _NAME.fullmatch(stated.type) is None:
        raise errors.invalid_type(
            "A registered type is called x. and names of letters, digits, _ and -.", "type"
        )
    for param, text in (("description", stated.description), ("text", stated.text)):
        _check_text(text, param)
    json_schema(stated.schema, "schema")
    if len(stated.projection) > MAX_PROJECTION:
        raise errors.invalid_type(f"A projection joins at most {MAX_PROJECTION} attributes.", "projection")
    for place, path in enumerate(stated.projection):
        path_of(path, f"projection.{place}")
    if len(stated.operations) > MAX_OPERATIONS:
        raise errors.invalid_type(f"A type has at most {MAX_OPERATIONS} operations.", "operations")
    if len({one.name for one in stated.operations}) < len(stated.operations):
        raise errors.invalid_type("Two operations of a type have different names.", "operations")
    for place, one in enumerate(stated.operations):
        _check_operation(one, f"operations.{place}")


def _check_operation(one: Operation, param: str) -> None:
    if _OPERATION.fullmatch(one.name) is None:
        raise errors.invalid_type(
            "An operation is called by at most 64 letters, digits, _ and -, a letter first.", f"{param}.name"
        )
    _check_text(one.description, f"{param}.description")
    json_schema(one.input, f"{param}.input")
    if one.requires is not Privilege.WRITE:
        raise errors.invalid_type(
            "A registered operation requires write: it sets attributes.", f"{param}.requires"
        )
    definition(one.definition, f"{param}.definition")


def _check_text(text: str, param: str) -> None:
    if len(text) > MAX_TEXT:
        raise errors.invalid_type(f"{param} has at most {MAX_TEXT} characters.", param)


def compiled(schema: bytes) -> JsonSchema:
    """The schema of a type; those seen lately are kept compiled, by their bytes."""
    return json_schema(schema, "schema")


def _require_admin() -> None:
    if "admin" not in current_passport().scopes:
        raise errors.needs_admin()
