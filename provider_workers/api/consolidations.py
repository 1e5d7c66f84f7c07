"""The RPCs of protos/provider/v1/consolidations.proto: convert, call the operation, convert."""

from typing import Any

from grpc.aio import ServicerContext

from protos.common.v1 import consolidation_pb2, record_pb2
from protos.provider.v1 import consolidations_pb2 as wire
from protos.provider.v1.consolidations_pb2_grpc import ConsolidationsServicer as Base
from protos.provider.v1.provider_pb2 import Address
from provider_workers.api import convert
from provider_workers.domain.consolidations import Budget, Change, Consolidations, Reversal, Run, Wanted
from provider_workers.domain.model import Writer
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


class ConsolidationsServicer(Base):
    """Runs of the providers that declare them."""

    def __init__(self, consolidations: Consolidations) -> None:
        self._consolidations = consolidations

    async def StartRun(
        self, request: wire.StartRunRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRun:
        stated = Budget(request.budget.limit, request.budget.unit) if request.HasField("budget") else None
        wanted = Wanted(request.run_id, request.trigger, stated)
        stamp = convert.stamp(request.asked_by, request.idempotency)
        return _run(await self._consolidations.start(convert.address(request.address), wanted, stamp))

    async def ListRuns(
        self, request: wire.ListRunsRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRuns:
        page = await self._consolidations.runs(convert.address(request.address), convert.page(request.page))
        return consolidation_pb2.ConsolidationRuns(
            runs=[_run(one) for one in page.runs], next_cursor=page.next_cursor
        )

    async def GetRun(
        self, request: wire.GetRunRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRun:
        return _run(await self._consolidations.run(convert.address(request.address), request.run_id))

    async def ListChanges(
        self, request: wire.ListChangesRequest, context: Context
    ) -> consolidation_pb2.ConsolidationChanges:
        page = await self._consolidations.changes(
            convert.address(request.address), request.run_id, convert.page(request.page)
        )
        return consolidation_pb2.ConsolidationChanges(
            changes=[_change(one) for one in page.changes], next_cursor=page.next_cursor
        )

    async def RevertRun(
        self, request: wire.RevertRunRequest, context: Context
    ) -> consolidation_pb2.ConsolidationRun:
        stamp = convert.stamp(request.asked_by, request.idempotency)
        return _run(
            await self._consolidations.revert(convert.address(request.address), request.run_id, stamp)
        )

    async def ListDue(self, request: wire.ListDueRequest, context: Context) -> wire.ListDueResponse:
        current_passport().require_scope("service")
        due = [
            wire.DueMemory(address=Address(provider=provider, memory_id=one.memory_id), trigger=one.trigger)
            for provider, one in await self._consolidations.due()
        ]
        return wire.ListDueResponse(due=due)


def _run(one: Run) -> consolidation_pb2.ConsolidationRun:
    made = consolidation_pb2.ConsolidationRun(
        id=one.id,
        memory_id=one.memory_id,
        status=one.status,
        trigger=one.trigger,
        episodes=one.episodes,
        created=one.created,
        superseded=one.superseded,
        forgotten=one.forgotten,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        budget=consolidation_pb2.Budget(
            limit=one.budget.limit, unit=one.budget.unit, exhausted=one.budget.exhausted
        ),
        written_by=_writer(one.written_by),
        error=one.error,
        degraded=one.degraded,
    )
    for field, moment in (
        (made.started_at, one.started_at),
        (made.finished_at, one.finished_at),
        (made.through, one.through),
    ):
        if moment is not None:
            field.FromDatetime(moment)
    if one.reversal is not None:
        made.reversal.CopyFrom(_reversal(one.reversal))
    return made


def _reversal(one: Reversal) -> consolidation_pb2.ConsolidationReversal:
    made = consolidation_pb2.ConsolidationReversal(
        by=_writer(one.by),
        restored=one.restored,
        forgotten=one.forgotten,
        left_count=one.left_count,
        left=[
            consolidation_pb2.LeftRecord(record_id=each.record_id, reason=each.reason) for each in one.left
        ],
    )
    made.at.FromDatetime(one.at)
    return made


def _change(one: Change) -> consolidation_pb2.ConsolidationChange:
    return consolidation_pb2.ConsolidationChange(
        change=one.change,
        reason=one.reason,
        record=convert.record(one.record),
        replaced_by=one.replaced_by,
        reverted=one.undone == "",
        left=one.undone or "",
    )


def _writer(one: Writer) -> record_pb2.Writer:
    return record_pb2.Writer(kind=one.kind, id=one.id)
