"""Queries and what they need of the providers that declare them."""

from typing import Final

import grpc

from memory_service.clients.provider import address_of, reachable, record_of
from memory_service.domain.model import Address
from memory_service.domain.queries import Answer, Asked
from protos.provider.v1 import queries_pb2 as wire
from protos.provider.v1.queries_pb2_grpc import QueriesStub

SAFE: Final = (
    "grovekeeper.provider.v1.Queries/Query",
    "grovekeeper.provider.v1.Queries/ReferencedMemories",
)
"""What may be sent twice: a query reads."""
_TIMEOUT_S: Final = 20.0


class GrpcQueries:
    """The verbs of ``domain.queries.Runs``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = QueriesStub(channel)

    async def query(self, address: Address, asked: Asked) -> Answer:
        request = wire.QueryRequest(
            address=address_of(address),
            language=asked.language,
            statement=asked.statement,
            params=asked.params,
            readable_memory_ids=asked.readable,
            absent_is_null=asked.absent_is_null,
            check=asked.check,
        )
        async with reachable():
            answer = await self._stub.Query(request, timeout=_TIMEOUT_S)
        records = tuple(record_of(one) for one in answer.records) if answer.is_records else None
        return Answer(records, tuple(answer.columns), tuple(answer.rows), tuple(answer.degraded))

    async def referenced(self, address: Address) -> tuple[str, ...]:
        request = wire.ReferencedMemoriesRequest(address=address_of(address))
        async with reachable():
            answer = await self._stub.ReferencedMemories(request)
        return tuple(answer.memory_ids)
