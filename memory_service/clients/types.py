"""The types of a provider and their operations, between the contract's messages and the domain's models."""

from typing import Final

from memory_service.domain.model import Privilege
from memory_service.domain.record_types import Operate, Operation, RecordType
from protos.common.v1 import record_pb2
from protos.provider.v1 import provider_pb2
from protos.provider.v1 import types_pb2 as wire

_REQUIRES: Final = {"read": Privilege.READ, "write": Privilege.WRITE}


def types_of(answer: provider_pb2.DescribeResponse) -> tuple[RecordType, ...]:
    """The types the connected providers have of their own. An operation that requires anything else is left out."""
    return tuple(_type(one, group.provider) for group in answer.types for one in group.types)


def _type(one: record_pb2.TypeDescription, provider: str) -> RecordType:
    return RecordType(
        one.type,
        one.description,
        one.schema or b'{"type":"object"}',
        one.text,
        tuple(one.projection),
        tuple(
            Operation(
                each.name,
                each.description,
                each.input or b'{"type":"object"}',
                _REQUIRES[each.requires],
                each.definition,
            )
            for each in one.operations
            if each.requires in _REQUIRES
        ),
        source="provider",
        provider=provider,
    )


def operate_request(asked: Operate) -> wire.OperateRequest:
    """An operation as the provider is asked for it, without address and stamp."""
    return wire.OperateRequest(
        type=asked.type.type,
        operation=record_pb2.OperationDescription(
            name=asked.operation.name,
            description=asked.operation.description,
            input=asked.operation.input,
            requires=asked.operation.requires.value,
            definition=asked.operation.definition,
        ),
        input=asked.input,
        schema=asked.type.schema,
        projection=asked.type.projection,
        expected_version=asked.expected_version,
    )
