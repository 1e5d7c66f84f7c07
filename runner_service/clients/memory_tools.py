"""What the memory tools do, asked of memory_service over gRPC for the current passport."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

import grpc

from protos.authz.v1 import authz_pb2
from protos.common.v1 import common_pb2, record_pb2
from protos.memory.v1 import memory_pb2 as wire
from protos.memory.v1 import queries_pb2, types_pb2
from protos.memory.v1.memory_pb2_grpc import MemoriesStub, RecordsStub
from protos.memory.v1.queries_pb2_grpc import QueriesStub
from protos.memory.v1.types_pb2_grpc import TypesStub
from runner_service.clients import projection
from runner_service.clients.abilities import GrpcAbilities
from runner_service.clients.filters import filter_of
from runner_service.clients.projection import timestamp
from runner_service.domain.abilities import Abilities
from runner_service.domain.errors import GroveError
from runner_service.domain.fence import raw_json
from runner_service.domain.model import Item
from runner_service.domain.tool_calls import (
    Forget,
    FreeQuery,
    Get,
    List,
    Operate,
    Pointer,
    Recall,
    Remember,
    Revise,
    RunQuery,
    ToolCall,
)

__all__ = ["GrpcToolMemory"]

_INCLUDE: Final = {
    "active": record_pb2.INCLUDE_ACTIVE,
    "superseded": record_pb2.INCLUDE_SUPERSEDED,
    "forgotten": record_pb2.INCLUDE_FORGOTTEN,
    "all": record_pb2.INCLUDE_ALL,
}
_CHILDREN: Final = 200


class GrpcToolMemory:
    """The verbs of ``domain.ports.ToolMemory``. Every call is checked there, step by step."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._memories = MemoriesStub(channel)
        self._records = RecordsStub(channel)
        self._queries = QueriesStub(channel)
        self._types = TypesStub(channel)
        self._abilities = GrpcAbilities(channel)

    async def abilities(self, memory_ids: Sequence[str]) -> Abilities:
        return await self._abilities.of(memory_ids)

    async def memories(self, memory_ids: tuple[str, ...]) -> Item:
        answer, abilities = await asyncio.gather(
            self._memories.Prime(wire.PrimeRequest(memory_ids=list(memory_ids))),
            self._abilities.of(memory_ids),
        )
        able = {one.memory_id: projection.ability(one) for one in abilities.of}
        return {
            "memories": [
                projection.memory(one.memory)
                | able.get(one.memory.id, {})
                | {"children": [projection.place(child) for child in one.children]}
                for one in answer.primed
            ]
        }

    async def call(self, call: ToolCall, key: str) -> Item:
        match call:
            case List():
                return await self._list(call)
            case Recall():
                return await self._recall(call)
            case Get():
                return await self._get(call)
            case Remember():
                return await self._remember(call, key)
            case Revise():
                return await self._revise(call, key)
            case Forget():
                return await self._forget(call, key)
            case Operate():
                return await self._operate(call, key)
            case RunQuery() | FreeQuery():
                return {"memory": call.memory} | projection.query_answer(await self._query(call))

    async def _list(self, call: List) -> Item:
        below = wire.ListMemoriesRequest(
            parent=call.memory,
            page=common_pb2.Page(limit=_CHILDREN),
            required=authz_pb2.PRIVILEGE_READ,
        )
        memory, children, abilities = await asyncio.gather(
            self._memories.GetMemory(wire.GetMemoryRequest(id=call.memory)),
            self._memories.ListMemories(below),
            self._abilities.of([call.memory]),
        )
        able = [projection.ability(one) for one in abilities.of]
        found: Item = (
            projection.memory(memory)
            | (able[0] if able else {})
            | {"children": [projection.memory(one) for one in children.memories]}
        )
        if memory.parent_id:
            found |= await self._parent(memory.parent_id)
        if children.next_cursor:
            found["degraded"] = [f"children:first_{_CHILDREN}_only"]
        return found

    async def _parent(self, memory_id: str) -> Item:
        """The memory above, described as the children are; nothing, as of a root, where it may not be read (§6.3)."""
        asked = wire.GetMemoryRequest(id=memory_id, required=authz_pb2.PRIVILEGE_READ)
        try:
            above = await self._memories.GetMemory(asked)
        except GroveError as error:
            if error.code not in {"memory_not_found", "memory_forbidden"}:
                raise
            return {}
        return {"parent": projection.memory(above)}

    async def _recall(self, call: Recall) -> Item:
        asked = record_pb2.RecallQuery(
            query=call.query,
            text=call.text,
            types=call.types,
            include=_INCLUDE[call.include],
            limit=call.limit,
        )
        if bytes(call.filters):
            asked.filter.CopyFrom(filter_of(bytes(call.filters)))
        if call.as_of:
            asked.as_of.CopyFrom(timestamp(call.as_of, "as_of"))
        request = wire.RecallRequest(memory_id=call.memory, recall=asked)
        if call.depth is not None:
            request.depth = call.depth
        answer = await self._records.Recall(request)
        found: Item = {"results": [_hit(one) for one in answer.results], "abstain": answer.abstain}
        if answer.abstain_reason:
            found["abstain_reason"] = answer.abstain_reason
        if answer.HasField("parent"):
            found["parent"] = projection.place(answer.parent)
        if answer.children:
            found["children"] = [projection.place(one) for one in answer.children]
        if answer.degraded:
            found["degraded"] = list(answer.degraded)
        return found

    async def _get(self, call: Get) -> Item:
        if call.history:
            asked = wire.HistoryRequest(memory_id=call.memory, record_id=call.record)
            if call.as_of:
                asked.as_of.CopyFrom(timestamp(call.as_of, "as_of"))
            answer = await self._records.History(asked)
            return {"versions": [projection.record(one) for one in answer.versions]}
        request = wire.GetRecordRequest(memory_id=call.memory, record_id=call.record)
        if call.as_of:
            request.as_of.CopyFrom(timestamp(call.as_of, "as_of"))
        return projection.record(await self._records.GetRecord(request))

    async def _remember(self, call: Remember, key: str) -> Item:
        draft = record_pb2.Draft(
            type=call.type,
            content=[record_pb2.Part(type="text", text=call.content)],
            attributes=bytes(call.attributes),
            references=[_reference(one) for one in call.references],
            supersedes=call.supersedes,
        )
        if call.valid_from:
            draft.valid_from.CopyFrom(timestamp(call.valid_from, "valid_from"))
        if call.valid_to:
            draft.valid_to.CopyFrom(timestamp(call.valid_to, "valid_to"))
        request = wire.RememberRequest(memory_id=call.memory, draft=draft, idempotency=_once(key))
        return projection.record(await self._records.Remember(request))

    async def _revise(self, call: Revise, key: str) -> Item:
        changes = record_pb2.Changes()
        if call.content is not None:
            changes.content.add(type="text", text=call.content)
            changes.replace_content = True
        if bytes(call.attributes):
            changes.attributes = bytes(call.attributes)
        if call.references is not None:
            changes.references.extend(_reference(one) for one in call.references)
            changes.replace_references = True
        if call.valid_from:
            changes.valid_from.CopyFrom(timestamp(call.valid_from, "valid_from"))
        if call.valid_to:
            changes.valid_to.CopyFrom(timestamp(call.valid_to, "valid_to"))
        request = wire.ReviseRequest(
            memory_id=call.memory,
            record_id=call.record,
            changes=changes,
            expected_version=call.expected_version,
            idempotency=_once(key),
        )
        return projection.record(await self._records.Revise(request))

    async def _forget(self, call: Forget, key: str) -> Item:
        request = wire.ForgetRequest(
            memory_id=call.memory,
            record_id=call.record,
            expected_version=call.expected_version,
            idempotency=_once(key),
        )
        return projection.record(await self._records.Forget(request))

    async def _query(self, call: RunQuery | FreeQuery) -> queries_pb2.QueryResponse:
        params = bytes(call.params)
        if isinstance(call, RunQuery):
            named = queries_pb2.RunQueryRequest(memory_id=call.memory, name=call.name, params=params)
            return await self._queries.RunQuery(named)
        free = queries_pb2.FreeQueryRequest(
            memory_id=call.memory, language=call.language, statement=call.statement, params=params
        )
        return await self._queries.FreeQuery(free)

    async def _operate(self, call: Operate, key: str) -> Item:
        request = types_pb2.OperateRequest(
            memory_id=call.memory,
            record_id=call.record,
            operation=call.operation,
            input=bytes(call.input),
            expected_version=call.expected_version,
            idempotency=_once(key),
        )
        answer = await self._types.Operate(request)
        found: Item = {"memory": call.memory}
        if answer.result:
            found["result"] = raw_json(answer.result)
        if answer.HasField("record"):
            found["record"] = projection.record(answer.record)
        return found | {"trust": "untrusted"}


def _hit(message: wire.RecallResult) -> Item:
    hit = message.hit
    return projection.record(hit.record) | {
        "memory_name": message.memory.name,
        "score": round(hit.score, 4),
        "why": list(hit.why),
    }


def _reference(pointer: Pointer) -> record_pb2.Reference:
    return record_pb2.Reference(rel=pointer.rel, memory_id=pointer.memory, record_id=pointer.record)


def _once(key: str) -> common_pb2.Idempotency:
    """A key of this very call, so that a write whose answer is lost on the way is not made twice."""
    return common_pb2.Idempotency(key=key, request_sha256=hashlib.sha256(key.encode()).digest())
