"""Sessions, of runner_service."""

from typing import Final

import grpc

from gateway.clients.convert import cursor, page
from gateway.schemas import sessions as schema
from protos.runner.v1 import sessions_pb2, sessions_pb2_grpc

__all__ = ["SAFE", "SessionsClient"]

SAFE: Final = tuple(
    f"grovekeeper.runner.v1.Sessions/{method}" for method in ("ListSessions", "GetSession", "ListTurns")
)
"""Methods that may be sent twice."""


class SessionsClient:
    """The caller's sessions."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._sessions = sessions_pb2_grpc.SessionsStub(channel)

    async def list(self, asked: schema.ListSessions) -> schema.Sessions:
        """A page of sessions, newest first."""
        request = sessions_pb2.ListSessionsRequest(
            harness_id=asked.harness, page=page(asked.limit, asked.cursor)
        )
        answer = await self._sessions.ListSessions(request)
        return schema.Sessions(
            sessions=[_session(one) for one in answer.sessions], next_cursor=cursor(answer.next_cursor)
        )

    async def get(self, session_id: str) -> schema.Session:
        """One session."""
        return _session(await self._sessions.GetSession(sessions_pb2.GetSessionRequest(id=session_id)))

    async def turns(self, session_id: str, asked: schema.ListTurns) -> bytes:
        """A page of a session's turns, oldest first, as JSON."""
        request = sessions_pb2.ListTurnsRequest(session_id=session_id, page=page(asked.limit, asked.cursor))
        answer = await self._sessions.ListTurns(request)
        return schema.turns(list(answer.turns), cursor(answer.next_cursor))

    async def delete(self, session_id: str) -> schema.DeletedSession:
        """Cancel what runs in a session, and delete it with everything of it."""
        answer = await self._sessions.DeleteSession(sessions_pb2.DeleteSessionRequest(id=session_id))
        return schema.DeletedSession(id=answer.id)


def _session(message: sessions_pb2.Session) -> schema.Session:
    return schema.Session(
        id=message.id,
        harness_id=message.harness_id,
        title=message.title,
        status=message.status,
        created_at=message.created_at.seconds,
        updated_at=message.updated_at.seconds,
    )
