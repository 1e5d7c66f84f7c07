"""``/v1/sessions`` and the live feed of a harness (UHP Sessions, Streaming)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.feeds import FeedsClient
from gateway.clients.harnesses import HarnessesClient
from gateway.clients.responses import ResponsesClient
from gateway.clients.sessions import SessionsClient
from gateway.http import answer, query, raw_answer, renewal
from gateway.openapi import describe
from gateway.schemas import responses as responses_schema
from gateway.schemas import sessions as schema
from gateway.sse import stream

__all__ = ["feeds", "routes"]

_SESSION = "/v1/sessions/{session_id}"


def routes(on: FastAPI, sessions: SessionsClient, responses: ResponsesClient) -> None:
    """Sessions of the caller."""

    @on.get("/v1/sessions", openapi_extra=describe(schema.Sessions, query=schema.ListSessions))
    async def list_sessions(request: Request) -> Response:
        """The caller's sessions, newest first."""
        return answer(await sessions.list(query(request, schema.ListSessions)))

    @on.get(_SESSION, openapi_extra=describe(schema.Session))
    async def get_session(session_id: str) -> Response:
        """One session."""
        return answer(await sessions.get(session_id))

    @on.get(f"{_SESSION}/turns", openapi_extra=describe(schema.Turns, query=schema.ListTurns))
    async def list_turns(request: Request, session_id: str) -> Response:
        """What was asked and answered in a session, oldest first."""
        return raw_answer(await sessions.turns(session_id, query(request, schema.ListTurns)))

    @on.post(f"{_SESSION}/cancel", openapi_extra=describe(responses_schema.CancelledSession))
    async def cancel_session(session_id: str) -> Response:
        """Stop whatever runs in a session; it can be continued."""
        return answer(await responses.cancel_session(session_id))

    @on.delete(_SESSION, openapi_extra=describe(schema.DeletedSession))
    async def delete_session(session_id: str) -> Response:
        """Cancel what runs in a session, and delete it with everything of it."""
        return answer(await sessions.delete(session_id))

    @on.delete("/v1/traces/{session_id}", openapi_extra=describe(schema.DeletedSession))
    async def delete_trace(session_id: str) -> Response:
        """The same by its older name."""
        return answer(await sessions.delete(session_id))


def feeds(on: FastAPI, harnesses: HarnessesClient, live: FeedsClient, keepalive_s: float) -> None:
    """What happens on a harness."""

    @on.get(
        "/v1/harnesses/{harness_id}/events",
        openapi_extra=describe(None, also="text/event-stream"),
    )
    async def follow_harness(request: Request, harness_id: str) -> Response:
        """The events of every task on a harness, as they happen; without an end."""
        # A refusal is an answer of its own, before any stream begins.
        await harnesses.get(harness_id)
        return stream(live.follow(harness_id, renewal(request)), keepalive_s, numbered=False)
