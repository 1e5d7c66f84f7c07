"""Records of memory_service."""

from collections.abc import Iterable
from typing import Final

import grpc

from gateway.clients import records_convert as convert
from gateway.clients.convert import cursor, idempotency, page, timestamp
from gateway.http import Idempotency, decode
from gateway.schemas import records as schema
from gateway.schemas.filters import Filter
from protos.common.v1 import record_pb2
from protos.memory.v1 import memory_pb2, memory_pb2_grpc

__all__ = ["SAFE", "RecordsClient"]

SAFE = tuple(
    f"grovekeeper.memory.v1.Records/{method}"
    for method in ("GetJob", "GetRecord", "ListRecords", "History", "Recall")
)
"""Methods that may be sent twice."""
_WITH_FILES_S: Final = 150.0
"""How long a write may take whose files are handed over to the memory's provider."""


def _patience(parts: "Iterable[record_pb2.Part]") -> float | None:
    return _WITH_FILES_S if any(part.HasField("file") for part in parts) else None


class RecordsClient:
    """The operations on one memory's records (Memories, sections 5 and 6)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._records = memory_pb2_grpc.RecordsStub(channel)

    async def observe(self, memory_id: str, asked: schema.Observe, key: Idempotency) -> schema.Observed:
        """Append episodes."""
        request = memory_pb2.ObserveRequest(
            memory_id=memory_id,
            episodes=[convert.episode(one, f"episodes.{i}") for i, one in enumerate(asked.episodes)],
            idempotency=idempotency(key),
        )
        parts = [part for episode in request.episodes for part in episode.content]
        answer = await self._records.Observe(request, timeout=_patience(parts))
        return schema.Observed(
            job=convert.job(answer.job) if answer.HasField("job") else None,
            records=[convert.record(one) for one in answer.records],
        )

    async def job(self, memory_id: str, job_id: str) -> schema.Job:
        """What an observe has written since."""
        return convert.job(
            await self._records.GetJob(memory_pb2.GetJobRequest(memory_id=memory_id, job_id=job_id))
        )

    async def remember(self, memory_id: str, asked: schema.Remember, key: Idempotency) -> schema.Record:
        """Write one record as stated."""
        request = memory_pb2.RememberRequest(
            memory_id=memory_id, draft=convert.draft(asked), idempotency=idempotency(key)
        )
        return convert.record(await self._records.Remember(request, timeout=_patience(request.draft.content)))

    async def get(self, memory_id: str, record_id: str, at: schema.ReadAt) -> schema.Record:
        """One record, as it stands or stood."""
        request = memory_pb2.GetRecordRequest(
            memory_id=memory_id,
            record_id=record_id,
            as_of=None if at.as_of is None else timestamp(at.as_of, "as_of"),
        )
        return convert.record(await self._records.GetRecord(request))

    async def list(self, memory_id: str, asked: schema.ListRecords) -> schema.RecordPage:
        """A page of records."""
        selected = decode(asked.filters.encode(), Filter, "filters") if asked.filters else None
        answer = await self._records.ListRecords(
            memory_pb2.ListRecordsRequest(
                memory_id=memory_id,
                types=asked.types,
                filter=convert.wire_filter(selected),
                include=convert.include(asked.include),
                as_of=None if asked.as_of is None else timestamp(asked.as_of, "as_of"),
                page=page(asked.limit, asked.cursor),
            )
        )
        return schema.RecordPage(
            records=[convert.record(one) for one in answer.records],
            next_cursor=cursor(answer.next_cursor),
            degraded=list(answer.degraded),
        )

    async def revise(
        self, memory_id: str, record_id: str, asked: schema.Revise, expected: int, key: Idempotency
    ) -> schema.Record:
        """Append a version; ``expected`` is the one it must follow, 0 for any."""
        request = memory_pb2.ReviseRequest(
            memory_id=memory_id,
            record_id=record_id,
            changes=convert.changes(asked),
            expected_version=expected,
            idempotency=idempotency(key),
        )
        return convert.record(await self._records.Revise(request, timeout=_patience(request.changes.content)))

    async def forget(self, memory_id: str, record_id: str, expected: int, key: Idempotency) -> schema.Record:
        """Close a record, keep the trace."""
        request = memory_pb2.ForgetRequest(
            memory_id=memory_id, record_id=record_id, expected_version=expected, idempotency=idempotency(key)
        )
        return convert.record(await self._records.Forget(request))

    async def erase(self, memory_id: str, asked: schema.Erase, key: Idempotency) -> schema.Erased:
        """Remove content for good."""
        request = memory_pb2.EraseRequest(
            memory_id=memory_id, record_ids=asked.record_ids, idempotency=idempotency(key)
        )
        answer = await self._records.Erase(request)
        return schema.Erased(erased=list(answer.erased), unreachable=list(answer.unreachable))

    async def history(self, memory_id: str, record_id: str, at: schema.ReadAt) -> "list[schema.Record]":
        """Every version, oldest first, or those there were at an instant."""
        request = memory_pb2.HistoryRequest(
            memory_id=memory_id,
            record_id=record_id,
            as_of=None if at.as_of is None else timestamp(at.as_of, "as_of"),
        )
        answer = await self._records.History(request)
        return [convert.record(one) for one in answer.versions]

    async def recall(self, memory_id: str, asked: schema.Recall, depth: int | None) -> schema.Recalled:
        """Retrieve; ``depth`` None is the one memory, -1 everything below too."""
        request = memory_pb2.RecallRequest(
            memory_id=memory_id, recall=convert.recall_query(asked), depth=depth
        )
        return convert.recalled(await self._records.Recall(request))
