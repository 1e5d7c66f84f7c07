"""Links of sessions, of runner_service."""

from typing import Final

import grpc

from gateway.clients.convert import cursor, page
from gateway.schemas import shares as schema
from protos.runner.v1 import sessions_pb2, sessions_pb2_grpc

__all__ = ["SAFE", "SharesClient"]

SAFE: Final = tuple(
    f"grovekeeper.runner.v1.Shares/{method}"
    for method in ("ShareSession", "GetShare", "RevokeShare", "OpenShare")
)
"""Methods that may be sent twice."""


class SharesClient:
    """Publishing sessions, and reading what is published."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._shares = sessions_pb2_grpc.SharesStub(channel)

    async def share(self, session_id: str) -> schema.Share:
        """Publish a session."""
        request = sessions_pb2.ShareSessionRequest(session_id=session_id)
        return _share(session_id, await self._shares.ShareSession(request))

    async def get(self, session_id: str) -> schema.Share:
        """The link of a session that is published."""
        request = sessions_pb2.GetShareRequest(session_id=session_id)
        return _share(session_id, await self._shares.GetShare(request))

    async def revoke(self, session_id: str) -> schema.DeletedShare:
        """Take back every link of a session."""
        answer = await self._shares.RevokeShare(sessions_pb2.RevokeShareRequest(session_id=session_id))
        return schema.DeletedShare(session_id=answer.session_id)

    async def open(self, share_id: str, asked: schema.OpenShare) -> schema.View:
        """What a link shows, for whoever has it."""
        request = sessions_pb2.OpenShareRequest(share_id=share_id, page=page(asked.limit, asked.cursor))
        found = await self._shares.OpenShare(request)
        return schema.View(
            title=found.title,
            created_at=found.created_at.seconds,
            updated_at=found.updated_at.seconds,
            turns=list(found.turns),
            next_cursor=cursor(found.next_cursor),
        )


def _share(session_id: str, message: sessions_pb2.Share) -> schema.Share:
    return schema.Share(id=message.id, session_id=session_id, url=schema.LINK + message.id)
