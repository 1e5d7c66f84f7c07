"""What the use cases of record types speak of (Memories, section 8)."""

from dataclasses import dataclass

from memory_service.domain.model import Privilege, Record


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a type (section 8). JSON is UTF-8; ``definition`` is empty for one a provider has built in."""

    name: str
    description: str
    input: bytes
    requires: Privilege
    definition: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of record. ``source`` is ``core``, ``provider``, ``configuration`` or ``api``; ``provider`` whose own
    it is, where it is one's. The schema is kept byte for byte.
    """

    type: str
    description: str
    schema: bytes
    text: str = ""
    projection: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    source: str = "api"
    provider: str = ""

    def operation(self, name: str) -> Operation | None:
        """Its operation of that name."""
        return next((one for one in self.operations if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Operate:
    """An operation asked for: the record's type and the operation as they are registered, and the input."""

    type: RecordType
    operation: Operation
    input: bytes
    expected_version: int


@dataclass(frozen=True, slots=True)
class Operated:
    """The record after an operation, and what that found out (UTF-8 JSON; empty: nothing)."""

    record: Record
    result: bytes
