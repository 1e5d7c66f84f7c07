"""The relay of this process: agents that are programs call models here, with a token of their turn and never a key.

Bodies pass as they are, in both directions. Only configured endpoints are ever asked, at the paths of their API.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import httpx
from opentelemetry import context as otel_context

from runner_service.domain.model import RelayAccess
from runner_service.loopback.server import Loopback, Receive, Scope, Send, header, refuse
from runner_service.loopback.tokens import TurnTokens, bearer
from runner_service.relay.call import Call
from runner_service.relay.turn import Turn
from runner_service.relay.upstream import Upstream

__all__ = ["RelayServer"]

_NAME: Final = "relay"
_CONNECT_S: Final = 10.0
_SEND_S: Final = 60.0
_CONNECTIONS: Final = 512


class RelayServer:
    """The verbs of ``domain.ports.Relay``. ``async with relay.serving(loopback):`` opens its door. ``idle_s``: longest
    silence of an endpoint.
    """

    def __init__(self, upstreams: Sequence[Upstream], idle_s: float) -> None:
        self._upstreams: Mapping[str, Upstream] = {one.api.kind: one for one in upstreams}
        self._tokens: TurnTokens[Turn] = TurnTokens("gr_")
        self._url: str = ""
        self._client: httpx.AsyncClient = httpx.AsyncClient(
            timeout=httpx.Timeout(idle_s, connect=_CONNECT_S, write=_SEND_S, pool=_CONNECT_S),
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=32),
            follow_redirects=False,
        )

    @asynccontextmanager
    async def serving(self, loopback: Loopback) -> AsyncGenerator[None]:
        """Serve at ``/relay`` of ``loopback`` inside the block."""
        self._url = f"{loopback.url}/{_NAME}"
        loopback.open(_NAME, self._enter)
        async with self._client:
            yield

    def kinds(self) -> frozenset[str]:
        return frozenset(self._upstreams)

    def models(self, kind: str) -> tuple[str, ...]:
        return self._upstreams[kind].models

    @asynccontextmanager
    async def open(self, session_id: str, response_id: str, model: str) -> AsyncGenerator[RelayAccess]:
        turn = Turn(session_id, response_id, model, otel_context.get_current())
        token = self._tokens.add(turn)
        urls = {kind: f"{self._url}/{kind}{one.api.prefix}" for kind, one in self._upstreams.items()}
        ledger = turn.ledger
        try:
            yield RelayAccess(
                urls=urls,
                token=token,
                usage=ledger.usage,
                failure=ledger.failure,
                calls=ledger.calls,
                limit=ledger.limit,
                stopped=ledger.stopped,
            )
        finally:
            self._tokens.remove(token)
            await turn.end()

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, _, kind, *rest = str(scope["path"]).split("/", 3)
        upstream = self._upstreams.get(kind)
        if upstream is None or not rest:
            await refuse(send, 404)
            return
        turn = self._turn(scope)
        call = Call(self._client, upstream, f"/{rest[0]}", scope, send)
        if turn is None:
            await call.refuse(401, "invalid_api_key", "This token is of no running turn.")
            return
        try:
            async with turn.running() as deadline:
                await call.run(turn, receive, deadline)
        except TimeoutError:
            # The turn is over, or the agent has left: an answer that has begun breaks off.
            await call.refuse(401, "invalid_api_key", "This token is of no running turn.")

    def _turn(self, scope: Scope) -> Turn | None:
        """Whose turn it is: each API's clients show their key in one of two ways, and some in both."""
        shown = (bearer(header(scope, b"authorization")), header(scope, b"x-api-key"))
        return next((turn for one in shown if (turn := self._tokens.find(one)) is not None), None)
