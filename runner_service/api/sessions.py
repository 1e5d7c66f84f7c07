"""The RPCs of protos/runner/v1/sessions.proto: convert, call the use case, convert."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import ServicerContext

from protos.runner.v1 import sessions_pb2 as wire
from protos.runner.v1.sessions_pb2_grpc import SessionsServicer as SessionsBase
from runner_service.domain.session_ports import Overview
from runner_service.domain.sessions import Sessions

__all__ = ["SessionsServicer"]

Context = ServicerContext[Any, Any]


class SessionsServicer(SessionsBase):
    """Sessions, listed, read and deleted."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions: Sessions = sessions

    async def ListSessions(
        self, request: wire.ListSessionsRequest, context: Context
    ) -> wire.ListSessionsResponse:
        page = request.page
        found, following = await self._sessions.list(request.harness_id, page.limit, page.cursor)
        return wire.ListSessionsResponse(sessions=[_session(one) for one in found], next_cursor=following)

    async def GetSession(self, request: wire.GetSessionRequest, context: Context) -> wire.Session:
        return _session(await self._sessions.get(request.id))

    async def ListTurns(self, request: wire.ListTurnsRequest, context: Context) -> wire.ListTurnsResponse:
        page = request.page
        found, following = await self._sessions.turns(request.session_id, page.limit, page.cursor)
        return wire.ListTurnsResponse(turns=found, next_cursor=following)

    async def DeleteSession(
        self, request: wire.DeleteSessionRequest, context: Context
    ) -> wire.DeleteSessionResponse:
        await self._sessions.delete(request.id)
        return wire.DeleteSessionResponse(id=request.id)


def _session(found: Overview) -> wire.Session:
    created_at, updated_at = Timestamp(), Timestamp()
    created_at.FromDatetime(found.created_at)
    updated_at.FromDatetime(found.updated_at)
    return wire.Session(
        id=found.id,
        harness_id=found.harness_id,
        title=found.title,
        status=found.status.wire,
        created_at=created_at,
        updated_at=updated_at,
    )
