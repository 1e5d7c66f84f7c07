"""A chat model behind an OpenAI-compatible ``POST /chat/completions`` that answers with JSON of a given schema."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from provider_workers.adapters.native.endpoint import AwayError, Caller, RefusedError, RetryPolicy
from provider_workers.adapters.native.observed import observed
from service_kit import semconv, telemetry

__all__ = ["ChatEndpoint", "ChatModel", "Reply", "UnusableError"]

_RETRY: Final = RetryPolicy(
    attempts=2, timeout=60.0, first_wait=0.5, longest_wait=5.0, total=130.0, obey=True
)
_ABOUT_THE_REQUEST: Final = frozenset({400, 413, 422})
"""Refusals that are the request's fault. Of a wrong key or a wrong address no request would fare better."""

_tokens: Final = telemetry.meter(__name__).create_histogram(
    semconv.GEN_AI_CLIENT_TOKEN_USAGE, unit="{token}", description="Tokens of a call to a model."
)


class UnusableError(Exception):
    """The model answered, and not with what was asked for; ``tokens``: what that cost, input and output."""

    def __init__(self, why: str, tokens: tuple[int, int] = (0, 0)) -> None:
        super().__init__(why)
        self.tokens: tuple[int, int] = tokens


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """``base_url`` ends before ``/chat/completions``."""

    base_url: str
    model: str
    api_key: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said, JSON text, and the tokens of it and of what it read."""

    text: str
    tokens: tuple[int, int]


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class ChatModel:
    """One model at one endpoint."""

    def __init__(self, endpoint: ChatEndpoint, retry: RetryPolicy | None = None) -> None:
        self.name: str = endpoint.model
        url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
        self._caller = Caller(url, name="derivation service", api_key=endpoint.api_key, retry=retry or _RETRY)
        # OpenAI's own field for a budget of tokens is not known to most of those who speak its protocol.
        own = (urlsplit(url).hostname or "").endswith(("openai.com", "openai.azure.com"))
        self._most = "max_completion_tokens" if own else "max_tokens"

    async def ask(self, system: str, user: str, schema: dict[str, Any], most_tokens: int) -> Reply:
        """One answer of at most ``most_tokens``. Raises :class:`AwayError`; :class:`UnusableError` when the request
        is refused, the answer was cut short, or it is no answer.
        """
        body = {
            "model": self.name,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "facts", "strict": True, "schema": schema},
            },
            self._most: most_tokens,
        }
        try:
            with observed(semconv.CHAT, "openai", self.name):
                raw = await self._caller.post(body)
        except RefusedError as error:
            if error.status in _ABOUT_THE_REQUEST:
                raise UnusableError(error.message) from None
            raise AwayError(error.code, error.message) from None
        return self._read(raw, len(system) + len(user))

    async def aclose(self) -> None:
        await self._caller.aclose()

    def _read(self, raw: bytes, asked: int) -> Reply:
        try:
            answer = msgspec.json.decode(raw, type=_Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise UnusableError("The answer cannot be read.") from None
        # A service that does not count is counted for: four characters a token.
        usage = answer.usage or _Usage(asked // 4, len(raw) // 4)
        tokens = (max(0, usage.prompt_tokens), max(0, usage.completion_tokens))
        self._count(tokens)
        if not answer.choices or not answer.choices[0].message.content:
            raise UnusableError("There is no answer.", tokens)
        if answer.choices[0].finish_reason not in (None, "stop"):
            raise UnusableError("The answer was cut short.", tokens)
        return Reply(answer.choices[0].message.content, tokens)

    def _count(self, tokens: tuple[int, int]) -> None:
        for kind, count in zip(("input", "output"), tokens, strict=True):
            _tokens.record(
                count,
                {
                    semconv.GEN_AI_OPERATION_NAME: semconv.CHAT,
                    semconv.GEN_AI_PROVIDER_NAME: "openai",
                    semconv.GEN_AI_REQUEST_MODEL: self.name,
                    semconv.GEN_AI_TOKEN_TYPE: kind,
                },
            )
