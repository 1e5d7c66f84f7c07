"""What the program writes, line by line, in the domain's words.

Unknown lines and fields are passed over: the program grows faster than this does. What its subagents say belongs to
the call that started them and is not told.
"""

import logging
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from runner_service.domain.turn_events import (
    CallArguments,
    CallDone,
    CallOutput,
    CallStarted,
    Compacted,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    TextDone,
    TurnEvent,
)

__all__ = ["MCP_NAME", "Result", "Teller"]

_log: Final = logging.getLogger(__name__)
MCP_NAME: Final = "memory"
_PREFIX: Final = f"mcp__{MCP_NAME}__"
_KNOWN: Final = frozenset(["assistant", "user", "system", "stream_event", "result", "rate_limit_event"])
_MOST_UNKNOWN: Final = 5
_Json = dict[str, Any]
_decoder: Final = msgspec.json.Decoder(_Json)
_encoder: Final = msgspec.json.Encoder()


class Result(msgspec.Struct, frozen=True):
    """How the program says that it ended. ``kind`` is ``success``, ``error_max_turns``, ``error_during_execution``, …; a
    success may be an error all the same.
    """

    subtype: str = ""
    is_error: bool = False
    result: str = ""


class Teller:
    """One run. ``earlier``: how many turns there were before it, all of which a compaction sums up."""

    def __init__(self, earlier: int) -> None:
        self._earlier: int = earlier
        self._blocks: dict[int, _Json] = {}
        self._arguments: dict[int, list[str]] = {}
        self._calls: set[str] = set()
        self._streamed: set[str] = set()
        self._unknown: set[str] = set()
        self.result: Result | None = None
        self.models: set[str] = set()
        self.answered: bool = False

    def tell(self, line: bytes) -> Iterator[TurnEvent]:
        """The events of one line."""
        try:
            said = _decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            self._pass_over("what is no JSON object")
            return
        if said.get("parent_tool_use_id"):
            return
        kind = str(said.get("type"))
        match kind:
            case "stream_event":
                yield from self._stream(_object(said.get("event")))
            case "assistant":
                yield from self._whole(_object(said.get("message")))
            case "user":
                yield from self._results(_object(said.get("message")))
            case "system" if said.get("subtype") == "compact_boundary":
                yield Compacted(max(1, self._earlier))
            case "result":
                self.result = Result(
                    str(said.get("subtype")), bool(said.get("is_error")), str(said.get("result") or "")
                )
            case _ if kind not in _KNOWN:
                self._pass_over(kind)
            case _:
                pass

    def _stream(self, event: _Json) -> Iterator[TurnEvent]:
        index = event.get("index")
        number = index if isinstance(index, int) else -1
        match event.get("type"):
            case "message_start":
                message = _object(event.get("message"))
                self._streamed.add(str(message.get("id")))
                self.models.add(str(message.get("model")))
                self._blocks.clear()
            case "content_block_start":
                block = _object(event.get("content_block"))
                self._blocks[number], self._arguments[number] = block, []
                if block.get("type") == "tool_use":
                    yield self._called(block)
            case "content_block_delta" if number in self._blocks:
                yield from self._more(number, _object(event.get("delta")))
            case "content_block_stop" if number in self._blocks:
                yield from self._done(number)
            case _:
                pass

    def _more(self, number: int, delta: _Json) -> Iterator[TurnEvent]:
        match delta:
            case {"type": "text_delta", "text": str(text)} if text:
                self.answered = self.answered or bool(text.strip())
                yield TextDelta(text)
            case {"type": "thinking_delta", "thinking": str(text)} if text:
                yield ReasoningDelta(text)
            case {"type": "input_json_delta", "partial_json": str(text)} if text:
                self._arguments[number].append(text)
                yield CallArguments(str(self._blocks[number].get("id")), text)
            case _:
                pass

    def _done(self, number: int) -> Iterator[TurnEvent]:
        block = self._blocks.pop(number)
        match block.get("type"):
            case "text":
                yield TextDone()
            case "thinking":
                yield ReasoningDone()
            case "tool_use":
                yield CallDone(str(block.get("id")), "".join(self._arguments[number]) or "{}")
            case _:
                pass

    def _called(self, block: _Json) -> CallStarted:
        call_id = str(block.get("id"))
        self._calls.add(call_id)
        # What comes next is no end: whoever called a tool has more to say.
        self.answered = False
        return CallStarted(call_id, str(block.get("name")).removeprefix(_PREFIX))

    def _whole(self, message: _Json) -> Iterator[TurnEvent]:
        """A message that was not streamed. The program's own words for an error are not an answer."""
        if str(message.get("id")) in self._streamed or message.get("model") == "<synthetic>":
            return
        for block in _objects(message.get("content")):
            match block:
                case {"type": "text", "text": str(text)} if text.strip():
                    self.answered = True
                    yield TextDelta(text)
                    yield TextDone()
                case {"type": "tool_use", "id": str(call_id)}:
                    yield self._called(block)
                    yield CallDone(call_id, _encoder.encode(block.get("input") or {}).decode())
                case _:
                    pass

    def _results(self, message: _Json) -> Iterator[TurnEvent]:
        for block in _objects(message.get("content")):
            call_id = str(block.get("tool_use_id"))
            if block.get("type") == "tool_result" and call_id in self._calls:
                self._calls.discard(call_id)
                yield CallOutput(call_id, _text(block.get("content")))

    def _pass_over(self, kind: str) -> None:
        if kind not in self._unknown and len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.add(kind)
            _log.info("an agent wrote a line of an unknown kind", extra={"kind": kind[:80]})


def _object(value: object) -> _Json:
    return cast("_Json", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[_Json]:
    return [_object(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def _text(content: object) -> str:
    """What a tool answered: text, or parts of which those that are text are told."""
    if isinstance(content, str):
        return content
    return "\n".join(
        str(one.get("text")) if one.get("type") == "text" else f"[{one.get('type')}]"
        for one in _objects(content)
    )
