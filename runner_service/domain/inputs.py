"""The ``input`` of a task (Tasks): read once, strictly, into messages of text.

A string is one user message. Items are messages with ``role`` and ``content`` (a string, or parts
``input_text``; ``output_text`` where an assistant's words are handed back). Files and images are not
taken yet and are refused by name, never dropped.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from runner_service.domain.errors import invalid
from runner_service.domain.model import Message

__all__ = ["MAX_INPUT_BYTES", "MAX_INSTRUCTIONS", "MAX_ITEMS", "asked_text", "input_items", "read_input"]

MAX_INPUT_BYTES: Final = 4 * 1024 * 1024
MAX_ITEMS: Final = 1000
MAX_INSTRUCTIONS: Final = 256 * 1024

Role = Literal["user", "assistant", "system", "developer"]


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part]
    type: str = "message"


_input = msgspec.json.Decoder(str | list[msgspec.Raw])
_item = msgspec.json.Decoder(_Message)


def read_input(raw: bytes) -> tuple[Message, ...]:
    """The messages of an input, in order. ``invalid_input`` says what is wrong and where."""
    if len(raw) > MAX_INPUT_BYTES:
        raise invalid(f"The input is larger than {MAX_INPUT_BYTES} bytes.", "input")
    try:
        decoded = _input.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise invalid("The input must be a string or a list of items.", "input") from None
    if isinstance(decoded, str):
        messages = (Message("user", decoded),)
    else:
        if len(decoded) > MAX_ITEMS:
            raise invalid(f"The input has more than {MAX_ITEMS} items.", "input")
        messages = tuple(_message(one, f"input[{index}]") for index, one in enumerate(decoded))
    if not any(one.text.strip() for one in messages if one.role == "user"):
        raise invalid("The input says nothing: it needs a user's text.", "input")
    if messages[-1].role == "assistant":
        raise invalid("The last message of an input is not the assistant's.", "input")
    return messages


def asked_text(messages: Sequence[Message]) -> str:
    """What the user asked, as one text."""
    return "\n\n".join(one.text for one in messages if one.role == "user" and one.text.strip())


def input_items(raw: bytes) -> bytes:
    """An accepted input as a JSON list of items: as they were sent, or the user's message that a text stands for."""
    if raw.lstrip().startswith(b"["):
        return raw
    part = b'{"type":"input_text","text":' + raw + b"}"
    return b'[{"type":"message","role":"user","content":[' + part + b"]}]"


def _message(raw: msgspec.Raw, where: str) -> Message:
    try:
        item = _item.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise invalid(
            "An input item needs a role, and content that is text or a list of parts.", where
        ) from None
    if item.type != "message":
        raise invalid(f"An input item of type {item.type[:50]!r} is not taken here.", f"{where}.type")
    role = _role(item.role, where)
    if isinstance(item.content, str):
        return Message(role, item.content)
    parts = [_text(part, role, f"{where}.content[{index}]") for index, part in enumerate(item.content)]
    return Message(role, "\n".join(parts))


def _role(given: str, where: str) -> Role:
    if given not in ("user", "assistant", "system", "developer"):
        raise invalid("A role is user, assistant, system or developer.", f"{where}.role")
    return given


def _text(part: _Part, role: Role, where: str) -> str:
    if part.type in ("input_file", "input_image"):
        kind = "files" if part.type == "input_file" else "images"
        raise invalid(f"This server does not take {kind} in an input yet.", f"{where}.type")
    if part.type != "input_text" and not (part.type == "output_text" and role == "assistant"):
        raise invalid(f"A content part of type {part.type[:50]!r} is not taken here.", f"{where}.type")
    if part.text is None:
        raise invalid("A text part needs its text.", f"{where}.text")
    return part.text
