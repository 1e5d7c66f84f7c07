"""The types of the configuration: a JSON file, read once and refused in words where it is at fault."""

from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from memory_service.domain import types
from memory_service.domain.model import Privilege
from memory_service.domain.record_types import Operation, RecordType
from service_kit.errors import GroveError
from service_kit.settings import SettingsError


class _Operation(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    definition: Raw
    description: str = ""
    input: Raw = Raw(b'{"type":"object"}')
    requires: Privilege = Privilege.WRITE


class _Type(Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    description: str = ""
    schema: Raw = Raw(b'{"type":"object"}')
    text: str = ""
    projection: tuple[str, ...] = ()
    operations: tuple[_Operation, ...] = ()


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    types: tuple[_Type, ...]


def read_types(path: Path | None) -> tuple[RecordType, ...]:
    """The types of ``{"types": [...]}``, each as its registration would be. ``SettingsError`` says what is wrong."""
    if path is None:
        return ()
    try:
        stated = msgspec.json.decode(path.read_bytes(), type=_File).types
    except OSError as error:
        raise SettingsError(f"GROVE_TYPES_FILE cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"GROVE_TYPES_FILE is no list of types: {error}.") from error
    made = tuple(_made(one) for one in stated)
    names = [one.type for one in made]
    for place, one in enumerate(made):
        try:
            types.check(one)
        except GroveError as error:
            raise SettingsError(f"GROVE_TYPES_FILE, types.{place}.{error.param}: {error.message}") from error
        if names.index(one.type) != place:
            raise SettingsError(f"GROVE_TYPES_FILE has the type {one.type} twice.")
    return made


def _made(one: _Type) -> RecordType:
    return RecordType(
        one.type,
        one.description,
        bytes(one.schema),
        one.text,
        one.projection,
        tuple(
            Operation(each.name, each.description, bytes(each.input), each.requires, bytes(each.definition))
            for each in one.operations
        ),
        source="configuration",
    )
