"""A conversation as the agent loop's library writes it."""

import json
from collections.abc import Iterable, Sequence
from typing import cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from runner_service.domain.composer import UNKNOWN_OUTCOME
from runner_service.domain.model import Item, Message

__all__ = ["conversation"]


def conversation(history: Sequence[Item], asked: Sequence[Message]) -> list[ModelMessage]:
    """Everything said so far, the new input last. Reasoning is not handed back; a call that was never
    answered is answered now, as models demand.
    """
    writer = _Writer()
    for item in history:
        writer.item(item)
    for message in asked:
        writer.message(message.role, message.text)
    return writer.messages()


class _Writer:
    """Gathers parts of one side until the other side speaks."""

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._request: list[ModelRequestPart] = []
        self._response: list[ModelResponsePart] = []
        self._unanswered: dict[str, str] = {}

    def item(self, item: Item) -> None:
        match item["type"]:
            case "message" if "text" in item:
                self.message(str(item["role"]), str(item["text"]))
            case "message":
                self.message("assistant", _words(item))
            case "function_call":
                call_id, name = str(item["call_id"]), str(item["name"])
                self._say(ToolCallPart(name, _object(str(item["arguments"])), tool_call_id=call_id))
                self._unanswered[call_id] = name
            case "function_call_output" if item["call_id"] in self._unanswered:
                self._answer(str(item["call_id"]), str(item["output"]))
            case _:
                pass

    def message(self, role: str, text: str) -> None:
        if not text:
            return
        if role == "assistant":
            self._say(TextPart(text))
        else:
            self._close_calls()
            self._hear(UserPromptPart(text) if role == "user" else SystemPromptPart(text))

    def messages(self) -> list[ModelMessage]:
        self._flush_response()
        self._flush_request()
        return self._messages

    def _answer(self, call_id: str, output: str) -> None:
        name = self._unanswered.pop(call_id)
        self._hear(ToolReturnPart(name, output, tool_call_id=call_id))

    def _close_calls(self) -> None:
        for call_id in list(self._unanswered):
            self._answer(call_id, UNKNOWN_OUTCOME)

    def _say(self, part: ModelResponsePart) -> None:
        if self._request:
            self._flush_request()
        elif isinstance(part, TextPart):
            self._close_calls()
            self._flush_request()
        self._response.append(part)

    def _hear(self, part: ModelRequestPart) -> None:
        self._flush_response()
        self._request.append(part)

    def _flush_request(self) -> None:
        if self._request:
            self._messages.append(ModelRequest(parts=self._request))
            self._request = []

    def _flush_response(self) -> None:
        if self._response:
            self._messages.append(ModelResponse(parts=self._response))
            self._response = []


def _object(arguments: str) -> str:
    """Arguments a model may be shown again: what is not a JSON object is none."""
    try:
        return arguments if isinstance(json.loads(arguments), dict) else "{}"
    except (ValueError, RecursionError):
        return "{}"


def _words(item: Item) -> str:
    return "".join(str(part.get("text", "")) for part in cast("Iterable[Item]", item["content"]))
