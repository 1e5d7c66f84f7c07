"""Types of records, their registration, and operations on a record (Memories, section 8)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.types import TypesClient
from gateway.http import answer, body, expected_version, idempotency, object_body, query, revision_of
from gateway.openapi import describe
from gateway.openapi_headers import IF_MATCH, KEY
from gateway.schemas import types as schema

__all__ = ["operations", "routes"]

_TYPE = "/v1/grovekeeper/types/{type}"


def routes(on: FastAPI, types: TypesClient) -> None:
    """The kinds of record there are."""

    @on.get("/v1/memories/types", openapi_extra=describe(schema.Types))
    async def list_types() -> Response:
        """Every type of record: the chapter's, the providers', configured and registered ones."""
        return answer(await types.list())

    @on.put(
        _TYPE,
        openapi_extra=describe(
            schema.Type,
            body=schema.RegisterType,
            headers=(KEY,),
            errors=("memory_invalid", "grovekeeper_conflict", "memory_unavailable"),
        ),
    )
    async def put_type(request: Request, type: str) -> Response:  # noqa: A002 - the name of the path
        """Register a type of record, or replace it."""
        asked, raw = await body(request, schema.RegisterType)
        return answer(await types.put(type, asked, idempotency(request, raw)))

    @on.delete(
        _TYPE,
        openapi_extra=describe(
            schema.Type, headers=(KEY,), errors=("grovekeeper_conflict", "memory_unavailable")
        ),
    )
    async def delete_type(request: Request, type: str) -> Response:  # noqa: A002 - the name of the path
        """Take a registration back; records of the type stay as they are."""
        return answer(await types.delete(type, idempotency(request, await request.body())))


def operations(on: FastAPI, types: TypesClient) -> None:
    """What can be done with a record of an extension type."""

    @on.post(
        "/v1/memories/{memory_id}/records/{record_id}/operations/{operation}",
        openapi_extra=describe(
            schema.Operated,
            body={"price": 1.5},
            query=schema.Operate,
            headers=(KEY, IF_MATCH),
        ),
    )
    async def operate(request: Request, memory_id: str, record_id: str, operation: str) -> Response:
        """Carry out an operation of the record's type; the body is its input."""
        raw = await request.body()
        given = await object_body(request) or b"{}"
        expected = expected_version(request, query(request, schema.Operate).expected_version)
        key = idempotency(request, raw)
        record, result = await types.operate(memory_id, record_id, operation, given, expected, key)
        made = schema.Operated(record=revision_of(request).record(record), result=result)
        return answer(made, headers={"ETag": f'"{record.version}"'})
