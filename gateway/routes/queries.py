"""``/v1/memories/{id}/queries`` and ``…/query`` (Memories, sections 6.4 and 6.5)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.queries import QueriesClient
from gateway.http import answer, body, idempotency, object_body, query, revision_of, segment
from gateway.openapi import KEY, describe
from gateway.schemas import queries as schema

__all__ = ["routes"]

_QUERIES = "/v1/memories/{memory_id}/queries"
_QUERY = f"{_QUERIES}/{{name}}"


def routes(on: FastAPI, queries: QueriesClient) -> None:
    """Named and free queries."""

    @on.get(_QUERIES, openapi_extra=describe(schema.NamedQueries, query=schema.ListQueries))
    async def list_queries(request: Request, memory_id: str) -> Response:
        """The named queries of a memory, by name."""
        return answer(await queries.list(memory_id, query(request, schema.ListQueries)))

    @on.put(_QUERY, openapi_extra=describe(schema.NamedQuery, body=schema.PutQuery, headers=(KEY,)))
    async def put_query(request: Request, memory_id: str, name: str) -> Response:
        """Define a named query, or replace it."""
        asked, raw = await body(request, schema.PutQuery)
        key = idempotency(request, raw)
        return answer(await queries.put(memory_id, segment(name), asked, key))

    @on.delete(_QUERY, openapi_extra=describe(schema.NamedQuery, headers=(KEY,)))
    async def delete_query(request: Request, memory_id: str, name: str) -> Response:
        """Remove a named query; answers it as it was."""
        key = idempotency(request, await request.body())
        return answer(await queries.delete(memory_id, segment(name), key))

    @on.post(
        _QUERY,
        openapi_extra=describe(schema.QueryAnswer, body={"account": "acme"}, errors=("grovekeeper_busy",)),
    )
    async def run_query(request: Request, memory_id: str, name: str) -> Response:
        """Run a named query. The body is its params, an object; none is an empty one."""
        params = await object_body(request)
        queried = await queries.run(memory_id, segment(name), params)
        return answer(revision_of(request).queried(queried))

    @on.post(
        "/v1/memories/{memory_id}/query",
        openapi_extra=describe(schema.QueryAnswer, body=schema.FreeQuery, errors=("grovekeeper_busy",)),
    )
    async def free_query(request: Request, memory_id: str) -> Response:
        """Run a statement of the caller's own, which only reads, and this memory alone."""
        asked, _ = await body(request, schema.FreeQuery)
        return answer(revision_of(request).queried(await queries.free(memory_id, asked)))
