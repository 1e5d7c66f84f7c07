"""The base in this process: an agent loop over any OpenAI-compatible Chat Completions endpoint.

The endpoint's key stays in the client object below: it is in no event, no log line and no span.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from openai import APIConnectionError, APIError, AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from runner_service.agent_loop.loop import run_agent
from runner_service.domain.model import Model, TurnRequest
from runner_service.domain.turn_events import TurnEvent

__all__ = ["Endpoint", "LoopBase"]

_LIST_S: Final = 3.0
_FRESH_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model is. ``key`` may be empty: some endpoints want none."""

    url: str
    key: str = field(repr=False)
    model: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """What the endpoint said of its models: whether it answered, and the names, if it lists any."""

    reachable: bool
    names: tuple[str, ...] = ()


class LoopBase:
    """The verbs of ``domain.ports.Base``. ``most_history``: characters of earlier turns the model is shown."""

    name: str = "loop"
    label: str = "Built-in agent loop"
    provider: str = "openai"

    def __init__(self, endpoint: Endpoint, most_history: int) -> None:
        self._most_history: int = most_history
        self.default_model: str = endpoint.model
        self._client: AsyncOpenAI = AsyncOpenAI(base_url=endpoint.url, api_key=endpoint.key or "none")
        # OpenAI's own field for a budget of tokens is not known to most of those who speak its protocol.
        own = self._client.base_url.host.endswith(("openai.com", "openai.azure.com"))
        self._profile: OpenAIModelProfile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=own)
        self._known: tuple[float, _Listing] | None = None
        self._looking: asyncio.Lock = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        await self._client.close()

    async def models(self) -> tuple[Model, ...]:
        listing = await self._listing()
        names = dict.fromkeys((self.default_model, *listing.names))
        return tuple(
            Model(
                one,
                one,
                self.name,
                # One that lists nothing may still serve what it was configured with.
                available=listing.reachable and (not listing.names or one in listing.names),
                is_default=one == self.default_model,
            )
            for one in names
        )

    async def serves(self, model: str) -> bool:
        return model == self.default_model or model in (await self._listing()).names

    def run(self, request: TurnRequest) -> AsyncGenerator[TurnEvent]:
        model = OpenAIChatModel(
            request.model, provider=OpenAIProvider(openai_client=self._client), profile=self._profile
        )
        return run_agent(model, request, self.provider, counted=True, most_history=self._most_history)

    async def _listing(self) -> _Listing:
        """What ``GET /models`` says, at most some seconds old."""
        async with self._looking:
            if self._known is not None and time.monotonic() - self._known[0] < _FRESH_S:
                return self._known[1]
            listing = await self._look()
            self._known = time.monotonic(), listing
            return listing

    async def _look(self) -> _Listing:
        try:
            page = await self._client.with_options(timeout=_LIST_S, max_retries=0).models.list()
            return _Listing(reachable=True, names=tuple(one.id for one in page.data))
        except APIConnectionError:
            return _Listing(reachable=False)
        except APIError:
            # It answered, and lists nothing.
            return _Listing(reachable=True)
