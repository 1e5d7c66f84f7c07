"""The RPCs of protos/memory/v1/queries.proto: convert, call the use case, convert."""

from datetime import UTC, datetime
from typing import Any, Final

from grpc.aio import ServicerContext

from memory_service.api import convert
from memory_service.domain import errors
from memory_service.domain.model import Privilege, Writer
from memory_service.domain.queries import Answer, NamedQuery, Queries
from protos.common.v1 import record_pb2
from protos.memory.v1 import queries_pb2 as wire
from protos.memory.v1.queries_pb2_grpc import QueriesServicer as Base

Context = ServicerContext[Any, Any]

_REQUIRES: Final = {"": Privilege.READ, "read": Privilege.READ, "write": Privilege.WRITE}


class QueriesServicer(Base):
    """Named and free queries."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def ListQueries(
        self, request: wire.ListQueriesRequest, context: Context
    ) -> wire.ListQueriesResponse:
        found = await self._queries.list(request.memory_id, convert.page(request.page))
        return wire.ListQueriesResponse(
            queries=[named_query(one) for one in found.queries], next_cursor=found.next_cursor
        )

    async def PutQuery(self, request: wire.PutQueryRequest, context: Context) -> wire.NamedQuery:
        key = convert.idempotency(request.idempotency)
        return named_query(await self._queries.put(request.memory_id, _stated(request.query), key))

    async def DeleteQuery(self, request: wire.DeleteQueryRequest, context: Context) -> wire.NamedQuery:
        key = convert.idempotency(request.idempotency)
        return named_query(await self._queries.delete(request.memory_id, request.name, key))

    async def RunQuery(self, request: wire.RunQueryRequest, context: Context) -> wire.QueryResponse:
        return _answer(await self._queries.run(request.memory_id, request.name, request.params))

    async def FreeQuery(self, request: wire.FreeQueryRequest, context: Context) -> wire.QueryResponse:
        return _answer(
            await self._queries.free(request.memory_id, request.language, request.statement, request.params)
        )


def named_query(query: NamedQuery) -> wire.NamedQuery:
    """A named query as it travels."""
    message = wire.NamedQuery(
        name=query.name,
        description=query.description,
        params=query.params,
        requires=query.requires.value,
        language=query.language,
        body=query.body,
        written_by=record_pb2.Writer(kind=query.written_by.kind, id=query.written_by.id),
    )
    message.updated_at.FromDatetime(query.updated_at)
    return message


def _stated(message: wire.NamedQuery) -> NamedQuery:
    if message.requires not in _REQUIRES:
        raise errors.memory_invalid("A query requires read or write.", "requires")
    return NamedQuery(
        message.name,
        message.description,
        message.params,
        _REQUIRES[message.requires],
        message.language,
        message.body,
        datetime.now(UTC),
        Writer("", ""),
    )


def _answer(answer: Answer) -> wire.QueryResponse:
    return wire.QueryResponse(
        answer=record_pb2.QueryAnswer(
            is_records=answer.records is not None,
            records=[convert.record(one) for one in answer.records or ()],
            columns=answer.columns,
            rows=answer.rows,
            degraded=answer.degraded,
        ),
        parent=None if answer.parent is None else convert.place(answer.parent),
        children=[convert.place(one) for one in answer.children],
    )
