"""One agent loop for every base that has none of its own: a model that streams, and tools over MCP.

The library beneath moves; nothing of it is seen outside this package. Its events become the domain's,
its errors a sentence, its limits ``Stopped``.
"""

import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pydantic_ai import Agent, AgentRunResultEvent, RunContext, UsageLimits
from pydantic_ai.agent import AgentRunEvents
from pydantic_ai.exceptions import OutputTokenLimitExceeded, UsageLimitExceeded, UserError
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from runner_service.agent_loop.compaction import compact
from runner_service.agent_loop.failures import failure_of
from runner_service.agent_loop.history import conversation
from runner_service.agent_loop.traced import TracedModel, traced_tool_call
from runner_service.domain.errors import BaseFailureError
from runner_service.domain.model import ToolAccess, TurnRequest
from runner_service.domain.turn_events import (
    CallArguments,
    CallDone,
    CallOutput,
    CallStarted,
    Compacted,
    ReasoningDelta,
    ReasoningDone,
    Stopped,
    TextDelta,
    TextDone,
    TurnEvent,
    Used,
)

__all__ = ["OutputSpentError", "run_agent"]

_CONNECT_S: Final = 10.0
_TOOL_S: Final = 120.0
_Events = AgentRunEvents[str]


class OutputSpentError(Exception):
    """The budget of output tokens is spent before the next model call."""


async def run_agent(
    model: Model[Any], request: TurnRequest, provider: str, *, counted: bool, most_history: int = 0
) -> AsyncGenerator[TurnEvent]:
    """Run one turn on ``model``. With ``counted``, what the endpoint counted is reported as ``Used``. The
    conversation before it is kept within ``most_history`` characters (0: any number); ``Compacted`` says so.

    Raises ``BaseFailureError``.
    """
    agent = Agent(
        TracedModel(model, provider, counted=counted),
        instructions=request.instructions or None,
        name=request.harness_name,
        toolsets=[_toolset(request.tools)] if request.tools is not None else [],
        model_settings=_settings(request.budgets.max_output_tokens),
        retries=2,
    )
    history, left_out, newly = compact(request.history, most_history or sys.maxsize)
    if newly:
        yield Compacted(left_out)
    teller, trouble = _Teller(), _Trouble()
    async with agent.run_stream_events(
        None,
        message_history=conversation(history, request.input),
        usage_limits=UsageLimits(request_limit=request.budgets.max_step or None),
    ) as events:
        with trouble.caught():
            async for event in events:
                for told in teller.tell(event):
                    yield told
                if isinstance(event, FunctionToolCallEvent) and counted:
                    for used in _used(events):
                        yield used
        if counted:
            for used in _used(events):
                yield used
    if trouble.failure is not None:
        raise trouble.failure
    if trouble.stopped or teller.cut_off:
        yield Stopped(trouble.stopped or "max_output_tokens")


class _Trouble:
    """What ended a run before its time: a budget, or a failure to report."""

    def __init__(self) -> None:
        self.stopped: str = ""
        self.failure: BaseFailureError | None = None

    @contextmanager
    def caught(self) -> Generator[None]:
        """Keep what can be said of an error inside the block; let others pass."""
        try:
            yield
        except (OutputSpentError, OutputTokenLimitExceeded):
            self.stopped = "max_output_tokens"
        except UsageLimitExceeded:
            self.stopped = "max_step"
        except Exception as error:
            self.failure = failure_of(error)
            if self.failure is None:
                raise
            self.failure.__cause__ = error


def _toolset(access: ToolAccess) -> MCPToolset[object]:
    return MCPToolset(
        access.url,
        id="memory",
        headers={"Authorization": f"Bearer {access.token}"},
        tool_error_behavior="failed",
        process_tool_call=traced_tool_call,
        init_timeout=_CONNECT_S,
        read_timeout=_TOOL_S,
    )


def _settings(max_output_tokens: int) -> Callable[[RunContext[object]], ModelSettings]:
    """What is left of the output budget, for each model call anew."""

    def left(context: RunContext[object]) -> ModelSettings:
        if not max_output_tokens:
            return ModelSettings()
        rest = max_output_tokens - context.usage.output_tokens
        if rest <= 0:
            raise OutputSpentError
        return ModelSettings(max_tokens=rest)

    return left


def _used(events: _Events) -> Iterator[Used]:
    """What the endpoint counted so far; nothing when it left a call uncounted."""
    with suppress(UserError):  # the run did not begin
        usage = events.usage
        if usage.requests and not usage.unmeasured_requests and usage.has_values():
            yield Used(usage.input_tokens, usage.output_tokens)


class _Teller:
    """Tells the library's events in the domain's words."""

    def __init__(self) -> None:
        self._calls: dict[int, str] = {}
        self._alias: dict[str, str] = {}
        self.cut_off: bool = False

    def tell(self, event: AgentStreamEvent | AgentRunResultEvent[str]) -> Iterator[TurnEvent]:
        match event:
            case PartStartEvent():
                yield from self._started(event)
            case PartDeltaEvent():
                yield from self._more(event)
            case PartEndEvent():
                yield from self._ended(event)
            case FunctionToolResultEvent():
                call_id = self._alias.get(event.tool_call_id, event.tool_call_id)
                yield CallOutput(call_id, event.part.model_response_str(wrap_if_error=False))
            case AgentRunResultEvent():
                last = event.result.all_messages()[-1]
                self.cut_off = isinstance(last, ModelResponse) and last.finish_reason == "length"
            case _:
                pass

    def _started(self, event: PartStartEvent) -> Iterator[TurnEvent]:
        match event.part:
            case TextPart(content=text) if text:
                yield TextDelta(text)
            case ThinkingPart(content=text) if text:
                yield ReasoningDelta(text)
            case ToolCallPart() as call:
                self._calls[event.index] = call.tool_call_id
                yield CallStarted(call.tool_call_id, call.tool_name)
                if call.args:
                    yield CallArguments(call.tool_call_id, _written(call))
            case _:
                pass

    def _more(self, event: PartDeltaEvent) -> Iterator[TurnEvent]:
        match event.delta:
            case TextPartDelta(content_delta=text) if text:
                yield TextDelta(text)
            case ThinkingPartDelta(content_delta=str(text)) if text:
                yield ReasoningDelta(text)
            case ToolCallPartDelta(args_delta=str(text)) if text and event.index in self._calls:
                yield CallArguments(self._calls[event.index], text)
            case _:
                pass

    def _ended(self, event: PartEndEvent) -> Iterator[TurnEvent]:
        match event.part:
            case TextPart():
                yield TextDone()
            case ThinkingPart():
                yield ReasoningDone()
            case ToolCallPart() as call if event.index in self._calls:
                call_id = self._calls.pop(event.index)
                # An endpoint may name the call only at its end.
                self._alias[call.tool_call_id] = call_id
                yield CallDone(call_id, _written(call))
            case _:
                pass


def _written(call: ToolCallPart) -> str:
    """A call's arguments as far as they came, as the model wrote them."""
    return call.args if isinstance(call.args, str) else call.args_as_json_str()
