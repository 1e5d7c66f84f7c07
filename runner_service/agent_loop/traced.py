"""The spans inside a turn: ``chat {model}`` and ``execute_tool {tool}``. Never what was said."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from opentelemetry.trace import SpanKind, StatusCode
from pydantic_ai import RunContext
from pydantic_ai.mcp import CallToolFunc
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from runner_service.domain import measures
from service_kit import semconv, telemetry

__all__ = ["TracedModel", "traced_tool_call"]

_tracer: Final = telemetry.tracer(__name__)


class TracedModel(WrapperModel):
    """A model whose streamed calls are spans. ``counted``: whether its usage is what an endpoint said."""

    def __init__(self, wrapped: Model[Any], provider: str, *, counted: bool) -> None:
        super().__init__(wrapped)
        self._provider_name: str = provider
        self._counted: bool = counted

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        attributes = {
            semconv.GEN_AI_OPERATION_NAME: semconv.CHAT,
            semconv.GEN_AI_PROVIDER_NAME: self._provider_name,
            semconv.GEN_AI_REQUEST_MODEL: self.model_name,
        }
        started = time.perf_counter()
        with _tracer.start_as_current_span(
            f"{semconv.CHAT} {self.model_name}",
            kind=SpanKind.CLIENT,
            attributes={**attributes, semconv.GEN_AI_REQUEST_STREAM: True},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                async with super().request_stream(
                    messages, model_settings, model_request_parameters, run_context
                ) as response:
                    yield response
                    if response.model_name:
                        span.set_attribute(semconv.GEN_AI_RESPONSE_MODEL, response.model_name)
                    if response.finish_reason:
                        span.set_attribute(semconv.GEN_AI_RESPONSE_FINISH_REASONS, [response.finish_reason])
                    if self._counted and response.usage.has_values():
                        usage = response.usage
                        span.set_attribute(semconv.GEN_AI_USAGE_INPUT_TOKENS, usage.input_tokens)
                        span.set_attribute(semconv.GEN_AI_USAGE_OUTPUT_TOKENS, usage.output_tokens)
            except Exception as error:
                attributes[semconv.ERROR_TYPE] = type(error).__name__
                span.set_attribute(semconv.ERROR_TYPE, type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                measures.model_called(time.perf_counter() - started, attributes)


async def traced_tool_call(
    context: RunContext[Any], call: CallToolFunc, name: str, arguments: dict[str, Any]
) -> Any:
    """Carry out a tool call inside its span; the MCP client carries the trace on in ``params._meta``."""
    with _tracer.start_as_current_span(
        f"{semconv.EXECUTE_TOOL} {name}",
        kind=SpanKind.INTERNAL,
        attributes={
            semconv.GEN_AI_OPERATION_NAME: semconv.EXECUTE_TOOL,
            semconv.GEN_AI_TOOL_NAME: name,
            semconv.GEN_AI_TOOL_CALL_ID: context.tool_call_id or "",
        },
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            return await call(name, arguments)
        except Exception as error:
            span.set_attribute(semconv.ERROR_TYPE, type(error).__name__)
            span.set_status(StatusCode.ERROR)
            raise
