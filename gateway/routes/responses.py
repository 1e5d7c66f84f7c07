"""``/v1/responses`` (UHP Tasks, Streaming)."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.clients.responses import ResponsesClient
from gateway.errors import invalid
from gateway.http import answer, body, idempotency, query, raw_answer, renewal
from gateway.openapi import KEY, LAST_EVENT_ID, describe
from gateway.schemas import responses as schema
from gateway.sse import stream
from service_kit.errors import GroveError

__all__ = ["routes"]

_RESPONSE = "/v1/responses/{response_id}"
_EVENTS = "text/event-stream"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_START: Final = -1
_TASK: Final = (
    "harness_not_found",
    "response_not_found",
    "session_expired",
    "memory_not_found",
    "memory_invalid",
    "memory_unavailable",
    "harness_mismatch",
    "session_busy",
    "model_unavailable",
)


def routes(on: FastAPI, responses: ResponsesClient, keepalive_s: float) -> None:
    """Tasks."""

    @on.post(
        "/v1/responses",
        openapi_extra=describe(
            schema.ResponseObject,
            body=schema.CreateResponse,
            also=_EVENTS,
            headers=(KEY, LAST_EVENT_ID),
            errors=_TASK,
        ),
    )
    async def create_response(request: Request) -> Response:
        """Run a task: its events as they happen, its result, or at once in the background."""
        asked, raw = await body(request, schema.CreateResponse)
        _check_input(asked)
        key, renew = idempotency(request, raw), renewal(request)
        made = await responses.create(asked, schema.ignored_fields(raw), key)
        if asked.stream:
            # Only a repeated request has events that its client may already have seen.
            after = _last_event(request) if key.key else _START
            return stream(responses.follow(made.id, after, renew), keepalive_s)
        if not (asked.background or made.terminal):
            ended = await _end_of(request, responses.follow(made.id, _START, renew))
            await renew()
            # Not read again: a response that is not to be stored is gone once it has ended.
            return raw_answer(ended.response)
        return raw_answer(made.json)

    @on.get(
        _RESPONSE,
        openapi_extra=describe(
            schema.ResponseObject, query=schema.ReadResponse, also=_EVENTS, headers=(LAST_EVENT_ID,)
        ),
    )
    async def get_response(request: Request, response_id: str) -> Response:
        """A response as it stands; with ``stream=true`` its events, from the start or after a number."""
        asked = query(request, schema.ReadResponse)
        found = await responses.get(response_id)
        if not asked.stream:
            return raw_answer(found.json)
        after = _last_event(request) if asked.starting_after is None else asked.starting_after
        return stream(responses.follow(response_id, after, renewal(request)), keepalive_s)

    @on.post(f"{_RESPONSE}/cancel", openapi_extra=describe(schema.ResponseObject))
    async def cancel_response(response_id: str) -> Response:
        """Stop a task; what it wrote so far is kept."""
        return raw_answer((await responses.cancel(response_id)).json)

    @on.get(f"{_RESPONSE}/input_items", openapi_extra=describe(schema.InputItems))
    async def list_input_items(response_id: str) -> Response:
        """What a task was asked, as items."""
        return raw_answer(await responses.input_items(response_id))

    @on.delete(_RESPONSE, openapi_extra=describe(schema.DeletedResponse, errors=("session_busy",)))
    async def delete_response(response_id: str) -> Response:
        """Delete a response that has ended; its session goes with the last one."""
        return answer(await responses.delete(response_id))


def _check_input(asked: schema.CreateResponse) -> None:
    if not bytes(asked.input).startswith((b'"', b"[")):
        raise invalid("input must be a text or a list of items.", "input")


def _last_event(request: Request) -> int:
    """The number in ``Last-Event-ID``, after which a stream is taken up again; -1 without one."""
    header = request.headers.get("last-event-id")
    if not header:
        return _START
    if _NUMBER.fullmatch(header) is None:
        raise invalid("Last-Event-ID is the number of an event.", "Last-Event-ID")
    return int(header)


async def _end_of(request: Request, events: AsyncGenerator[list[schema.Event]]) -> schema.Event:
    """The terminal event, waited for. A client that leaves ends the waiting, never the work."""
    waiting = asyncio.create_task(_last(events))
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnect
        return await waiting
    finally:
        for task in (waiting, leaving):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(waiting, leaving, return_exceptions=True)


async def _last(events: AsyncGenerator[list[schema.Event]]) -> schema.Event:
    last: schema.Event | None = None
    async with aclosing(events):
        async for batch in events:
            last = batch[-1]
    if last is None or not last.terminal:
        raise GroveError("grovekeeper_unavailable", "The events of this response broke off.")
    return last


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
