"""Types of records and their operations, of memory_service."""

import grpc

from gateway.clients import records_convert as convert
from gateway.clients.convert import idempotency
from gateway.http import Idempotency
from gateway.schemas import types as schema
from gateway.schemas.base import UNSET, Raw, UnsetType
from gateway.schemas.records import Record
from protos.common.v1 import record_pb2
from protos.memory.v1 import types_pb2, types_pb2_grpc

__all__ = ["SAFE", "TypesClient"]

SAFE = ("grovekeeper.memory.v1.Types/ListTypes",)
"""Methods that may be sent twice."""

_FREE = b'{"type":"object"}'


class TypesClient:
    """What kinds of record there are, and what can be done with one (Memories, section 8)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._types = types_pb2_grpc.TypesStub(channel)

    async def list(self) -> schema.Types:
        """Every type."""
        answer = await self._types.ListTypes(types_pb2.ListTypesRequest())
        return schema.Types(data=[_type(one) for one in answer.types])

    async def put(self, name: str, asked: schema.RegisterType, key: Idempotency) -> schema.Type:
        """Register or replace a type."""
        described = record_pb2.TypeDescription(
            type=name,
            description=asked.description,
            schema=_raw(asked.schema),
            text=asked.text,
            projection=asked.projection,
            operations=[
                record_pb2.OperationDescription(
                    name=one.name,
                    description=one.description,
                    input=_raw(one.input),
                    requires=one.requires,
                    definition=bytes(one.definition),
                )
                for one in asked.operations
            ],
        )
        request = types_pb2.PutTypeRequest(type=described, idempotency=idempotency(key))
        return _type(await self._types.PutType(request))

    async def delete(self, name: str, key: Idempotency) -> schema.Type:
        """Take a registration back; the type as it was."""
        request = types_pb2.DeleteTypeRequest(type=name, idempotency=idempotency(key))
        return _type(await self._types.DeleteType(request))

    async def operate(
        self, memory_id: str, record_id: str, name: str, given: bytes, expected: int, key: Idempotency
    ) -> tuple[Record, Raw | UnsetType]:
        """Carry out an operation: the record after it, and what it found out."""
        request = types_pb2.OperateRequest(
            memory_id=memory_id,
            record_id=record_id,
            operation=name,
            input=given,
            expected_version=expected,
            idempotency=idempotency(key),
        )
        answer = await self._types.Operate(request)
        return convert.record(answer.record), Raw(answer.result) if answer.result else UNSET


def _raw(given: Raw | UnsetType) -> bytes:
    return _FREE if isinstance(given, UnsetType) else bytes(given)


def _type(message: types_pb2.RegisteredType) -> schema.Type:
    one = message.type
    return schema.Type(
        type=one.type,
        description=one.description,
        schema=Raw(one.schema),
        text=one.text,
        projection=list(one.projection),
        operations=[
            schema.Operation(
                name=each.name,
                description=each.description,
                input=Raw(each.input),
                requires=each.requires,
                definition=Raw(each.definition) if each.definition else UNSET,
            )
            for each in one.operations
        ],
        source=message.source,
    )
