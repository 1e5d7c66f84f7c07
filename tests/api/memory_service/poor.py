# ruff: noqa: N802 - an RPC is called what the contract calls it
"""A provider that does as little as one can, in a process of its own: states, reads, lists and filters by type."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from protos.common.v1 import record_pb2
from protos.provider.v1 import provider_pb2 as wire
from protos.provider.v1.provider_pb2_grpc import ProviderServicer, add_ProviderServicer_to_server
from service_kit.errors import GroveError
from service_kit.rpc.server import Wiring

__all__ = ["NAME", "Poor", "poorly"]

NAME = "poor"
DOCUMENT = record_pb2.Capabilities(
    id=NAME,
    isolation="container",
    derivation="none",
    observe_answers="records",
    recall_signals=["filters"],
    recall_max_depth=0,
    history_content="none",
    history_structure="none",
    revise="emulated",
    forget="none",
    outside=True,
)
"""Everything else is not declared. A revision is emulated: the record is kept anew."""


class Poor(ProviderServicer):
    """Records by memory. What it does not carry out, gRPC answers as unimplemented."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], record_pb2.Record] = {}

    async def Describe(self, request: wire.DescribeRequest, context: Any) -> wire.DescribeResponse:
        return wire.DescribeResponse(providers=[DOCUMENT], default_provider=NAME)

    async def Remember(self, request: wire.RememberRequest, context: Any) -> record_pb2.Record:
        memory, draft = request.address.memory_id, request.draft
        now = Timestamp()
        now.GetCurrentTime()
        made = record_pb2.Record(
            id=f"poor_{len(self.kept)}",
            memory_id=memory,
            type=draft.type,
            content=draft.content,
            attributes=draft.attributes,
            references=draft.references,
            version=1,
            status=record_pb2.STATUS_ACTIVE,
            written_at=now,
            written_by=record_pb2.Writer(kind="person", id="somebody"),
        )
        self.kept[memory, made.id] = made
        return made

    async def GetRecord(self, request: wire.GetRecordRequest, context: Any) -> record_pb2.Record:
        return self._one(request.address.memory_id, request.record_id)

    async def Revise(self, request: wire.ReviseRequest, context: Any) -> record_pb2.Record:
        made = self._one(request.address.memory_id, request.record_id)
        made.version += 1
        return made

    async def ListRecords(self, request: wire.ListRecordsRequest, context: Any) -> wire.ListRecordsResponse:
        return wire.ListRecordsResponse(records=self._of(request.address.memory_id))

    async def Recall(self, request: wire.RecallRequest, context: Any) -> wire.RecallResponse:
        asked = request.recall
        lacking = [f"{signal}:not_supported" for signal in ("query", "text") if getattr(asked, signal)]
        found = (
            [one for memory in request.memory_ids for one in self._of(memory)]
            if asked.HasField("filter")
            else []
        )
        hits = [record_pb2.RecallHit(record=one, score=1.0, why=["filters"]) for one in found]
        return wire.RecallResponse(hits=hits, degraded=lacking)

    async def Count(self, request: wire.CountRequest, context: Any) -> wire.CountResponse:
        return wire.CountResponse(counts={memory: len(self._of(memory)) for memory in request.memory_ids})

    async def Exist(self, request: wire.ExistRequest, context: Any) -> wire.ExistResponse:
        known = [one for one in request.records if (one.memory_id, one.record_id) in self.kept]
        return wire.ExistResponse(records=known)

    async def Purge(self, request: wire.PurgeRequest, context: Any) -> wire.PurgeResponse:
        self.kept = {named: one for named, one in self.kept.items() if named[0] != request.address.memory_id}
        return wire.PurgeResponse()

    def _of(self, memory: str) -> list[record_pb2.Record]:
        return [one for (held_by, _), one in self.kept.items() if held_by == memory]

    def _one(self, memory: str, record: str) -> record_pb2.Record:
        if (memory, record) not in self.kept:
            raise GroveError("memory_record_not_found", "There is no such record in this memory.")
        return self.kept[memory, record]


@asynccontextmanager
async def poorly(_: object) -> AsyncGenerator[Wiring]:
    """The composition root of its process."""

    def register(server: grpc.aio.Server) -> None:
        add_ProviderServicer_to_server(Poor(), server)  # pyright: ignore[reportAbstractUsage] - that is the point

    yield Wiring(servicers=[register], service_names=["grovekeeper.provider.v1.Provider"])
