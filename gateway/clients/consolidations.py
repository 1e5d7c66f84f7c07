"""Consolidation runs of memory_service."""

from collections.abc import Callable

import grpc

from gateway.clients import records_convert as convert
from gateway.clients.convert import cursor, idempotency, moment, page
from gateway.http import Idempotency
from gateway.schemas import consolidations as schema
from gateway.schemas.base import UNSET
from gateway.schemas.records import Record, RecordAnswer, Writer
from protos.common.v1 import consolidation_pb2, record_pb2
from protos.memory.v1 import consolidations_pb2, consolidations_pb2_grpc

__all__ = ["SAFE", "ConsolidationsClient"]

SAFE = tuple(
    f"grovekeeper.memory.v1.Consolidations/{method}" for method in ("ListRuns", "GetRun", "ListChanges")
)
"""Methods that may be sent twice."""
_REVERT_S = 28.0


class ConsolidationsClient:
    """Background work that rewrites a memory, as runs (Memories, section 9.2)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._runs = consolidations_pb2_grpc.ConsolidationsStub(channel)

    async def start(self, memory_id: str, asked: schema.StartRun | None, key: Idempotency) -> schema.Run:
        """Start one now."""
        request = consolidations_pb2.StartRunRequest(memory_id=memory_id, idempotency=idempotency(key))
        if asked is not None and asked.budget is not None:
            request.budget.limit, request.budget.unit = asked.budget.limit, asked.budget.unit
        return _run(await self._runs.StartRun(request))

    async def list(self, memory_id: str, asked: schema.ListRuns) -> schema.Runs:
        """A page of them, newest first."""
        request = consolidations_pb2.ListRunsRequest(
            memory_id=memory_id, page=page(asked.limit, asked.cursor)
        )
        answer = await self._runs.ListRuns(request)
        return schema.Runs(data=[_run(one) for one in answer.runs], next_cursor=cursor(answer.next_cursor))

    async def get(self, memory_id: str, run_id: str) -> schema.Run:
        """One of them."""
        return _run(
            await self._runs.GetRun(consolidations_pb2.GetRunRequest(memory_id=memory_id, run_id=run_id))
        )

    async def changes(
        self,
        memory_id: str,
        run_id: str,
        asked: schema.ListChanges,
        shown: Callable[[Record], RecordAnswer],
    ) -> schema.RunChanges:
        """A page of what one did; ``shown`` is how the wire's revision says a record."""
        request = consolidations_pb2.ListChangesRequest(
            memory_id=memory_id, run_id=run_id, page=page(asked.limit, asked.cursor)
        )
        answer = await self._runs.ListChanges(request)
        return schema.RunChanges(
            data=[
                schema.RunChange(
                    change=one.change,
                    reason=one.reason,
                    record=shown(convert.record(one.record)),
                    replaced_by=one.replaced_by or None,
                    reverted=one.reverted,
                    left=one.left or None,
                )
                for one in answer.changes
            ],
            next_cursor=cursor(answer.next_cursor),
        )

    async def revert(self, memory_id: str, run_id: str, key: Idempotency) -> schema.Run:
        """Undo one."""
        request = consolidations_pb2.RevertRunRequest(
            memory_id=memory_id, run_id=run_id, idempotency=idempotency(key)
        )
        return _run(await self._runs.RevertRun(request, timeout=_REVERT_S))


def _run(one: consolidation_pb2.ConsolidationRun) -> schema.Run:
    return schema.Run(
        id=one.id,
        memory_id=one.memory_id,
        status=one.status,
        trigger=one.trigger,
        started_at=one.started_at.seconds if one.HasField("started_at") else None,
        finished_at=one.finished_at.seconds if one.HasField("finished_at") else None,
        read=schema.RunRead(
            episodes=one.episodes, through=moment(one.through) if one.HasField("through") else None
        ),
        changes=schema.ChangeCounts(created=one.created, superseded=one.superseded, forgotten=one.forgotten),
        usage=schema.RunUsage(input_tokens=one.input_tokens, output_tokens=one.output_tokens),
        budget=schema.RunBudget(limit=one.budget.limit, unit=one.budget.unit, exhausted=one.budget.exhausted),
        written_by=_writer(one.written_by),
        error=one.error,
        degraded=list(one.degraded) or UNSET,
        reversal=_reversal(one.reversal) if one.HasField("reversal") else UNSET,
    )


def _reversal(one: consolidation_pb2.ConsolidationReversal) -> schema.Reversal:
    return schema.Reversal(
        at=one.at.seconds,
        by=_writer(one.by),
        restored=one.restored,
        forgotten=one.forgotten,
        left_count=one.left_count,
        left=[schema.LeftRecord(record_id=each.record_id, reason=each.reason) for each in one.left],
    )


def _writer(one: record_pb2.Writer) -> Writer:
    return Writer(kind=one.kind, id=one.id)
