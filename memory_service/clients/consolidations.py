"""Consolidation runs of the providers, and the marks that authz_service keeps."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC
from typing import Final, cast

import grpc

from memory_service.clients.provider import address_of, idempotency_of, reachable, record_of, writer_of
from memory_service.domain.consolidations import Change, ChangePage, Due, Run, RunPage, Starting
from memory_service.domain.model import Address, Page, Stamp
from protos.authz.v1 import authz_pb2
from protos.authz.v1.authz_pb2_grpc import TreeStub
from protos.common.v1 import consolidation_pb2
from protos.common.v1.common_pb2 import Page as WirePage
from protos.provider.v1 import consolidations_pb2 as wire
from protos.provider.v1.consolidations_pb2_grpc import ConsolidationsStub

__all__ = ["HOLDS_SAFE", "SAFE", "AuthzHolds", "GrpcRuns"]

SAFE: Final = tuple(
    f"grovekeeper.provider.v1.Consolidations/{method}"
    for method in ("ListRuns", "GetRun", "ListChanges", "ListDue")
)
"""What may be sent twice."""
HOLDS_SAFE: Final = tuple(f"grovekeeper.authz.v1.Tree/{method}" for method in ("HoldNode", "ReleaseNode"))
"""What may be sent twice: a mark is put on or taken off."""

_OPEN: Final = ("queued", "running")
_REVERT_S: Final = 25.0


class GrpcRuns:
    """The verbs of ``domain.consolidations.ProviderRuns``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = ConsolidationsStub(channel)

    async def start(self, address: Address, starting: Starting, stamp: Stamp) -> Run:
        request = wire.StartRunRequest(
            address=address_of(address),
            run_id=starting.run_id,
            trigger=starting.trigger,
            budget=cast("consolidation_pb2.Budget | None", starting.budget),
            asked_by=writer_of(stamp),
            idempotency=idempotency_of(stamp.idempotency),
        )
        async with reachable():
            return _run(await self._stub.StartRun(request))

    async def run(self, address: Address, run_id: str) -> Run:
        request = wire.GetRunRequest(address=address_of(address), run_id=run_id)
        async with reachable():
            return _run(await self._stub.GetRun(request))

    async def runs(self, address: Address, page: Page) -> RunPage:
        request = wire.ListRunsRequest(address=address_of(address), page=_page(page))
        async with reachable():
            answer = await self._stub.ListRuns(request)
        return RunPage(tuple(_run(one) for one in answer.runs), answer.next_cursor)

    async def changes(self, address: Address, run_id: str, page: Page) -> ChangePage:
        request = wire.ListChangesRequest(address=address_of(address), run_id=run_id, page=_page(page))
        async with reachable():
            answer = await self._stub.ListChanges(request)
        return ChangePage(
            tuple(Change(record_of(one.record), one) for one in answer.changes), answer.next_cursor
        )

    async def revert(self, address: Address, run_id: str, stamp: Stamp) -> Run:
        request = wire.RevertRunRequest(
            address=address_of(address),
            run_id=run_id,
            asked_by=writer_of(stamp),
            idempotency=idempotency_of(stamp.idempotency),
        )
        async with reachable():
            return _run(await self._stub.RevertRun(request, timeout=_REVERT_S))

    async def due(self) -> tuple[Due, ...]:
        async with reachable():
            answer = await self._stub.ListDue(wire.ListDueRequest())
        return tuple(
            Due(Address(one.address.provider, one.address.memory_id), one.trigger) for one in answer.due
        )


class AuthzHolds:
    """The verbs of ``domain.consolidations.Holds``. ``as_service`` is what the calls are made as."""

    def __init__(
        self, channel: grpc.aio.Channel, as_service: Callable[[], AbstractAsyncContextManager[object]]
    ) -> None:
        self._tree = TreeStub(channel)
        self._as_service = as_service

    async def hold(self, memory_id: str, holder: str, seconds: int) -> None:
        async with self._as_service():
            await self._tree.HoldNode(
                authz_pb2.HoldNodeRequest(memory_id=memory_id, holder=holder, ttl_seconds=seconds)
            )

    async def release(self, memory_id: str, holder: str) -> None:
        async with self._as_service():
            await self._tree.ReleaseNode(authz_pb2.ReleaseNodeRequest(memory_id=memory_id, holder=holder))


def _run(one: consolidation_pb2.ConsolidationRun) -> Run:
    finished_at = one.finished_at.ToDatetime(UTC) if one.HasField("finished_at") else None
    return Run(one.id, one.memory_id, one.status in _OPEN, finished_at, one)


def _page(page: Page) -> WirePage:
    return WirePage(limit=page.limit, cursor=page.cursor)
