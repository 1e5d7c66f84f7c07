"""The base without a model: a script in a model's place, in the same loop, streamed and paced.

Deterministic, so that a server can be tried, tested and shown without a key. Its label says what it is.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from runner_service.agent_loop.loop import OutputSpentError, run_agent
from runner_service.bases.scripted.answers import say
from runner_service.bases.scripted.grammar import HELP, Call, Count, Reply, Unknown, read_command
from runner_service.domain.inputs import asked_text
from runner_service.domain.model import Model, TurnRequest
from runner_service.domain.response_object import encode
from runner_service.domain.turn_events import TurnEvent
from service_kit.ids import new_id

__all__ = ["ScriptedBase"]

_MODEL: Final = "scripted-1"
_PIECES: Final = 16
_LEAST: Final = 9
"""An answer takes at least as many beats as this, however short it is: a stream that is over at once
shows nobody that it streams.
"""


class ScriptedBase:
    """The verbs of ``domain.ports.Base``. ``beat_s`` is the pause between two pieces of an answer."""

    name: str = "scripted"
    label: str = "Built-in scripted, no model"
    default_model: str = _MODEL
    provider: str = "grovekeeper"

    def __init__(self, beat_s: float) -> None:
        self._beat_s: float = beat_s

    async def models(self) -> tuple[Model, ...]:
        return (Model(_MODEL, self.label, self.name, available=True, is_default=True),)

    async def serves(self, model: str) -> bool:
        return model == _MODEL

    def run(self, request: TurnRequest) -> AsyncGenerator[TurnEvent]:
        script = _Script(request, self._beat_s)
        model = FunctionModel(stream_function=script.speak, model_name=_MODEL)
        return run_agent(model, request, self.provider, counted=False)


class _Script:
    """One turn's script, called once for each step of the loop."""

    def __init__(self, request: TurnRequest, beat_s: float) -> None:
        self._request: TurnRequest = request
        self._beat_s: float = beat_s
        self._spoken: int = 0

    async def speak(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        """The next step: a tool call, or the answer in pieces."""
        command = read_command(asked_text(self._request.input))
        if not isinstance(command, Call):
            pieces = _said(command)
        elif (answer := _answer(messages)) is not None:
            pieces = _pieces(say(command.tool, str(answer.content), failed=answer.outcome == "failed"))
        elif refusal := self._cannot(command, {tool.name for tool in info.function_tools}):
            pieces = _pieces(refusal)
        else:
            async for call in self._call(command):
                yield call
            return
        async for piece in self._paced(pieces):
            yield piece

    def _cannot(self, command: Call, offered: set[str]) -> str | None:
        """Why a call is not made."""
        if command.tool not in offered:
            if not offered:
                return "This harness has no memory attached, so I have nowhere to look or write."
            return f"I am not offered {command.tool} here: the harness is attached to read only, or the tool is disabled."
        if command.where and not self._find(command.where):
            known = ", ".join(f"“{one.name}”" for one in self._request.memories)
            return f"I know no memory called “{command.where}”. I know {known or 'none by name'}."
        return None

    async def _call(self, command: Call) -> AsyncIterator[dict[int, DeltaToolCall]]:
        arguments = dict(command.arguments)
        if command.where:
            arguments["memory"] = self._find(command.where)
        await self._pause()
        yield {0: DeltaToolCall(command.tool, encode(arguments).decode(), tool_call_id=new_id("call"))}

    def _find(self, where: str) -> str:
        """The id of a memory by its name or id; attached ones come first."""
        wanted = where.casefold()
        if where.startswith("hmem_"):
            return where
        return next((one.id for one in self._request.memories if one.name.casefold() == wanted), "")

    async def _paced(self, pieces: list[str]) -> AsyncIterator[str]:
        """The pieces, one at each beat, within the budget of tokens: a piece is one."""
        budget = self._request.budgets.max_output_tokens
        for _ in range(max(0, _LEAST - len(pieces))):
            await self._pause()
        for piece in pieces:
            if budget and self._spoken >= budget:
                raise OutputSpentError
            self._spoken += 1
            yield piece
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._beat_s)


def _answer(messages: list[ModelMessage]) -> ToolReturnPart | None:
    """What the tool of this turn answered, if it was called."""
    last = messages[-1]
    parts = last.parts if isinstance(last, ModelRequest) else ()
    return next((part for part in parts if isinstance(part, ToolReturnPart)), None)


def _said(command: Reply | Count | Unknown) -> list[str]:
    match command:
        case Reply(text):
            return _pieces(text)
        case Count(first, last):
            step = 1 if last >= first else -1
            numbers = range(first, last + step, step)
            return [f"{number}\n" if number != last else str(number) for number in numbers]
        case Unknown():
            return _pieces(HELP)


def _pieces(text: str) -> list[str]:
    """A text in at most ``_PIECES`` pieces, cut at words; a single word in two."""
    words = re.findall(r"\S+\s*|\s+", text)
    if len(words) == 1 and len(text) > 1:
        return [text[: len(text) // 2], text[len(text) // 2 :]]
    size = -(-len(words) // _PIECES)
    return ["".join(words[start : start + size]) for start in range(0, len(words), max(size, 1))]
