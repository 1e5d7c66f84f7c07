"""The connected providers, asked over the provider contract (protos/provider/v1)."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final, TypeVar, cast

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from memory_service.clients.types import operate_request, types_of
from memory_service.domain.model import (
    Address,
    Capabilities,
    Erased,
    Evidence,
    File,
    Found,
    Hit,
    Idempotency,
    Job,
    Observed,
    Page,
    Question,
    Record,
    RecordPage,
    Reference,
    Stamp,
    Stated,
)
from memory_service.domain.record_types import Operate, Operated, RecordType
from protos.common.v1 import record_pb2
from protos.common.v1.common_pb2 import Idempotency as WireIdempotency
from protos.common.v1.common_pb2 import Page as WirePage
from protos.provider.v1 import provider_pb2 as wire
from protos.provider.v1 import queries_pb2
from protos.provider.v1.provider_pb2_grpc import ProviderStub
from protos.provider.v1.queries_pb2_grpc import SnapshotsStub
from protos.provider.v1.types_pb2_grpc import TypesStub
from service_kit.errors import GroveError

SAFE: Final = tuple(
    f"grovekeeper.provider.v1.Provider/{method}"
    for method in (
        "Describe",
        "GetJob",
        "GetRecord",
        "ListRecords",
        "History",
        "Recall",
        "Count",
        "Exist",
        "Prime",
        "Purge",
    )
)
"""What may be sent twice."""

_Found = TypeVar("_Found", record_pb2.Draft, record_pb2.Changes)
_OUT_OF_REACH: Final = {"grovekeeper_unavailable", "grovekeeper_deadline", "server_error"}
_LEFT_OUT: Final = "grovekeeper_method_not_allowed"


class GrpcProvider:
    """The verbs of ``domain.ports.Provider``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = ProviderStub(channel)
        self._snapshots = SnapshotsStub(channel)
        self._types = TypesStub(channel)

    async def describe(self) -> tuple[Capabilities, ...]:
        async with reachable():
            answer = await self._stub.Describe(wire.DescribeRequest())
        return tuple(_capabilities(one) for one in answer.providers)

    async def observe(self, address: Address, episodes: Sequence[Stated], stamp: Stamp) -> Observed:
        request = wire.ObserveRequest(
            address=address_of(address),
            episodes=[cast(wire.Episode, one.payload) for one in episodes],
            written_by=writer_of(stamp),
            idempotency=idempotency_of(stamp.idempotency),
        )
        for written, one in zip(request.episodes, episodes, strict=True):
            _name_files(written.content, one)
        async with reachable():
            answer = await self._stub.Observe(request, timeout=30.0)
        job = job_of(answer.job) if answer.HasField("job") else None
        return Observed(job, tuple(record_of(one) for one in answer.records))

    async def job(self, address: Address, job_id: str) -> Job:
        async with reachable():
            request = wire.GetJobRequest(address=address_of(address), job_id=job_id)
            return job_of(await self._stub.GetJob(request))

    async def remember(self, address: Address, draft: Stated, stamp: Stamp) -> Record:
        request = wire.RememberRequest(
            address=address_of(address),
            draft=_found_by(cast(record_pb2.Draft, draft.payload), draft),
            written_by=writer_of(stamp),
            idempotency=idempotency_of(stamp.idempotency),
        )
        _name_files(request.draft.content, draft)
        async with reachable():
            return record_of(await self._stub.Remember(request))

    async def get(self, address: Address, record_id: str, as_of: datetime | None) -> Record:
        request = wire.GetRecordRequest(address=address_of(address), record_id=record_id)
        if as_of is not None:
            request.as_of.CopyFrom(_timestamp(as_of))
        async with reachable():
            return record_of(await self._stub.GetRecord(request))

    async def list(self, address: Address, selection: Stated, page: Page) -> RecordPage:
        request = wire.ListRecordsRequest()
        request.CopyFrom(cast(wire.ListRecordsRequest, selection.payload))
        request.address.CopyFrom(address_of(address))
        request.page.CopyFrom(WirePage(limit=page.limit, cursor=page.cursor))
        async with reachable():
            answer = await self._stub.ListRecords(request)
        records = tuple(record_of(one) for one in answer.records)
        return RecordPage(records, answer.next_cursor, tuple(answer.degraded))

    async def revise(
        self, address: Address, record_id: str, changes: Stated, expected_version: int, stamp: Stamp
    ) -> Record:
        request = wire.ReviseRequest(
            address=address_of(address),
            record_id=record_id,
            changes=_found_by(cast(record_pb2.Changes, changes.payload), changes),
            expected_version=expected_version,
            written_by=writer_of(stamp),
            idempotency=idempotency_of(stamp.idempotency),
        )
        _name_files(request.changes.content, changes)
        async with reachable():
            return record_of(await self._stub.Revise(request))

    async def forget(self, address: Address, record_id: str, expected_version: int, stamp: Stamp) -> Record:
        request = wire.ForgetRequest(
            address=address_of(address),
            record_id=record_id,
            expected_version=expected_version,
            written_by=writer_of(stamp),
            idempotency=idempotency_of(stamp.idempotency),
        )
        async with reachable():
            return record_of(await self._stub.Forget(request))

    async def erase(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        request = wire.EraseRequest(
            address=address_of(address),
            record_ids=record_ids,
            written_by=writer_of(stamp),
            idempotency=idempotency_of(stamp.idempotency),
        )
        async with reachable():
            answer = await self._stub.Erase(request, timeout=60.0)
        elsewhere = tuple((one.memory_id, one.record_id) for one in answer.elsewhere)
        return Erased(tuple(answer.erased), tuple(answer.unreachable), elsewhere, tuple(answer.file_ids))

    async def history(self, address: Address, record_id: str, as_of: datetime | None) -> tuple[Record, ...]:
        request = wire.HistoryRequest(address=address_of(address), record_id=record_id)
        if as_of is not None:
            request.as_of.CopyFrom(_timestamp(as_of))
        async with reachable():
            answer = await self._stub.History(request)
        return tuple(record_of(one) for one in answer.versions)

    async def types(self) -> tuple[RecordType, ...]:
        async with reachable():
            return types_of(await self._stub.Describe(wire.DescribeRequest()))

    async def operate(self, address: Address, record_id: str, asked: Operate, stamp: Stamp) -> Operated:
        request = operate_request(asked)
        request.address.CopyFrom(address_of(address))
        request.record_id = record_id
        request.written_by.CopyFrom(writer_of(stamp))
        request.idempotency.CopyFrom(idempotency_of(stamp.idempotency))
        async with reachable():
            answer = await self._types.Operate(request)
        return Operated(record_of(answer.record), answer.result)

    async def snapshot(self, address: Address) -> datetime:
        async with reachable():
            answer = await self._snapshots.Snapshot(queries_pb2.SnapshotRequest(address=address_of(address)))
        return answer.at.ToDatetime(UTC)

    async def recall(self, provider: str, memory_ids: Sequence[str], question: Question) -> Found:
        request = wire.RecallRequest(
            provider=provider,
            memory_ids=memory_ids,
            recall=cast(record_pb2.RecallQuery, question.payload),
        )
        async with reachable():
            answer = await self._stub.Recall(request)
        hits = tuple(
            Hit(record_of(one.record), one.score, tuple(one.why), dict(one.signals)) for one in answer.hits
        )
        evidence = Evidence(answer.evidence.score, answer.evidence.threshold)
        return Found(
            hits,
            tuple(answer.degraded),
            abstain=answer.abstain,
            reason=answer.abstain_reason,
            evidence=evidence if answer.HasField("evidence") else None,
        )

    async def count(self, provider: str, memory_ids: Sequence[str]) -> dict[str, int]:
        request = wire.CountRequest(provider=provider, memory_ids=memory_ids)
        async with reachable():
            answer = await self._stub.Count(request)
        return dict(answer.counts)

    async def exist(self, provider: str, records: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        request = wire.ExistRequest(
            provider=provider,
            records=[wire.RecordAddress(memory_id=one, record_id=other) for one, other in records],
        )
        async with reachable():
            answer = await self._stub.Exist(request)
        return frozenset((one.memory_id, one.record_id) for one in answer.records)

    async def prime(self, address: Address) -> tuple[Record, ...]:
        async with reachable():
            answer = await self._stub.Prime(wire.PrimeRequest(address=address_of(address)))
        return tuple(record_of(one) for one in answer.records)

    async def purge(self, address: Address) -> None:
        async with reachable():
            await self._stub.Purge(wire.PurgeRequest(address=address_of(address)), timeout=120.0)


@asynccontextmanager
async def reachable() -> AsyncGenerator[None]:
    """A provider that does not answer is ``memory_unavailable``, and what it does not carry out at all
    ``memory_unsupported`` (Memories, section 12).
    """
    try:
        yield
    except GroveError as error:
        if error.code == _LEFT_OUT:
            raise GroveError("memory_unsupported", "The provider of this memory does not do that.") from error
        if error.code not in _OUT_OF_REACH:
            raise
        raise GroveError("memory_unavailable", "The memory's provider did not answer; try again.") from error


def _capabilities(document: record_pb2.Capabilities) -> Capabilities:
    return Capabilities(
        id=document.id,
        max_depth=document.recall_max_depth,
        files=document.files,
        erase=bool(document.erase_unreachable),
        payload=document,
        types=document.types,
        snapshots=document.snapshots,
        structure=document.history_structure not in ("", "none"),
        named_query_languages=tuple(document.named_query_languages),
        free_query_languages=tuple(document.free_query_languages),
        outside=document.outside,
        query_schema=document.query_schema,
        consolidate=document.consolidate,
    )


def address_of(address: Address) -> wire.Address:
    """A memory as its provider keeps it."""
    return wire.Address(provider=address.provider, memory_id=address.memory_id)


def _name_files(parts: Iterable[record_pb2.Part], stated: Stated) -> None:
    """Only what this service vouches for is said of a file beyond its id; a ``version`` says that it does."""
    for part in parts:
        if part.HasField("file"):
            file = stated.vouched.get(part.file.id, File(part.file.id, "", "", 0))
            part.file.CopyFrom(
                record_pb2.File(
                    id=file.id,
                    name=file.name,
                    media_type=file.media_type,
                    bytes=file.bytes,
                    version=file.version,
                )
            )


def writer_of(stamp: Stamp) -> record_pb2.Writer:
    """Who writes."""
    return record_pb2.Writer(kind=stamp.writer.kind, id=stamp.writer.id)


def idempotency_of(idempotency: Idempotency) -> WireIdempotency:
    """The key of a write."""
    return WireIdempotency(key=idempotency.key, request_sha256=idempotency.request_sha256)


def _timestamp(moment: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(moment)
    return made


def _found_by(payload: _Found, stated: Stated) -> _Found:
    """What a writer states, with the words it is found by: ours, never the writer's."""
    payload.ClearField("projection")
    if stated.projection is not None:
        payload.projection = stated.projection
    return payload


def record_of(record: record_pb2.Record) -> Record:
    """A provider's answer, carried and not looked into."""
    references = tuple(Reference(one.rel, one.memory_id, one.record_id) for one in record.references)
    return Record(record.id, record.memory_id, references, record, type=record.type)


def job_of(job: record_pb2.Job) -> Job:
    """A job with its records."""
    return Job(job, tuple(record_of(one) for one in job.records))
