"""Snapshots of memory_service."""

import grpc

from gateway.clients.convert import cursor, idempotency, moment, page
from gateway.http import Idempotency
from gateway.schemas import snapshots as schema
from gateway.schemas.records import Writer
from protos.memory.v1 import (
    snapshots_pb2,
    snapshots_pb2_grpc,
)

__all__ = ["SAFE", "SnapshotsClient"]

SAFE = (
    "grovekeeper.memory.v1.Snapshots/ListSnapshots",
    "grovekeeper.memory.v1.Snapshots/GetSnapshot",
)
"""Methods that may be sent twice."""


class SnapshotsClient:
    """Names for instants of a memory (Memories, section 5.3)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._snapshots = snapshots_pb2_grpc.SnapshotsStub(channel)

    async def create(self, memory_id: str, asked: schema.CreateSnapshot, key: Idempotency) -> schema.Snapshot:
        """Name the present instant."""
        request = snapshots_pb2.CreateSnapshotRequest(
            memory_id=memory_id, name=asked.name, message=asked.message or "", idempotency=idempotency(key)
        )
        return _snapshot(await self._snapshots.CreateSnapshot(request))

    async def list(self, memory_id: str, asked: schema.ListSnapshots) -> schema.Snapshots:
        """A page of them, newest first."""
        request = snapshots_pb2.ListSnapshotsRequest(
            memory_id=memory_id, page=page(asked.limit, asked.cursor)
        )
        answer = await self._snapshots.ListSnapshots(request)
        return schema.Snapshots(
            data=[_snapshot(one) for one in answer.snapshots], next_cursor=cursor(answer.next_cursor)
        )

    async def get(self, memory_id: str, snapshot_id: str) -> schema.Snapshot:
        """One of them."""
        request = snapshots_pb2.GetSnapshotRequest(memory_id=memory_id, snapshot_id=snapshot_id)
        return _snapshot(await self._snapshots.GetSnapshot(request))

    async def delete(self, memory_id: str, snapshot_id: str, key: Idempotency) -> schema.Snapshot:
        """Forget the name; the snapshot as it was."""
        request = snapshots_pb2.DeleteSnapshotRequest(
            memory_id=memory_id, snapshot_id=snapshot_id, idempotency=idempotency(key)
        )
        return _snapshot(await self._snapshots.DeleteSnapshot(request))


def _snapshot(message: snapshots_pb2.Snapshot) -> schema.Snapshot:
    return schema.Snapshot(
        id=message.id,
        memory_id=message.memory_id,
        name=message.name,
        message=message.message,
        at=moment(message.at),
        written_by=Writer(kind=message.written_by.kind, id=message.written_by.id),
    )
