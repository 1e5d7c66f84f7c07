"""A turn as a person reads it (Sessions §3): what was asked, what was answered, which tools were called."""

import re
from collections.abc import Sequence
from typing import Final, cast

import msgspec

from runner_service.domain.inputs import asked_text, read_input
from runner_service.domain.model import Item, Message, Response
from runner_service.domain.response_object import encode

__all__ = ["TITLE_CHARACTERS", "said", "shown_turn", "title", "tools_called", "turn"]

TITLE_CHARACTERS: Final = 100
_LOOKED_AT: Final = 10 * TITLE_CHARACTERS
"""Of a text only so much is looked at for its title; what is left out of that is left out of it."""
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

_QUERY: Final = "query_"
_RUN_QUERY: Final = "memory_run_query"


class _Composed(msgspec.Struct):
    status: str
    created_at: int
    output: list[Item]
    completed_at: int | None = None


_decoder: Final = msgspec.json.Decoder(_Composed)


def title(messages: Sequence[Message]) -> str:
    """What was asked as one short line of visible characters, at most ``TITLE_CHARACTERS``; cut where it ends in ``…``."""
    line = " ".join(_UNSEEN.sub(" ", asked_text(messages)[:_LOOKED_AT]).split())
    return line if len(line) <= TITLE_CHARACTERS else line[: TITLE_CHARACTERS - 1].rstrip() + "…"


def said(output: Sequence[Item]) -> str:
    """Everything the assistant answered, as one text."""
    answers = (
        "".join(str(part["text"]) for part in cast("list[Item]", item["content"]))
        for item in output
        if item["type"] == "message"
    )
    return "\n\n".join(text for text in answers if text.strip())


def tools_called(output: Sequence[Item]) -> list[Item]:
    """The calls of a turn in order, each with its answer where it has one: ``call_id``, ``name``, ``arguments``, ``output``."""
    answers = {item["call_id"]: item["output"] for item in output if item["type"] == "function_call_output"}
    calls: list[Item] = []
    for item in output:
        if item["type"] == "function_call":
            call: Item = {name: item[name] for name in ("call_id", "name", "arguments")}
            if item["call_id"] in answers:
                call["output"] = answers[item["call_id"]]
            calls.append(call)
    return calls


def shown_turn(response: Response, composed: bytes) -> bytes:
    """A turn as whoever has a link to its session may read it, as JSON: ``status``, ``created_at`` and ``completed_at``
    (unix s), ``user``, ``assistant``, ``tools``, ``files``.

    Of a tool only its name is shown. What it was given and what it returned is a memory's, which the reader may not be
    allowed to read; so is the name of a named query, and the tool it has reads as the one that runs any.
    """
    read = _decoder.decode(composed)
    names = (str(item["name"]) for item in read.output if item["type"] == "function_call")
    return encode(
        _times(read)
        | {
            "user": asked_text(read_input(response.asked.input)),
            "assistant": said(read.output),
            "tools": [{"name": _RUN_QUERY if one.startswith(_QUERY) else one} for one in names],
            "files": [],
        }
    )


def _times(read: _Composed) -> Item:
    made: Item = {"status": read.status, "created_at": read.created_at}
    if read.completed_at is not None:
        made["completed_at"] = read.completed_at
    return made


def turn(response: Response, composed: bytes) -> bytes:
    """A turn, as JSON: ``id``, ``status``, ``created_at`` and ``completed_at`` (unix s), ``user``, ``assistant``,
    ``tools``, ``files``. ``composed`` is its response object as it stands.
    """
    read = _decoder.decode(composed)
    return encode(
        {"id": response.id}
        | _times(read)
        | {
            "user": asked_text(read_input(response.asked.input)),
            "assistant": said(read.output),
            "tools": tools_called(read.output),
            "files": [],
        }
    )
