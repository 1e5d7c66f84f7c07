"""Named and free queries of memory_service."""

import grpc

from gateway.clients import records_convert as convert
from gateway.clients.convert import cursor, idempotency, moment, page
from gateway.http import Idempotency
from gateway.schemas import queries as schema
from gateway.schemas.base import Raw, UnsetType
from gateway.schemas.records import Writer
from protos.memory.v1 import queries_pb2, queries_pb2_grpc

__all__ = ["SAFE", "QueriesClient"]

SAFE = tuple(f"grovekeeper.memory.v1.Queries/{method}" for method in ("ListQueries", "RunQuery", "FreeQuery"))
"""Methods that may be sent twice: queries read."""
_TIMEOUT_S = 25.0


class QueriesClient:
    """Queries over one memory."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._queries = queries_pb2_grpc.QueriesStub(channel)

    async def list(self, memory_id: str, asked: schema.ListQueries) -> schema.NamedQueries:
        """A page of named queries."""
        request = queries_pb2.ListQueriesRequest(memory_id=memory_id, page=page(asked.limit, asked.cursor))
        answer = await self._queries.ListQueries(request)
        return schema.NamedQueries(
            data=[_query(memory_id, one) for one in answer.queries], next_cursor=cursor(answer.next_cursor)
        )

    async def put(
        self, memory_id: str, name: str, asked: schema.PutQuery, key: Idempotency
    ) -> schema.NamedQuery:
        """Define or replace one."""
        query = queries_pb2.NamedQuery(
            name=name,
            description=asked.description,
            params=_raw(asked.params),
            requires=asked.requires,
            language=asked.language,
            body=asked.body,
        )
        request = queries_pb2.PutQueryRequest(memory_id=memory_id, query=query, idempotency=idempotency(key))
        return _query(memory_id, await self._queries.PutQuery(request, timeout=_TIMEOUT_S))

    async def delete(self, memory_id: str, name: str, key: Idempotency) -> schema.NamedQuery:
        """Remove one."""
        request = queries_pb2.DeleteQueryRequest(memory_id=memory_id, name=name, idempotency=idempotency(key))
        return _query(memory_id, await self._queries.DeleteQuery(request))

    async def run(self, memory_id: str, name: str, params: bytes) -> schema.Queried:
        """Run a named one."""
        request = queries_pb2.RunQueryRequest(memory_id=memory_id, name=name, params=params)
        return _queried(await self._queries.RunQuery(request, timeout=_TIMEOUT_S))

    async def free(self, memory_id: str, asked: schema.FreeQuery) -> schema.Queried:
        """Run the caller's own statement."""
        request = queries_pb2.FreeQueryRequest(
            memory_id=memory_id,
            language=asked.language,
            statement=asked.statement,
            params=_raw(asked.params),
        )
        return _queried(await self._queries.FreeQuery(request, timeout=_TIMEOUT_S))


def _raw(written: Raw | UnsetType) -> bytes:
    return b"" if isinstance(written, UnsetType) else bytes(written)


def _query(memory_id: str, message: queries_pb2.NamedQuery) -> schema.NamedQuery:
    return schema.NamedQuery(
        name=message.name,
        memory_id=memory_id,
        description=message.description,
        params=Raw(message.params),
        requires=message.requires,
        language=message.language,
        body=message.body,
        updated_at=moment(message.updated_at),
        written_by=Writer(kind=message.written_by.kind, id=message.written_by.id),
    )


def _queried(message: queries_pb2.QueryResponse) -> schema.Queried:
    answer = message.answer
    return schema.Queried(
        records=[convert.record(one) for one in answer.records] if answer.is_records else None,
        columns=list(answer.columns),
        rows=[Raw(one) for one in answer.rows],
        degraded=list(answer.degraded),
        parent=convert.place(message.parent) if message.HasField("parent") else None,
        children=[convert.place(one) for one in message.children],
    )
