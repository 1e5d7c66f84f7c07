"""``/v1/memories``: the tree, its grants and its providers (Memories, sections 2, 3, 10.2)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.authz import AuthzClient
from gateway.clients.memories import MemoriesClient
from gateway.http import answer, body, idempotency, query
from gateway.openapi import KEY, describe
from gateway.schemas import memories as schema

__all__ = ["grants", "routes"]

_ABOVE = ("memory_not_found", "memory_forbidden")


def routes(on: FastAPI, memories: MemoriesClient) -> None:
    """Memories as objects."""

    @on.post(
        "/v1/memories",
        openapi_extra=describe(schema.Memory, body=schema.CreateMemory, headers=(KEY,), errors=_ABOVE),
    )
    async def create_memory(request: Request) -> Response:
        """Create a memory."""
        asked, raw = await body(request, schema.CreateMemory)
        return answer(await memories.create(asked, idempotency(request, raw)))

    @on.get("/v1/memories", openapi_extra=describe(schema.Memories, query=schema.ListMemories, errors=_ABOVE))
    async def list_memories(request: Request) -> Response:
        """One level, where the caller enters the tree, or everything below an ancestor."""
        return answer(await memories.list(query(request, schema.ListMemories)))

    @on.get("/v1/memories/providers", openapi_extra=describe(schema.Providers))
    async def list_providers() -> Response:
        """The capability documents of the connected providers."""
        return answer(await memories.providers())

    @on.get("/v1/memories/{memory_id}", openapi_extra=describe(schema.Memory))
    async def get_memory(memory_id: str) -> Response:
        """One memory."""
        return answer(await memories.get(memory_id))

    @on.put(
        "/v1/memories/{memory_id}",
        openapi_extra=describe(
            schema.Memory, body=schema.UpdateMemory, headers=(KEY,), errors=("memory_busy",)
        ),
    )
    async def update_memory(request: Request, memory_id: str) -> Response:
        """Rename, describe, restrict or move a memory."""
        asked, raw = await body(request, schema.UpdateMemory)
        return answer(await memories.update(memory_id, asked, idempotency(request, raw)))

    @on.delete(
        "/v1/memories/{memory_id}",
        openapi_extra=describe(schema.Memory, headers=(KEY,), errors=("memory_busy",)),
    )
    async def delete_memory(request: Request, memory_id: str) -> Response:
        """Delete a memory, its records and its descendants."""
        return answer(await memories.delete(memory_id, idempotency(request, await request.body())))


def grants(on: FastAPI, authz: AuthzClient) -> None:
    """Who holds what."""

    @on.get("/v1/memories/{memory_id}/grants", openapi_extra=describe(schema.Grants, query=schema.ListGrants))
    async def list_grants(request: Request, memory_id: str) -> Response:
        """Every grant that reaches a memory, and the node each sits on."""
        return answer(await authz.grants(memory_id, query(request, schema.ListGrants)))

    @on.post(
        "/v1/memories/{memory_id}/grants",
        openapi_extra=describe(schema.Grant, body=schema.NewGrant, headers=(KEY,)),
    )
    async def add_grant(request: Request, memory_id: str) -> Response:
        """Give a principal privileges on a memory and what is below it."""
        asked, raw = await body(request, schema.NewGrant)
        return answer(await authz.grant(memory_id, asked, idempotency(request, raw)))

    @on.delete(
        "/v1/memories/{memory_id}/grants/{grant_id}", openapi_extra=describe(schema.Grant, headers=(KEY,))
    )
    async def revoke_grant(request: Request, memory_id: str, grant_id: str) -> Response:
        """Take a grant back."""
        key = idempotency(request, await request.body())
        return answer(await authz.revoke_grant(memory_id, grant_id, key))
