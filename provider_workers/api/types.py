"""The RPC of protos/provider/v1/types.proto, and the types of a provider as they travel."""

from typing import Any

from grpc.aio import ServicerContext

from protos.common.v1 import record_pb2
from protos.provider.v1 import types_pb2 as wire
from protos.provider.v1.types_pb2_grpc import TypesServicer as Base
from provider_workers.api import convert
from provider_workers.domain.model import Operate, Operation, RecordType
from provider_workers.domain.operations import Operations

Context = ServicerContext[Any, Any]


class TypesServicer(Base):
    """Operations of types, of every provider that declares ``types``."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def Operate(self, request: wire.OperateRequest, context: Context) -> wire.OperateResponse:
        stated = request.operation
        asked = Operate(
            request.type,
            Operation(stated.name, stated.description, stated.input, stated.requires, stated.definition),
            request.input or b"{}",
            request.schema,
            tuple(request.projection),
            request.expected_version,
        )
        address, stamp = (
            convert.address(request.address),
            convert.stamp(request.written_by, request.idempotency),
        )
        operated = await self._operations.operate(address, request.record_id, asked, stamp)
        return wire.OperateResponse(record=convert.record(operated.record), result=operated.result)


def record_type(one: RecordType) -> record_pb2.TypeDescription:
    """A type a provider has of its own."""
    return record_pb2.TypeDescription(
        type=one.type,
        description=one.description,
        schema=one.schema,
        text=one.text,
        projection=one.projection,
        operations=[
            record_pb2.OperationDescription(
                name=each.name,
                description=each.description,
                input=each.input,
                requires=each.requires,
                definition=each.definition,
            )
            for each in one.operations
        ],
    )
