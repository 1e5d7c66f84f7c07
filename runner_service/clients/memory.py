"""Prime and observe (Memories §9.1), asked of memory_service over gRPC."""

import hashlib
from collections.abc import Sequence
from typing import Final, cast

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from protos.common.v1 import common_pb2, record_pb2
from protos.memory.v1 import memory_pb2 as wire
from protos.memory.v1.memory_pb2_grpc import MemoriesStub, RecordsStub
from runner_service.clients import projection
from runner_service.clients.tokens import Tokenizer
from runner_service.domain.fence import fenced, line
from runner_service.domain.model import Attachment, Episode, Item, Known, Primed, Priming, Response
from runner_service.domain.response_object import encode

__all__ = ["SAFE", "GrpcMemory"]

SAFE: Final = tuple(
    f"grovekeeper.memory.v1.{method}"
    for method in (
        "Abilities/ListAbilities",
        "Memories/GetMemory",
        "Memories/ListMemories",
        "Memories/Prime",
        "Records/Observe",
        "Records/GetRecord",
        "Records/History",
        "Records/Recall",
    )
)
"""What may be sent twice: reads, and the observe, which always has a key."""

_INTRODUCTION: Final = (
    "You work with memories that outlast this conversation. The memory tools read them and, where you may, write"
    " them; a memory is named by its id. You may walk from a memory to its parent and children."
)
_MAX_CHILDREN: Final = 16 * 1024
"""Characters of a memory's children in the instructions; ``memory_list`` names the others."""


class GrpcMemory:
    """The verbs of ``domain.ports.Memory``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._memories = MemoriesStub(channel)
        self._records = RecordsStub(channel)
        self._tokenizer = Tokenizer()

    async def prime(self, attachments: Sequence[Attachment], default: str) -> Priming:
        answer = await self._memories.Prime(
            wire.PrimeRequest(memory_ids=[one.memory_id for one in attachments])
        )
        access = {one.memory_id: one.access for one in attachments}
        told = [_told(one, access.get(one.memory.id, "read"), default) for one in answer.primed]
        if not told:
            return Priming("", ())
        counted = await self._tokenizer.count([line(one) for one in told])
        return Priming(
            block=f"{_INTRODUCTION}\n{fenced({'memories': told})}",
            primed=tuple(
                Primed(one.memory.id, one.memory.name, tokens)
                for one, tokens in zip(answer.primed, counted or [None] * len(told), strict=True)
            ),
            tokenizer=self._tokenizer.name if counted else "",
            known=_known(answer.primed),
        )

    async def observe(self, memory_id: str, response: Response, episodes: Sequence[Episode]) -> None:
        attributes = encode({"response_id": response.id, "session_id": response.session_id})
        sent = [
            wire.Episode(
                content=[record_pb2.Part(type="text", text=one.text, role=one.role)],
                attributes=attributes,
                valid_from=_said_at(one, response),
            )
            for one in episodes
        ]
        digest = hashlib.sha256("\0".join(f"{one.role}\0{one.text}" for one in episodes).encode())
        await self._records.Observe(
            wire.ObserveRequest(
                memory_id=memory_id,
                episodes=sent,
                idempotency=common_pb2.Idempotency(key=response.id, request_sha256=digest.digest()),
            )
        )


def _said_at(episode: Episode, response: Response) -> Timestamp:
    """What was asked, when it was asked; what came of it, when it was done."""
    at = Timestamp()
    at.FromDatetime(
        response.created_at if episode.role == "user" else response.finished_at or response.created_at
    )
    return at


def _told(primed: wire.Primed, access: str, default: str) -> Item:
    """One memory, as it is placed in an agent's instructions."""
    memory = projection.memory(primed.memory)
    may = ["read", "write"] if access == "write" else ["read"]
    told: Item = memory | {"may": [one for one in may if one in cast("list[str]", memory["may"])]}
    if primed.memory.id == default:
        told["default"] = True
    told["children"] = children = _children(primed.children)
    if left_out := max(primed.memory.children_count, len(primed.children)) - len(children):
        told["children_left_out"] = left_out
    if primed.records:
        told["always_relevant"] = [projection.record(one) for one in primed.records]
    return told


def _children(places: Sequence[wire.Place]) -> list[Item]:
    """Those that fit, in order: whoever may create children could otherwise fill every agent's instructions."""
    told, size = list[Item](), 0
    for child in map(projection.place, places):
        length = len(line(child))
        if size + length <= _MAX_CHILDREN:
            size += length
            told.append(child)
    return told


def _known(primed: Sequence[wire.Primed]) -> tuple[Known, ...]:
    attached = [Known(one.memory.id, one.memory.name, attached=True) for one in primed]
    below = [Known(child.id, child.name, attached=False) for one in primed for child in one.children]
    seen = {one.id for one in attached}
    return (*attached, *(one for one in below if one.id not in seen))
