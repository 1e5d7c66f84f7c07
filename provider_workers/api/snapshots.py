"""The RPC of the service Snapshots in protos/provider/v1/queries.proto."""

from typing import Any

from grpc.aio import ServicerContext

from protos.provider.v1 import queries_pb2 as wire
from protos.provider.v1.queries_pb2_grpc import SnapshotsServicer as Base
from provider_workers.api import convert
from provider_workers.domain.operations import Operations

Context = ServicerContext[Any, Any]


class SnapshotsServicer(Base):
    """Instants that can be named, of every provider that declares ``snapshots``."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def Snapshot(self, request: wire.SnapshotRequest, context: Context) -> wire.SnapshotResponse:
        answer = wire.SnapshotResponse()
        answer.at.FromDatetime(await self._operations.snapshot(convert.address(request.address)))
        return answer
