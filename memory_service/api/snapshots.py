"""The RPCs of protos/memory/v1/snapshots.proto: convert, call the use case, convert."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import ServicerContext

from memory_service.api import convert
from memory_service.domain.model import Snapshot
from memory_service.domain.snapshots import Snapshots
from protos.common.v1 import record_pb2
from protos.memory.v1 import snapshots_pb2 as wire
from protos.memory.v1.snapshots_pb2_grpc import SnapshotsServicer as SnapshotsBase

Context = ServicerContext[Any, Any]


class SnapshotsServicer(SnapshotsBase):
    """Names for instants."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    async def CreateSnapshot(self, request: wire.CreateSnapshotRequest, context: Context) -> wire.Snapshot:
        key = convert.idempotency(request.idempotency)
        made = await self._snapshots.create(request.memory_id, request.name, request.message, key)
        return _snapshot(made)

    async def ListSnapshots(
        self, request: wire.ListSnapshotsRequest, context: Context
    ) -> wire.ListSnapshotsResponse:
        found = await self._snapshots.list(request.memory_id, convert.page(request.page))
        return wire.ListSnapshotsResponse(
            snapshots=[_snapshot(one) for one in found.snapshots], next_cursor=found.next_cursor
        )

    async def GetSnapshot(self, request: wire.GetSnapshotRequest, context: Context) -> wire.Snapshot:
        return _snapshot(await self._snapshots.get(request.memory_id, request.snapshot_id))

    async def DeleteSnapshot(self, request: wire.DeleteSnapshotRequest, context: Context) -> wire.Snapshot:
        key = convert.idempotency(request.idempotency)
        return _snapshot(await self._snapshots.delete(request.memory_id, request.snapshot_id, key))


def _snapshot(one: Snapshot) -> wire.Snapshot:
    at = Timestamp()
    at.FromDatetime(one.at)
    return wire.Snapshot(
        id=one.id,
        memory_id=one.memory_id,
        name=one.name,
        message=one.message,
        at=at,
        written_by=record_pb2.Writer(kind=one.writer.kind, id=one.writer.id),
    )
