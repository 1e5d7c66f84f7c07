"""Between the wire's messages and the domain's models."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

from google.protobuf.timestamp_pb2 import Timestamp

from memory_service.domain.model import (
    Capabilities,
    Idempotency,
    Job,
    Memory,
    Page,
    Place,
    Primed,
    Privilege,
    Recalled,
    Record,
    Reference,
    Stated,
)
from protos.authz.v1 import authz_pb2
from protos.common.v1 import common_pb2, record_pb2
from protos.memory.v1 import memory_pb2 as wire
from protos.provider.v1 import provider_pb2

_PRIVILEGES = {
    Privilege.READ: authz_pb2.PRIVILEGE_READ,
    Privilege.WRITE: authz_pb2.PRIVILEGE_WRITE,
    Privilege.CREATE: authz_pb2.PRIVILEGE_CREATE,
    Privilege.DELETE: authz_pb2.PRIVILEGE_DELETE,
}
_REQUIRED: dict[int, Privilege] = {number: privilege for privilege, number in _PRIVILEGES.items()}


def page(message: common_pb2.Page) -> Page:
    """A page request."""
    return Page(message.limit, message.cursor)


def idempotency(message: common_pb2.Idempotency) -> Idempotency:
    """An idempotency key."""
    return Idempotency(message.key, message.request_sha256)


def moment(message: Timestamp) -> datetime:
    """An instant, aware and in UTC."""
    return message.ToDatetime(UTC)


def draft(message: record_pb2.Draft) -> Stated:
    """What a writer states of one record."""
    return Stated(message, files=_files(message.content), type=message.type, attributes=message.attributes)


def changes(message: record_pb2.Changes) -> Stated:
    """What a revision changes."""
    return Stated(
        message,
        files=_files(message.content),
        attributes=message.attributes if message.HasField("attributes") else None,
    )


def episode(message: wire.Episode) -> Stated:
    """One episode, in the provider contract's words."""
    stated = provider_pb2.Episode(
        content=message.content, attributes=message.attributes, references=message.references
    )
    if message.HasField("valid_from"):
        stated.valid_from.CopyFrom(message.valid_from)
    if message.HasField("valid_to"):
        stated.valid_to.CopyFrom(message.valid_to)
    return Stated(stated, files=_files(message.content))


def selection(message: wire.ListRecordsRequest) -> Stated:
    """Which records a list covers, in the provider contract's words."""
    stated = provider_pb2.ListRecordsRequest(types=message.types, include=message.include)
    if message.HasField("filter"):
        stated.filter.CopyFrom(message.filter)
    if message.HasField("as_of"):
        stated.as_of.CopyFrom(message.as_of)
    return Stated(stated)


def required(privilege: int) -> Privilege | None:
    """What the caller has to hold; None: anything."""
    return _REQUIRED.get(privilege)


def memory(one: Memory) -> wire.Memory:
    """A memory as its caller sees it."""
    return wire.Memory(
        id=one.node.id,
        name=one.description.name,
        description=one.description.description,
        parent_id=one.node.parent_id,
        ancestors=one.node.ancestors,
        restricted=one.node.restricted,
        provider=one.description.provider,
        privileges=[_PRIVILEGES[privilege] for privilege in one.node.privileges],
        records_count=one.records_count,
        children_count=one.node.children_count,
        created_at=_timestamp(one.description.created_at),
        updated_at=_timestamp(one.description.updated_at),
    )


def place(one: Place) -> wire.Place:
    """Somewhere to walk to."""
    return wire.Place(id=one.id, name=one.name, description=one.description, records_count=one.records_count)


def record(one: Record) -> record_pb2.Record:
    """The provider's record with its references as the reader may see them."""
    held = cast(record_pb2.Record, one.payload)
    if not held.references and not one.withheld:
        return held
    made = record_pb2.Record()
    made.CopyFrom(held)
    del made.references[:]
    if one.withheld:
        for field in ("content", "attributes", "supersedes", "valid_from", "valid_to"):
            made.ClearField(field)
        return made
    made.references.extend(_reference(reference) for reference in one.references)
    return made


def job(one: Job) -> record_pb2.Job:
    """A job with the records its reader may see."""
    made = record_pb2.Job()
    made.CopyFrom(cast(record_pb2.Job, one.payload))
    del made.records[:]
    made.records.extend(record(written) for written in one.records)
    return made


def recalled(one: Recalled) -> wire.RecallResponse:
    """A recall's answer."""
    results = [
        wire.RecallResult(
            hit=record_pb2.RecallHit(
                record=record(hit.record), score=hit.score, why=hit.why, signals=hit.signals
            ),
            memory=place(one.memories[hit.record.memory_id]),
        )
        for hit in one.hits
        if hit.record.memory_id in one.memories
    ]
    return wire.RecallResponse(
        results=results,
        parent=None if one.parent is None else place(one.parent),
        children=[place(child) for child in one.children],
        degraded=one.degraded,
        abstain=one.abstain,
        abstain_reason=one.reason,
        evidence=None
        if one.evidence is None
        else record_pb2.Evidence(score=one.evidence.score, threshold=one.evidence.threshold),
    )


def primed(one: Primed) -> wire.Primed:
    """What a session start places for one memory."""
    return wire.Primed(
        memory=memory(one.memory),
        children=[place(child) for child in one.children],
        records=[record(written) for written in one.records],
    )


def capabilities(one: Capabilities) -> record_pb2.Capabilities:
    """A provider's capability document, as it gave it."""
    return cast(record_pb2.Capabilities, one.payload)


def _reference(one: Reference) -> record_pb2.Reference:
    return record_pb2.Reference(
        rel=one.rel, memory_id=one.memory_id, record_id=one.record_id, available=one.available
    )


def _files(parts: "Iterable[record_pb2.Part]") -> tuple[str, ...]:
    return tuple(part.file.id for part in parts if part.HasField("file"))


def _timestamp(value: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(value)
    return made
