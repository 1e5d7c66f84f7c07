"""One request of an agent, and what becomes of it."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, cast

import httpx
import msgspec

from runner_service.domain.model_failures import Trouble, told, trouble_of
from runner_service.loopback.server import Receive, Scope, Send, header, whole
from runner_service.relay import measures
from runner_service.relay.ledger import Called
from runner_service.relay.measures import CallMeasure
from runner_service.relay.reading import Reading
from runner_service.relay.turn import Turn, cut
from runner_service.relay.upstream import Headers, Upstream, for_agent, for_upstream

__all__ = ["Call"]

_log: Final = logging.getLogger(__name__)

_MAX_BODY: Final = 32 * 1024 * 1024
"""The most Anthropic takes; OpenAI takes less as JSON."""
_BODY_S: Final = 60.0
"""How long an agent may take to send its body."""
_MODELS: Final = "/v1/models"
_MODEL: Final = re.compile(rf"{_MODELS}(/[A-Za-z0-9][A-Za-z0-9._:@-]{{0,127}}){{1,3}}")
_JSON: Final = (b"content-type", b"application/json")


class _Asked(msgspec.Struct):
    """What of a request is looked at."""

    model: str = ""
    stream: bool | None = None


_asked: Final = msgspec.json.Decoder(_Asked)


class _RefusedError(Exception):
    """The request is answered here: it is not passed on, or nothing usable came back."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status: int = status
        self.code: str = code
        self.message: str = message


class _RedirectedError(_RefusedError):
    """The endpoint says to ask elsewhere, which nobody does: an agent would follow with its token."""

    def __init__(self, status: int) -> None:
        super().__init__(502, "upstream_unavailable", f"{Trouble.UNUSABLE} (status {status}).")
        self.redirect: int = status


_NOT_ASKED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""The endpoint never got the call, so it cost nothing."""


class Call:
    """Made for one request at ``path`` of an API; ``run`` answers it, or ``refuse`` does."""

    def __init__(
        self, client: httpx.AsyncClient, upstream: Upstream, path: str, scope: Scope, send: Send
    ) -> None:
        self._client: httpx.AsyncClient = client
        self._upstream: Upstream = upstream
        self._path: str = path
        self._scope: Scope = scope
        self._send: Send = send
        self._begun: bool = False

    async def refuse(self, status: int, code: str, message: str) -> None:
        """An error in the API's own shape; nothing when an answer has begun, which then breaks off."""
        if not self._begun:
            await self._answer(status, self._upstream.api.refusal(status, code, message))

    async def run(self, turn: Turn, receive: Receive, deadline: asyncio.Timeout) -> None:
        """Answer. Moves ``deadline`` to now when the agent leaves."""
        try:
            await self._run(turn, receive, deadline)
        except _RefusedError as refused:
            await self.refuse(refused.status, refused.code, refused.message)

    async def _run(self, turn: Turn, receive: Receive, deadline: asyncio.Timeout) -> None:
        api, method = self._upstream.api, self._scope["method"]
        if method == "GET" and self._path == _MODELS and self._upstream.models:
            await self._answer(200, api.listing(self._upstream.models))
        elif method == "GET" and (self._path == _MODELS or _MODEL.fullmatch(self._path)):
            async with turn.at_once, _heeding(receive, deadline):
                await self._pass_on(None)
        elif method == "POST" and self._path in (api.generate, *api.beside):
            async with turn.at_once:
                await turn.bodies.acquire()
                body = _Body(turn.bodies)
                try:
                    await body.read(self._scope, receive)
                    asked = self._asked(turn, body.data)
                    async with _heeding(receive, deadline):
                        if self._path == api.generate:
                            await self._generate(turn, asked, body)
                        else:
                            await self._pass_on(body)
                finally:
                    body.drop()
        else:
            raise _RefusedError(404, "not_found", "The relay does not offer this.")

    def _asked(self, turn: Turn, body: bytes) -> _Asked:
        """What is asked for; raises where it is not to be passed on."""
        try:
            asked = _asked.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _RefusedError(400, "invalid_json", "The body is not a JSON object of this API.") from None
        if self._upstream.models and asked.model not in (turn.model, *self._upstream.models):
            raise _RefusedError(404, "model_not_found", "This server does not offer that model to agents.")
        return asked

    async def _generate(self, turn: Turn, asked: _Asked, body: "_Body") -> None:
        """A call that costs tokens: it is traced, and entered in the turn's ledger, however it ends."""
        if spent := turn.ledger.spent():
            raise _RefusedError(400, spent, f"The turn's budget is spent: {spent}. No more calls are made.")
        api, model = self._upstream.api, asked.model[:256]
        turn.ledger.begun((api.kind, model))
        called = Called()
        turn_is = (turn.session_id, turn.response_id)
        try:
            with measures.call(api, model, turn_is, turn.context, streamed=bool(asked.stream)) as measure:
                await self._called(body, called, measure)
        finally:
            turn.ledger.ended((api.kind, model), called)

    async def _called(self, body: "_Body", called: Called, measure: CallMeasure) -> None:
        """Call, hand on the answer, and note in ``called`` what becomes of it."""
        try:
            async with self._asking(body) as response:
                measure.status(response.status_code)
                called.status = response.status_code
                called.reading = reading = Reading(self._upstream.api, streamed=_is_stream(response))
                async for data in self._answered(response):
                    measure.heard()
                    reading.feed(data)
                    await self._piece(data)
                reading.end()
                await self._last()
            called.whole = True
            if response.status_code >= 400 or reading.error:
                trouble = trouble_of(response.status_code, reading.error)
                shown = response.status_code if response.status_code >= 400 else None
                called.failure = told(trouble, shown, reading.error)
        except httpx.HTTPError as error:
            called.failure = told(_trouble(error))
            called.asked = not isinstance(error, _NOT_ASKED)
            raise _unanswered(error) from None
        except _RedirectedError as redirected:
            called.status = redirected.redirect
            called.failure = told(Trouble.UNUSABLE, redirected.redirect)
            raise
        finally:
            measure.ended(called)
            if called.failure is not None:
                _log.warning("a model call failed: %s", called.failure.message)

    async def _pass_on(self, body: "_Body | None") -> None:
        """A request that costs nothing."""
        try:
            async with self._asking(body) as response:
                async for data in self._answered(response):
                    await self._piece(data)
                await self._last()
        except httpx.HTTPError as error:
            raise _unanswered(error) from None

    @asynccontextmanager
    async def _asking(self, body: "_Body | None") -> AsyncGenerator[httpx.Response]:
        """The endpoint's answer, its body still to come. ``httpx.HTTPError``, ``_RedirectedError``."""
        size = None if body is None else len(body.data)
        headers = cast("Headers", self._scope["headers"])
        request = httpx.Request(
            self._scope["method"],
            self._upstream.at(self._path, self._scope["query_string"]),
            headers=for_upstream(self._upstream, headers, size),
            content=None if body is None else body.sent(),
            extensions={"timeout": self._client.timeout.as_dict()},
        )
        response = await self._client.send(request, stream=True)
        try:
            if 300 <= response.status_code < 400:
                raise _RedirectedError(response.status_code)
            yield response
        finally:
            await response.aclose()

    async def _answered(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """Begin the answer as the endpoint began it; then its bytes, as they come."""
        await self._start(response.status_code, for_agent(response))
        async for data in response.aiter_raw():
            yield data

    async def _piece(self, data: bytes) -> None:
        """More of the answer. Waits while the agent does not take it, and so does the endpoint."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _last(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _answer(self, status: int, body: bytes) -> None:
        await self._start(status, [_JSON, (b"content-length", b"%d" % len(body))])
        await self._send({"type": "http.response.body", "body": body})

    async def _start(self, status: int, headers: Headers) -> None:
        self._begun = True
        measures.answered(self._upstream.api, status)
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


class _Body:
    """A request's body, from when it comes until the endpoint has it: it is not kept for the length of an answer."""

    def __init__(self, room: asyncio.Semaphore) -> None:
        self._room: asyncio.Semaphore | None = room
        self.data: bytes = b""

    async def read(self, scope: Scope, receive: Receive) -> None:
        if header(scope, b"content-encoding") not in (None, "identity"):
            raise _RefusedError(415, "unsupported_encoding", "Send the body without a content encoding.")
        try:
            async with asyncio.timeout(_BODY_S):
                data = await whole(receive, _MAX_BODY)
        except TimeoutError:
            raise _RefusedError(408, "timeout", "The body did not come in time.") from None
        if data is None:
            raise _RefusedError(413, "request_too_large", f"A request has at most {_MAX_BODY} bytes.")
        self.data = data

    async def sent(self) -> AsyncGenerator[bytes]:
        """The body, once. It is dropped when it is with the endpoint."""
        yield self.data
        self.drop()

    def drop(self) -> None:
        """Make room for another one."""
        self.data = b""
        if self._room is not None:
            self._room.release()
            self._room = None


@asynccontextmanager
async def _heeding(receive: Receive, deadline: asyncio.Timeout) -> AsyncGenerator[None]:
    """Move ``deadline`` to now if the agent leaves while the block runs: nobody pays for what nobody reads."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        cut(deadline)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


def _is_stream(response: httpx.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _trouble(error: httpx.HTTPError) -> Trouble:
    waited = isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout)
    return Trouble.TIMEOUT if waited else Trouble.UNREACHABLE


def _unanswered(error: httpx.HTTPError) -> _RefusedError:
    """What the agent is told when no answer came: never the error's own words, which name the endpoint."""
    trouble = _trouble(error)
    status = 504 if trouble is Trouble.TIMEOUT else 502
    return _RefusedError(status, "upstream_unavailable", f"{trouble}.")
