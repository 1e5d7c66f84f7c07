"""The tree's nodes, of memory_service."""

from typing import Literal

import grpc

from gateway.clients.convert import cursor, idempotency, milliseconds, page, privileges
from gateway.errors import invalid
from gateway.http import Idempotency
from gateway.schemas import memories as schema
from gateway.schemas.base import UNSET, Count, UnsetType
from protos.common.v1 import record_pb2
from protos.memory.v1 import memory_pb2, memory_pb2_grpc

__all__ = ["SAFE", "MemoriesClient"]

SAFE = tuple(
    f"grovekeeper.memory.v1.Memories/{method}" for method in ("GetMemory", "ListMemories", "ListProviders")
)
"""Methods that may be sent twice."""


class MemoriesClient:
    """Memories as objects (Memories, section 2) and the providers that keep them (section 10.2)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._memories = memory_pb2_grpc.MemoriesStub(channel)

    async def create(self, asked: schema.CreateMemory, key: Idempotency) -> schema.Memory:
        """Create a memory."""
        request = memory_pb2.CreateMemoryRequest(
            name=asked.name,
            description=asked.description or "",
            parent_id=asked.parent_id or "",
            restricted=asked.restricted or False,
            provider=asked.provider or "",
            idempotency=idempotency(key),
        )
        return _memory(await self._memories.CreateMemory(request))

    async def get(self, memory_id: str) -> schema.Memory:
        """One memory."""
        return _memory(await self._memories.GetMemory(memory_pb2.GetMemoryRequest(id=memory_id)))

    async def list(self, asked: schema.ListMemories) -> schema.Memories:
        """One level, the entry points, or everything below an ancestor."""
        if asked.parent and asked.ancestor:
            raise invalid("A listing has a parent or an ancestor, not both.", "ancestor")
        request = memory_pb2.ListMemoriesRequest(page=page(asked.limit, asked.cursor))
        if asked.parent:
            request.parent = asked.parent
        elif asked.ancestor:
            request.ancestor = asked.ancestor
        answer = await self._memories.ListMemories(request)
        return schema.Memories(
            data=[_memory(one) for one in answer.memories], next_cursor=cursor(answer.next_cursor)
        )

    async def update(self, memory_id: str, asked: schema.UpdateMemory, key: Idempotency) -> schema.Memory:
        """Rename, describe, restrict or move."""
        request = memory_pb2.UpdateMemoryRequest(id=memory_id, idempotency=idempotency(key))
        if not isinstance(asked.name, UnsetType):
            request.name = asked.name
        if not isinstance(asked.description, UnsetType):
            request.description = asked.description
        if not isinstance(asked.restricted, UnsetType):
            request.restricted = asked.restricted
        if not isinstance(asked.parent_id, UnsetType):
            request.parent_id = asked.parent_id or ""
        if not isinstance(asked.provider, UnsetType):
            request.provider = asked.provider
        return _memory(await self._memories.UpdateMemory(request))

    async def delete(self, memory_id: str, key: Idempotency) -> schema.Memory:
        """Delete a memory, its records and its descendants; the memory as it was."""
        request = memory_pb2.DeleteMemoryRequest(id=memory_id, idempotency=idempotency(key))
        return _memory(await self._memories.DeleteMemory(request))

    async def providers(self) -> schema.Providers:
        """The capability documents."""
        answer = await self._memories.ListProviders(memory_pb2.ListProvidersRequest())
        return schema.Providers(data=[_capabilities(one) for one in answer.providers])


def _memory(message: memory_pb2.Memory) -> schema.Memory:
    return schema.Memory(
        id=message.id,
        name=message.name,
        description=message.description,
        parent_id=message.parent_id or None,
        ancestors=list(message.ancestors),
        restricted=message.restricted,
        provider=message.provider,
        privileges=privileges(message.privileges),
        records=Count(count=message.records_count),
        children=Count(count=message.children_count),
        createdAt=milliseconds(message.created_at),
        updatedAt=milliseconds(message.updated_at),
    )


def _capabilities(message: record_pb2.Capabilities) -> schema.ProviderCapabilities:
    return schema.ProviderCapabilities(
        id=message.id,
        isolation=message.isolation,
        derivation=message.derivation,
        observe=schema.Observing(
            keeps_episodes=message.observe_keeps_episodes, answers=message.observe_answers
        ),
        recall=schema.Recalling(
            signals=list(message.recall_signals),
            abstain=message.recall_abstain,
            max_depth=message.recall_max_depth,
        ),
        history=schema.Keeping(content=message.history_content, structure=message.history_structure),
        revise=_unless_none(message.revise),
        forget=_unless_none(message.forget),
        erase=schema.Erasing(unreachable=message.erase_unreachable) if message.erase_unreachable else False,
        prime=message.prime,
        consolidate=_unless_none(message.consolidate),
        queries=schema.Queries(
            named=message.named_queries,
            languages=list(message.named_query_languages),
            free=_free(message),
        ),
        types=message.types,
        files=message.files,
        snapshots=message.snapshots,
        content=schema.Holding(
            media=list(message.content_media),
            bytes=message.content_bytes or UNSET,
            describes=message.content_describes,
        ),
        outside=message.outside,
    )


def _free(message: record_pb2.Capabilities) -> schema.FreeQueries | Literal[False]:
    if not message.free_query_languages:
        return False
    return schema.FreeQueries(languages=list(message.free_query_languages), write=message.free_query_write)


def _unless_none(declared: str) -> str | Literal[False]:
    return False if declared in ("", "none") else declared
