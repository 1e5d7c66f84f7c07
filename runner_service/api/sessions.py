"""The RPCs of protos/runner/v1/sessions.proto: convert, call the use case, convert."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import ServicerContext

from protos.runner.v1 import sessions_pb2 as wire
from protos.runner.v1.runner_pb2 import EventBatch
from protos.runner.v1.sessions_pb2_grpc import FeedsServicer as FeedsBase
from protos.runner.v1.sessions_pb2_grpc import SessionsServicer as SessionsBase
from protos.runner.v1.sessions_pb2_grpc import SharesServicer as SharesBase
from runner_service.api import convert
from runner_service.domain.feed import Feed, TakenUp
from runner_service.domain.session_ports import Overview
from runner_service.domain.sessions import Sessions
from runner_service.domain.shares import Shares

__all__ = ["PUBLIC", "FeedsServicer", "SessionsServicer", "SharesServicer"]

PUBLIC: Final = frozenset({"grovekeeper.runner.v1.Shares/OpenShare"})
"""Methods for whoever has a link: they need no passport."""

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


class SharesServicer(SharesBase):
    """Links of sessions, and what they show."""

    def __init__(self, shares: Shares) -> None:
        self._shares: Shares = shares

    async def ShareSession(self, request: wire.ShareSessionRequest, context: Context) -> wire.Share:
        return wire.Share(id=await self._shares.share(request.session_id))

    async def GetShare(self, request: wire.GetShareRequest, context: Context) -> wire.Share:
        return wire.Share(id=await self._shares.get(request.session_id))

    async def RevokeShare(
        self, request: wire.RevokeShareRequest, context: Context
    ) -> wire.RevokeShareResponse:
        await self._shares.revoke(request.session_id)
        return wire.RevokeShareResponse(session_id=request.session_id)

    async def OpenShare(self, request: wire.OpenShareRequest, context: Context) -> wire.SharedView:
        page = request.page
        view = await self._shares.open(request.share_id, page.limit, page.cursor)
        made = wire.SharedView(title=view.session.title, turns=view.turns, next_cursor=view.next_cursor)
        made.created_at.FromDatetime(view.session.created_at)
        made.updated_at.FromDatetime(view.session.updated_at)
        return made


class FeedsServicer(FeedsBase):
    """Harnesses, followed live."""

    def __init__(self, feed: Feed) -> None:
        self._feed: Feed = feed

    async def FollowHarness(
        self, request: wire.FollowHarnessRequest, context: Context
    ) -> AsyncGenerator[wire.Fed]:
        feed = self._feed.follow(request.harness_id, _taken_up(request))
        async with aclosing(feed) as ready:
            async for one in ready:
                for batch in convert.batches(one.events) if one.events else (EventBatch(),):
                    made = wire.Fed(
                        response_id=one.response_id, session_id=one.session_id, events=batch.events
                    )
                    made.at.FromDatetime(one.at)
                    yield made


def _taken_up(request: wire.FollowHarnessRequest) -> TakenUp | None:
    if not request.HasField("since"):
        return None
    return TakenUp(request.began.ToDatetime(UTC), request.since.ToDatetime(UTC), dict(request.positions))


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
