"""Whether the program still has the conversation, and how it is told of one that it has not."""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from runner_service.domain.conversation import WITHHELD
from runner_service.domain.model import Item, Message, TurnRequest

__all__ = ["Kept", "keep", "kept", "spoken", "turns"]

_MOST: Final = 200_000
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Kept:
    """The program's own conversation, by its id, as it was when a turn of it ended in order."""

    id: str


def kept(file: Path, config: Path, request: TurnRequest) -> Kept | None:
    """The conversation to resume; None: it is to be told anew. That is so when the last turn did not end in order, ran
    elsewhere, or was another one's; and when something that a tool returned may not be read any more: the program
    would show it again, so what it kept is removed.
    """
    if any(item.get("output") == WITHHELD for item in request.history):
        shutil.rmtree(config, ignore_errors=True)
        file.unlink(missing_ok=True)
        return None
    try:
        said, _, digest = file.read_text(encoding="utf-8").strip().partition(" ")
    except OSError:
        return None
    return Kept(said) if digest == _digest(_asked(request.history)) else None


def keep(file: Path, conversation: str, request: TurnRequest) -> None:
    """What :func:`kept` finds before the next turn."""
    told = [*_asked(request.history), *(one.text for one in request.input if one.role == "user")]
    file.write_text(f"{conversation} {_digest(told)}", encoding="utf-8")


def spoken(request: TurnRequest, *, whole: bool) -> bytes:
    """The line the program is given: the task, after what was said before where ``whole``."""
    parts = list[str]()
    if whole and request.history:
        parts.append(
            "This conversation has begun elsewhere. What was said and done so far, oldest first, one JSON object each:\n"
            + _so_far(request.history)
            + "\nWhat follows is new."
        )
    parts += [_said(one) for one in request.input if one.text]
    content = [{"type": "text", "text": part} for part in parts]
    message: dict[str, Any] = {"role": "user", "content": content}
    return _encoder.encode({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})


def turns(history: Sequence[Item]) -> int:
    """How many turns it has."""
    return len(_asked(history))


def _so_far(history: Sequence[Item]) -> str:
    lines, left = list[str](), _MOST
    for item in reversed(history):
        line = _encoder.encode(_shown(item)).decode()
        left -= len(line)
        if left < 0:
            lines.append('{"left_out":"what was before"}')
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def _shown(item: Item) -> Item:
    match item.get("type"):
        case "message" if "text" in item:
            return {"role": item["role"], "text": item["text"]}
        case "message":
            parts = cast("Iterable[Item]", item["content"])
            return {"role": "assistant", "text": "".join(str(part.get("text", "")) for part in parts)}
        case "function_call":
            return {"role": "assistant", "calls": item["name"], "arguments": item["arguments"]}
        case _:
            return {"role": "tool", "returned": item.get("output", "")}


def _said(message: Message) -> str:
    return message.text if message.role == "user" else f"({message.role}) {message.text}"


def _asked(history: Sequence[Item]) -> list[str]:
    return [str(item["text"]) for item in history if item.get("role") == "user" and "text" in item]


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256(_encoder.encode(list(texts))).hexdigest()
