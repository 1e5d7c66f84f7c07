"""What travels between the worker and a child: one message there, one message back."""

from typing import Final

import msgspec

__all__ = ["Answer", "Ask", "Table", "Value", "answer_of", "answered", "ask_of", "asked"]

Value = str | int | float | bool | None
"""A cell, or a parameter after it was read."""


class Table(msgspec.Struct, array_like=True, frozen=True):
    """A table as it is filled."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Value, ...]]


class Ask(msgspec.Struct, array_like=True, frozen=True):
    """A statement and all it may see.

    ``params`` are values by name; ``lenient`` reads one that is absent as null. ``check``: compile it only.
    ``soft_s`` is when it is asked to stop, shortly before it is killed.
    """

    statement: str
    params: dict[str, Value]
    tables: list[Table]
    max_rows: int
    max_bytes: int
    heap_bytes: int
    soft_s: float
    lenient: bool = False
    check: bool = False


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """What came of it. ``rows`` are JSON arrays; ``bounds`` names what cut them short: ``rows bytes time memory``.

    ``error``: the statement is at fault, in a sentence.
    """

    columns: list[str]
    rows: list[bytes]
    bounds: list[str]
    error: str = ""


_ask: Final = msgspec.msgpack.Decoder(Ask)
_answer: Final = msgspec.msgpack.Decoder(Answer)
_encoder: Final = msgspec.msgpack.Encoder()


def ask_of(ask: Ask) -> bytes:
    """As it is sent."""
    return _encoder.encode(ask)


def asked(sent: bytes) -> Ask:
    """As it is read."""
    return _ask.decode(sent)


def answer_of(answer: Answer) -> bytes:
    """As it is sent."""
    return _encoder.encode(answer)


def answered(sent: bytes) -> Answer:
    """As it is read. Raises ``msgspec.MsgspecError`` for what is no answer."""
    return _answer.decode(sent)
