"""The RPCs of protos/memory/v1: convert, call the use case, convert."""

from typing import Any

from grpc.aio import ServicerContext

from memory_service.api import convert
from memory_service.domain import errors
from memory_service.domain.memories import Memories
from memory_service.domain.model import Changed, Description, Question
from memory_service.domain.prime import Prime
from memory_service.domain.recall import Recall
from memory_service.domain.records import Records
from protos.common.v1 import record_pb2
from protos.memory.v1 import memory_pb2 as wire
from protos.memory.v1.memory_pb2_grpc import MemoriesServicer as MemoriesBase
from protos.memory.v1.memory_pb2_grpc import RecordsServicer as RecordsBase
from service_kit.clock import Clock

MAX_EPISODES = 500
MAX_ERASED = 1_000
MAX_PRIMED = 100

Context = ServicerContext[Any, Any]


class MemoriesServicer(MemoriesBase):
    """The tree's nodes."""

    def __init__(self, memories: Memories, prime: Prime, clock: Clock) -> None:
        self._memories = memories
        self._prime = prime
        self._clock = clock

    async def CreateMemory(self, request: wire.CreateMemoryRequest, context: Context) -> wire.Memory:
        now = self._clock.now()
        stated = Description("", request.name, request.description, request.provider, now, now)
        made = await self._memories.create(
            stated,
            request.parent_id,
            restricted=request.restricted,
            idempotency=convert.idempotency(request.idempotency),
        )
        return convert.memory(made)

    async def GetMemory(self, request: wire.GetMemoryRequest, context: Context) -> wire.Memory:
        return convert.memory(await self._memories.get(request.id, convert.required(request.required)))

    async def ListMemories(
        self, request: wire.ListMemoriesRequest, context: Context
    ) -> wire.ListMemoriesResponse:
        page, required = convert.page(request.page), convert.required(request.required)
        where = request.WhichOneof("where")
        if required is not None and where != "parent":
            raise errors.invalid(
                "A privilege narrows the children of a memory and no other list.", "required"
            )
        match where:
            case "parent":
                found = await self._memories.children(request.parent, page, required)
            case "ancestor":
                found = await self._memories.descendants(request.ancestor, page)
            case _:
                found = await self._memories.entry_points(page)
        memories = [convert.memory(one) for one in found.memories]
        return wire.ListMemoriesResponse(memories=memories, next_cursor=found.next_cursor)

    async def UpdateMemory(self, request: wire.UpdateMemoryRequest, context: Context) -> wire.Memory:
        changed = Changed(
            name=request.name if request.HasField("name") else None,
            description=request.description if request.HasField("description") else None,
            restricted=request.restricted if request.HasField("restricted") else None,
            parent_id=request.parent_id if request.HasField("parent_id") else None,
            provider=request.provider if request.HasField("provider") else None,
        )
        key = convert.idempotency(request.idempotency)
        return convert.memory(await self._memories.update(request.id, changed, key))

    async def DeleteMemory(self, request: wire.DeleteMemoryRequest, context: Context) -> wire.Memory:
        key = convert.idempotency(request.idempotency)
        return convert.memory(await self._memories.delete(request.id, key))

    async def ListProviders(
        self, request: wire.ListProvidersRequest, context: Context
    ) -> wire.ListProvidersResponse:
        found = await self._memories.providers()
        return wire.ListProvidersResponse(providers=[convert.capabilities(one) for one in found])

    async def Prime(self, request: wire.PrimeRequest, context: Context) -> wire.PrimeResponse:
        if len(request.memory_ids) > MAX_PRIMED:
            raise errors.invalid(f"At most {MAX_PRIMED} memories are primed at once.", "memory_ids")
        found = await self._prime.prime(request.memory_ids)
        return wire.PrimeResponse(primed=[convert.primed(one) for one in found])


class RecordsServicer(RecordsBase):
    """The records of one memory."""

    def __init__(self, records: Records, recall: Recall) -> None:
        self._records = records
        self._recall = recall

    async def Observe(self, request: wire.ObserveRequest, context: Context) -> wire.ObserveResponse:
        if not 1 <= len(request.episodes) <= MAX_EPISODES:
            raise errors.invalid(f"An observe takes 1 to {MAX_EPISODES} episodes.", "episodes")
        episodes = [convert.episode(one) for one in request.episodes]
        key = convert.idempotency(request.idempotency)
        observed = await self._records.observe(request.memory_id, episodes, key)
        return wire.ObserveResponse(
            job=None if observed.job is None else convert.job(observed.job),
            records=[convert.record(one) for one in observed.records],
        )

    async def GetJob(self, request: wire.GetJobRequest, context: Context) -> record_pb2.Job:
        return convert.job(await self._records.job(request.memory_id, request.job_id))

    async def Remember(self, request: wire.RememberRequest, context: Context) -> record_pb2.Record:
        draft, key = convert.draft(request.draft), convert.idempotency(request.idempotency)
        return convert.record(await self._records.remember(request.memory_id, draft, key))

    async def GetRecord(self, request: wire.GetRecordRequest, context: Context) -> record_pb2.Record:
        as_of = convert.moment(request.as_of) if request.HasField("as_of") else None
        return convert.record(await self._records.get(request.memory_id, request.record_id, as_of))

    async def ListRecords(
        self, request: wire.ListRecordsRequest, context: Context
    ) -> wire.ListRecordsResponse:
        selection, page = convert.selection(request), convert.page(request.page)
        found = await self._records.list(request.memory_id, selection, page)
        return wire.ListRecordsResponse(
            records=[convert.record(one) for one in found.records],
            next_cursor=found.next_cursor,
            degraded=found.degraded,
        )

    async def Revise(self, request: wire.ReviseRequest, context: Context) -> record_pb2.Record:
        revised = await self._records.revise(
            request.memory_id,
            request.record_id,
            convert.changes(request.changes),
            request.expected_version,
            convert.idempotency(request.idempotency),
        )
        return convert.record(revised)

    async def Forget(self, request: wire.ForgetRequest, context: Context) -> record_pb2.Record:
        forgotten = await self._records.forget(
            request.memory_id,
            request.record_id,
            request.expected_version,
            convert.idempotency(request.idempotency),
        )
        return convert.record(forgotten)

    async def Erase(self, request: wire.EraseRequest, context: Context) -> wire.EraseResponse:
        if not 1 <= len(request.record_ids) <= MAX_ERASED:
            raise errors.invalid(f"An erase takes 1 to {MAX_ERASED} record ids.", "record_ids")
        key = convert.idempotency(request.idempotency)
        erased = await self._records.erase(request.memory_id, request.record_ids, key)
        return wire.EraseResponse(erased=erased.erased, unreachable=erased.unreachable)

    async def History(self, request: wire.HistoryRequest, context: Context) -> wire.HistoryResponse:
        as_of = convert.moment(request.as_of) if request.HasField("as_of") else None
        versions = await self._records.history(request.memory_id, request.record_id, as_of)
        return wire.HistoryResponse(versions=[convert.record(one) for one in versions])

    async def Recall(self, request: wire.RecallRequest, context: Context) -> wire.RecallResponse:
        asked = request.recall
        asks_something = bool(asked.query or asked.text or asked.HasField("filter"))
        question = Question(asked, asked.limit or 8, asks_something, past=asked.HasField("as_of"))
        depth = request.depth if request.HasField("depth") else None
        return convert.recalled(await self._recall.recall(request.memory_id, question, depth))
