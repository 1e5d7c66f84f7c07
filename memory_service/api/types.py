"""The RPCs of protos/memory/v1/types.proto: convert, call the use case, convert."""

from typing import Any

from grpc.aio import ServicerContext

from memory_service.api import convert
from memory_service.domain import errors
from memory_service.domain.model import Privilege
from memory_service.domain.operate import Operating
from memory_service.domain.record_types import Operation, RecordType
from memory_service.domain.types import Types
from protos.common.v1 import record_pb2
from protos.memory.v1 import types_pb2 as wire
from protos.memory.v1.types_pb2_grpc import TypesServicer as Base

Context = ServicerContext[Any, Any]


class TypesServicer(Base):
    """Types and their operations."""

    def __init__(self, types: Types, operating: Operating) -> None:
        self._types = types
        self._operating = operating

    async def ListTypes(self, request: wire.ListTypesRequest, context: Context) -> wire.ListTypesResponse:
        return wire.ListTypesResponse(types=[registered(one) for one in await self._types.list()])

    async def PutType(self, request: wire.PutTypeRequest, context: Context) -> wire.RegisteredType:
        key = convert.idempotency(request.idempotency)
        return registered(await self._types.put(_stated(request.type), key))

    async def DeleteType(self, request: wire.DeleteTypeRequest, context: Context) -> wire.RegisteredType:
        key = convert.idempotency(request.idempotency)
        return registered(await self._types.delete(request.type, key))

    async def Operate(self, request: wire.OperateRequest, context: Context) -> wire.OperateResponse:
        operated = await self._operating.operate(
            request.memory_id,
            request.record_id,
            request.operation,
            request.input,
            request.expected_version,
            convert.idempotency(request.idempotency),
        )
        return wire.OperateResponse(record=convert.record(operated.record), result=operated.result)


def registered(one: RecordType) -> wire.RegisteredType:
    """A type and where it comes from."""
    described = record_pb2.TypeDescription(
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
                requires=each.requires.value,
                definition=each.definition,
            )
            for each in one.operations
        ],
    )
    return wire.RegisteredType(type=described, source=one.source)


def _stated(message: record_pb2.TypeDescription) -> RecordType:
    return RecordType(
        message.type,
        message.description,
        message.schema,
        message.text,
        tuple(message.projection),
        tuple(
            Operation(one.name, one.description, one.input, _privilege(one.requires, place), one.definition)
            for place, one in enumerate(message.operations)
        ),
    )


def _privilege(name: str, place: int) -> Privilege:
    if name not in ("read", "write"):
        raise errors.invalid_type("An operation requires read or write.", f"operations.{place}.requires")
    return Privilege(name)
