"""The RPCs of ``Queries`` in protos/provider/v1/queries.proto: convert, call the operation, convert."""

from typing import Any

from grpc.aio import ServicerContext

from protos.common.v1 import record_pb2
from protos.provider.v1 import queries_pb2 as wire
from protos.provider.v1.queries_pb2_grpc import QueriesServicer as Base
from provider_workers.api import convert
from provider_workers.domain.queries import Asked, Queries, params_of
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


class QueriesServicer(Base):
    """Queries of the providers that declare them."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def Query(self, request: wire.QueryRequest, context: Context) -> record_pb2.QueryAnswer:
        asked = Asked(
            language=request.language,
            statement=request.statement,
            params=params_of(request.params),
            readable=frozenset(request.readable_memory_ids),
            absent_is_null=request.absent_is_null,
            check=request.check,
            whose=current_passport().principal,
        )
        answered = await self._queries.query(convert.address(request.address), asked)
        return record_pb2.QueryAnswer(
            is_records=answered.records is not None,
            records=[convert.record(one) for one in answered.records or ()],
            columns=answered.columns,
            rows=answered.rows,
            degraded=answered.degraded,
        )

    async def ReferencedMemories(
        self, request: wire.ReferencedMemoriesRequest, context: Context
    ) -> wire.ReferencedMemoriesResponse:
        found = await self._queries.referenced_memories(convert.address(request.address))
        return wire.ReferencedMemoriesResponse(memory_ids=found)
