"""Types of records and their operations (Memories, section 8)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.schemas.base import UNSET, Answer, Ask, Raw, Text, UnsetType
from gateway.schemas.records import RecordAnswer

__all__ = ["NewOperation", "Operate", "Operated", "Operation", "RegisterType", "Type", "Types"]


class NewOperation(Ask, kw_only=True, frozen=True):
    """An operation of a registered type: what it sets."""

    name: Text
    description: str = ""
    input: Raw | UnsetType = UNSET
    requires: Literal["write"] = "write"
    definition: Raw


class RegisterType(Ask, kw_only=True, frozen=True):
    """Body of ``PUT /v1/grovekeeper/types/{type}``."""

    description: str = ""
    schema: Raw | UnsetType = UNSET
    text: str = ""
    projection: list[str] = msgspec.field(default_factory=list[str])
    operations: list[NewOperation] = msgspec.field(default_factory=list[NewOperation])


class Operate(Ask, kw_only=True, frozen=True):
    """Query of ``POST …/operations/{name}``; the body is the operation's input."""

    expected_version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class Operation(Answer, kw_only=True, frozen=True):
    """An operation of a type. ``definition``: what a registered one sets."""

    name: str
    description: str
    input: Raw
    requires: str
    definition: Raw | UnsetType = UNSET


class Type(Answer, kw_only=True, frozen=True):
    """A kind of record. ``text`` says what it is found by, ``projection`` names the attributes."""

    type: str
    description: str
    schema: Raw
    text: str
    projection: list[str]
    operations: list[Operation]
    source: str


class Types(Answer, kw_only=True, frozen=True):
    """Every kind of record there is."""

    data: list[Type]


class Operated(Answer, kw_only=True, frozen=True):
    """The record as it reads after an operation, and what that found out."""

    record: RecordAnswer
    result: Raw | UnsetType = UNSET
