"""The RPCs of protos/provider/v1: convert, call the operation, convert."""

from typing import Any

from grpc.aio import ServicerContext

from protos.common.v1 import record_pb2
from protos.provider.v1 import provider_pb2 as wire
from protos.provider.v1.provider_pb2_grpc import ProviderServicer as Base
from provider_workers.api import convert
from provider_workers.api.types import record_type
from provider_workers.domain.operations import Operations

Context = ServicerContext[Any, Any]


class ProviderServicer(Base):
    """The provider contract, served for every connected memory system."""

    def __init__(self, operations: Operations, default_provider: str) -> None:
        self._operations = operations
        self._default_provider = default_provider

    async def Describe(self, request: wire.DescribeRequest, context: Context) -> wire.DescribeResponse:
        documents = [convert.capabilities(one) for one in self._operations.describe()]
        types = [
            wire.ProviderTypes(provider=provider, types=[record_type(one) for one in theirs])
            for provider, theirs in self._operations.types().items()
        ]
        return wire.DescribeResponse(
            providers=documents, default_provider=self._default_provider, types=types
        )

    async def Observe(self, request: wire.ObserveRequest, context: Context) -> wire.ObserveResponse:
        address, stamp = (
            convert.address(request.address),
            convert.stamp(request.written_by, request.idempotency),
        )
        episodes = [convert.episode(one) for one in request.episodes]
        observed = await self._operations.observe(address, episodes, stamp)
        return wire.ObserveResponse(
            job=None if observed.job is None else convert.job(observed.job),
            records=[convert.record(one) for one in observed.records],
        )

    async def GetJob(self, request: wire.GetJobRequest, context: Context) -> record_pb2.Job:
        return convert.job(await self._operations.job(convert.address(request.address), request.job_id))

    async def Remember(self, request: wire.RememberRequest, context: Context) -> record_pb2.Record:
        address, stamp = (
            convert.address(request.address),
            convert.stamp(request.written_by, request.idempotency),
        )
        return convert.record(await self._operations.remember(address, convert.draft(request.draft), stamp))

    async def GetRecord(self, request: wire.GetRecordRequest, context: Context) -> record_pb2.Record:
        address, as_of = convert.address(request.address), convert.as_of(request)
        return convert.record(await self._operations.get(address, request.record_id, as_of))

    async def ListRecords(
        self, request: wire.ListRecordsRequest, context: Context
    ) -> wire.ListRecordsResponse:
        address, selection = convert.address(request.address), convert.selection(request)
        page = await self._operations.list(address, selection, convert.page(request.page))
        return wire.ListRecordsResponse(
            records=[convert.record(one) for one in page.records],
            next_cursor=page.next_cursor,
            degraded=page.degraded,
        )

    async def Revise(self, request: wire.ReviseRequest, context: Context) -> record_pb2.Record:
        address, stamp = (
            convert.address(request.address),
            convert.stamp(request.written_by, request.idempotency),
        )
        changes = convert.changes(request.changes)
        revised = await self._operations.revise(
            address, request.record_id, changes, request.expected_version, stamp
        )
        return convert.record(revised)

    async def Forget(self, request: wire.ForgetRequest, context: Context) -> record_pb2.Record:
        address, stamp = (
            convert.address(request.address),
            convert.stamp(request.written_by, request.idempotency),
        )
        forgotten = await self._operations.forget(address, request.record_id, request.expected_version, stamp)
        return convert.record(forgotten)

    async def Erase(self, request: wire.EraseRequest, context: Context) -> wire.EraseResponse:
        address, stamp = (
            convert.address(request.address),
            convert.stamp(request.written_by, request.idempotency),
        )
        erased = await self._operations.erase(address, request.record_ids, stamp)
        return convert.erased(erased)

    async def History(self, request: wire.HistoryRequest, context: Context) -> wire.HistoryResponse:
        address, as_of = convert.address(request.address), convert.as_of(request)
        versions = await self._operations.history(address, request.record_id, as_of)
        return wire.HistoryResponse(versions=[convert.record(one) for one in versions])

    async def Recall(self, request: wire.RecallRequest, context: Context) -> wire.RecallResponse:
        question = convert.question(request.recall)
        found = await self._operations.recall(request.provider, request.memory_ids, question)
        return convert.found(found, explain=question.explain)

    async def Count(self, request: wire.CountRequest, context: Context) -> wire.CountResponse:
        return wire.CountResponse(counts=await self._operations.count(request.provider, request.memory_ids))

    async def Exist(self, request: wire.ExistRequest, context: Context) -> wire.ExistResponse:
        asked = [(one.memory_id, one.record_id) for one in request.records]
        existing = await self._operations.exist(request.provider, asked)
        records = [
            wire.RecordAddress(memory_id=memory_id, record_id=record_id) for memory_id, record_id in existing
        ]
        return wire.ExistResponse(records=records)

    async def Prime(self, request: wire.PrimeRequest, context: Context) -> wire.PrimeResponse:
        primed = await self._operations.prime(convert.address(request.address))
        return wire.PrimeResponse(records=[convert.record(one) for one in primed])

    async def Purge(self, request: wire.PurgeRequest, context: Context) -> wire.PurgeResponse:
        await self._operations.purge(convert.address(request.address))
        return wire.PurgeResponse()
