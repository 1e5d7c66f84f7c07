"""The RPCs of protos/memory/v1/consolidations.proto: convert, call the use case, convert."""

from typing import Any, cast

from grpc.aio import ServicerContext

from memory_service.api import convert
from memory_service.domain.consolidations import Change, Consolidations, Run
from protos.common.v1 import consolidation_pb2
from protos.memory.v1 import consolidations_pb2 as wire
from protos.memory.v1.consolidations_pb2_grpc import ConsolidationsServicer as Base

Context = ServicerContext[Any, Any]


class ConsolidationsServicer(Base):
    """Background work that rewrites a memory, as runs."""

    def __init__(self, consolidations: Consolidations) -> None:
        self._consolidations = consolidations

    async def StartRun(
        self, request: wire.StartRunRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRun:
        budget = request.budget if request.HasField("budget") else None
        key = convert.idempotency(request.idempotency)
        return _run(await self._consolidations.start(request.memory_id, budget, key))

    async def ListRuns(
        self, request: wire.ListRunsRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRuns:
        found = await self._consolidations.list(request.memory_id, convert.page(request.page))
        return consolidation_pb2.ConsolidationRuns(
            runs=[_run(one) for one in found.runs], next_cursor=found.next_cursor
        )

    async def GetRun(
        self, request: wire.GetRunRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRun:
        return _run(await self._consolidations.get(request.memory_id, request.run_id))

    async def ListChanges(
        self, request: wire.ListChangesRequest, context: Context
    ) -> consolidation_pb2.ConsolidationChanges:
        page = convert.page(request.page)
        found = await self._consolidations.changes(request.memory_id, request.run_id, page)
        return consolidation_pb2.ConsolidationChanges(
            changes=[_change(one) for one in found.changes], next_cursor=found.next_cursor
        )

    async def RevertRun(
        self, request: wire.RevertRunRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRun:
        key = convert.idempotency(request.idempotency)
        return _run(await self._consolidations.revert(request.memory_id, request.run_id, key))


def _run(one: Run) -> consolidation_pb2.ConsolidationRun:
    return cast("consolidation_pb2.ConsolidationRun", one.payload)


def _change(one: Change) -> consolidation_pb2.ConsolidationChange:
    made = consolidation_pb2.ConsolidationChange()
    made.CopyFrom(cast("consolidation_pb2.ConsolidationChange", one.payload))
    made.record.CopyFrom(convert.record(one.record))
    return made
