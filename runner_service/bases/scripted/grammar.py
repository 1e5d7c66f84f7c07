"""What the scripted base understands. It is small, and this is all of it.

==========================================================  ===============================================
the last message of the user (any case)                     what happens
==========================================================  ===============================================
``Reply with exactly: TEXT``                                answers TEXT
``Count slowly from A to B, one number per line.``          answers the numbers, one at a time
``Recall: QUESTION``, ``Recall in NAME: QUESTION``          ``memory_recall``, answers what was found
``What do you know about SUBJECT?``                         the same
``Remember: FACT``, ``Remember in NAME: FACT``              ``memory_remember``
``Revise RECORD: TEXT``                                     ``memory_revise``
``Forget RECORD``                                           ``memory_forget``
``List memories``                                           ``memory_list``
``Run QUERY``, ``Run QUERY in NAME with PARAMS``            ``memory_run_query``, a named query
``Query LANGUAGE: STATEMENT``                               ``memory_query``
``Do OPERATION on RECORD``, ``… with INPUT``                ``memory_operate``
==========================================================  ===============================================

NAME is a memory's name or id; without it the default memory, or the first attached one. ``Recall``,
``Revise``, ``Forget``, ``Run``, ``Query`` and ``Do`` take ``in NAME`` alike. PARAMS and INPUT are JSON objects and go
on as they were written. Anything else is answered by saying what is understood.
"""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

__all__ = [
    "HELP",
    "Call",
    "Command",
    "Count",
    "Reply",
    "Unknown",
    "read_command",
]

HELP: Final = (
    "I am the built-in scripted base: no model is behind me, and I follow a small fixed grammar. I understand:"
    " “Reply with exactly: …”, “Count slowly from 1 to 5, one number per line.”, “Recall: a question”,"
    " “What do you know about …?”, “Remember: a fact”, “Revise RECORD: new text”, “Forget RECORD”, “List memories”,"
    ' “Run QUERY with {"a": 1}”, “Query sql: select …” and “Do OPERATION on RECORD with {…}”; a memory\'s name can be given as in “Recall in NAME: a question”.'
)

_IN: Final = r"(?:\s+in\s+(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>[^:\"]+?)))?"
_WITH: Final = r"(?:\s+with\s+(?P<json>\{.*\}))?"
_FLAGS: Final = re.IGNORECASE | re.DOTALL


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"\s*{text}\s*", _FLAGS)


_REPLY: Final = _pattern(r"reply\s+with\s+exactly:\s*(?P<text>.+?)")
_COUNT: Final = _pattern(
    r"count\s+slowly\s+from\s+(?P<first>-?\d{1,9})\s+to\s+(?P<last>-?\d{1,9})(?:,?\s+one\s+number\s+per\s+line)?\.?"
)
_RECALL: Final = _pattern(rf"recall{_IN}:\s*(?P<text>.+?)")
_KNOW: Final = _pattern(r"what\s+do\s+you\s+know\s+about\s+(?P<text>.+?)\s*\?*")
_REMEMBER: Final = _pattern(rf"remember{_IN}:\s*(?P<text>.+?)")
_REVISE: Final = _pattern(rf"revise\s+(?P<record>[^\s:]+){_IN}:\s*(?P<text>.+?)")
_FORGET: Final = _pattern(rf"forget\s+(?P<record>[^\s:.]+){_IN}\.?")
_LIST: Final = _pattern(r"list\s+(?:my\s+|the\s+)?memories\.?")
_RUN: Final = _pattern(rf"run\s+(?P<query>[^\s:{{]+){_IN}{_WITH}\.?")
_QUERY: Final = _pattern(rf"query\s+(?P<language>[^\s:]+){_IN}:\s*(?P<text>.+?)")
_DO: Final = _pattern(rf"do\s+(?P<operation>[^\s:]+)\s+on\s+(?P<record>[^\s:.]+){_IN}{_WITH}\.?")

MAX_COUNT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Reply:
    """Say exactly this."""

    text: str


@dataclass(frozen=True, slots=True)
class Count:
    """Say the numbers from ``first`` to ``last``, one per line, slowly."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Call:
    """Call a memory tool on the memory ``where`` names (empty: by default) and say what it answered."""

    tool: str
    arguments: dict[str, object]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not in the grammar."""


Command = Reply | Count | Call | Unknown


def read_command(text: str) -> Command:
    """The command in a message; :class:`Unknown` when there is none."""
    if match := _REPLY.fullmatch(text):
        return Reply(match["text"])
    if match := _COUNT.fullmatch(text):
        first, last = int(match["first"]), int(match["last"])
        return Count(first, last) if abs(last - first) < MAX_COUNT else Unknown()
    return _memory_command(text)


def _memory_command(text: str) -> Command:
    if match := _RECALL.fullmatch(text):
        return Call("memory_recall", {"query": match["text"]}, _where(match))
    if match := _KNOW.fullmatch(text):
        return Call("memory_recall", {"query": match["text"]})
    if match := _REMEMBER.fullmatch(text):
        return Call("memory_remember", {"content": match["text"]}, _where(match))
    if match := _REVISE.fullmatch(text):
        arguments: dict[str, object] = {"record": match["record"], "content": match["text"]}
        return Call("memory_revise", arguments, _where(match))
    if match := _FORGET.fullmatch(text):
        return Call("memory_forget", {"record": match["record"]}, _where(match))
    if _LIST.fullmatch(text):
        return Call("memory_list", {})
    return _beyond_records(text)


def _beyond_records(text: str) -> Command:
    if match := _QUERY.fullmatch(text):
        arguments: dict[str, object] = {"language": match["language"], "statement": match["text"]}
        return Call("memory_query", arguments, _where(match))
    if (match := _RUN.fullmatch(text)) and _is_json(match["json"]):
        return Call("memory_run_query", {"name": match["query"], **_given("params", match)}, _where(match))
    if (match := _DO.fullmatch(text)) and _is_json(match["json"]):
        about = {"record": match["record"], "operation": match["operation"]}
        return Call("memory_operate", {**about, **_given("input", match)}, _where(match))
    return Unknown()


def _given(name: str, match: re.Match[str]) -> dict[str, object]:
    """What was given in JSON, as it was written."""
    return {name: msgspec.Raw(match["json"].encode())} if match["json"] else {}


def _is_json(text: str | None) -> bool:
    """Whether it can go on as it is; what is not there can."""
    try:
        msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _where(match: re.Match[str]) -> str:
    return (match["quoted"] or match["plain"] or "").strip()
