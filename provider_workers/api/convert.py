"""Between the provider contract's messages and the domain's models."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from protos.common.v1 import common_pb2, record_pb2
from protos.provider.v1 import provider_pb2 as wire
from provider_workers.domain import errors, filters, limits
from provider_workers.domain.model import (
    Backlog,
    Capabilities,
    Changes,
    Draft,
    Erased,
    File,
    Found,
    Include,
    Job,
    Page,
    Part,
    Question,
    Record,
    Reference,
    Selection,
    Stamp,
    Status,
    Writer,
)
from service_kit.identity import current_passport

_INCLUDE: Final = {
    record_pb2.INCLUDE_UNSPECIFIED: Include.ACTIVE,
    record_pb2.INCLUDE_ACTIVE: Include.ACTIVE,
    record_pb2.INCLUDE_SUPERSEDED: Include.SUPERSEDED,
    record_pb2.INCLUDE_FORGOTTEN: Include.FORGOTTEN,
    record_pb2.INCLUDE_ALL: Include.ALL,
}
_STATUS: Final = {
    Status.ACTIVE: record_pb2.STATUS_ACTIVE,
    Status.SUPERSEDED: record_pb2.STATUS_SUPERSEDED,
    Status.FORGOTTEN: record_pb2.STATUS_FORGOTTEN,
}


def address(message: wire.Address) -> tuple[str, str]:
    """A provider's id and a memory's."""
    return message.provider, message.memory_id


def stamp(writer: record_pb2.Writer, idempotency: common_pb2.Idempotency) -> Stamp:
    """Who writes, and under which key.

    The passport says who. Only a service, which writes for others, is believed when it names somebody;
    any other caller naming somebody else is refused.
    """
    passport = current_passport()
    caller = Writer(passport.kind, passport.id)
    named = Writer(writer.kind, writer.id) if writer.kind or writer.id else caller
    if named != caller and "service" not in passport.scopes:
        raise errors.invalid("A record is written by whoever sends it.", "written_by")
    return Stamp(named, idempotency.key, idempotency.request_sha256)


def episode(message: wire.Episode) -> Draft:
    """An episode of an observe."""
    return Draft(
        "episode",
        _parts(message.content),
        message.attributes,
        _moment(message, "valid_from"),
        _moment(message, "valid_to"),
        _references(message.references),
    )


def draft(message: record_pb2.Draft) -> Draft:
    """What a writer states of a record."""
    return Draft(
        message.type,
        _parts(message.content),
        message.attributes,
        _moment(message, "valid_from"),
        _moment(message, "valid_to"),
        _references(message.references),
        message.supersedes,
        message.projection,
    )


def changes(message: record_pb2.Changes) -> Changes:
    """What a revision changes."""
    return Changes(
        _parts(message.content) if message.replace_content else None,
        message.attributes if message.HasField("attributes") else None,
        _moment(message, "valid_from"),
        _moment(message, "valid_to"),
        frozenset(message.clear),
        _references(message.references) if message.replace_references else None,
        message.projection if message.HasField("projection") else None,
    )


def selection(message: wire.ListRecordsRequest | record_pb2.RecallQuery) -> Selection:
    """Which records a list or a recall covers."""
    if message.include not in _INCLUDE:
        raise errors.invalid("There is no such include.", "include")
    return Selection(
        tuple(message.types),
        _filter(message.filter) if message.HasField("filter") else None,
        _INCLUDE[message.include],
        as_of(message),
    )


def as_of(message: Message) -> datetime | None:
    """The instant a read looks at, when one is named."""
    return _moment(message, "as_of")


def question(message: record_pb2.RecallQuery) -> Question:
    """What a recall asks."""
    limit = message.limit or limits.DEFAULT_HITS
    return Question(selection(message), message.query, message.text, limit, message.explain)


def page(message: common_pb2.Page) -> Page:
    """A page request."""
    return Page(message.limit, message.cursor)


def record(one: Record) -> record_pb2.Record:
    """One version of a record."""
    made = record_pb2.Record(
        id=one.id,
        memory_id=one.memory_id,
        type=one.type,
        content=[_part(part) for part in one.content],
        attributes=one.attributes,
        version=one.version,
        status=_STATUS[one.status],
        supersedes=one.supersedes,
        written_by=record_pb2.Writer(kind=one.written_by.kind, id=one.written_by.id),
        references=[
            record_pb2.Reference(rel=to.rel, memory_id=to.memory_id, record_id=to.record_id)
            for to in one.references
        ],
    )
    _set(made.written_at, one.written_at)
    for field, moment in (
        (made.valid_from, one.valid_from),
        (made.valid_to, one.valid_to),
        (made.invalidated_at, one.invalidated_at),
    ):
        if moment is not None:
            _set(field, moment)
    return made


def job(one: Job) -> record_pb2.Job:
    """A job and what it has produced."""
    made = record_pb2.Job(
        id=one.id,
        status=one.status,
        records=[record(each) for each in one.records],
        error=one.error,
        memory_id=one.memory_id,
        runs=one.runs,
        quarantined=one.quarantined,
        kind=one.kind if one.memory_id else "",
    )
    _set(made.created_at, one.created_at)
    if one.finished_at is not None:
        _set(made.finished_at, one.finished_at)
    if one.pending_since is not None:
        _set(made.pending_since, one.pending_since)
    return made


def backlog(one: Backlog) -> record_pb2.Backlog:
    """What is still to be derived."""
    made = record_pb2.Backlog(
        pending=one.pending,
        reason=one.reason,
        quarantined=one.quarantined,
        tokens_today=one.tokens_today,
    )
    if one.pending_since is not None:
        _set(made.pending_since, one.pending_since)
    return made


def erased(one: Erased) -> wire.EraseResponse:
    """What an erase removed and what it could not."""
    return wire.EraseResponse(
        erased=one.erased,
        unreachable=one.unreachable,
        elsewhere=[
            wire.RecordAddress(memory_id=memory_id, record_id=record_id)
            for memory_id, record_id in one.elsewhere
        ],
        file_ids=one.file_ids,
    )


def found(one: Found, *, explain: bool) -> wire.RecallResponse:
    """A recall's answer."""
    judged = explain and one.threshold > 0
    return wire.RecallResponse(
        hits=[
            record_pb2.RecallHit(
                record=record(hit.record),
                score=hit.score,
                why=hit.why,
                signals=hit.signals if explain else None,
            )
            for hit in one.hits
        ],
        degraded=one.degraded,
        abstain=one.abstain,
        abstain_reason=one.reason if one.abstain else "",
        evidence=record_pb2.Evidence(score=one.evidence, threshold=one.threshold) if judged else None,
    )


def capabilities(one: Capabilities) -> record_pb2.Capabilities:
    """A capability document."""
    return record_pb2.Capabilities(
        id=one.id,
        isolation=one.isolation,
        derivation=one.derivation,
        observe_keeps_episodes=one.observe_keeps_episodes,
        observe_answers=one.observe_answers,
        recall_signals=one.recall_signals,
        recall_abstain=one.recall_abstain,
        recall_max_depth=one.recall_max_depth,
        history_content=one.history_content,
        history_structure=one.history_structure,
        revise=one.revise,
        forget=one.forget,
        erase_unreachable=one.erase_unreachable,
        prime=one.prime,
        consolidate=one.consolidate,
        named_queries=bool(one.named_query_languages),
        types=one.types,
        files=one.files,
        named_query_languages=one.named_query_languages,
        free_query_languages=one.free_query_languages,
        free_query_write=one.free_query_write,
        snapshots=one.snapshots,
        content_media=one.content_media,
        content_bytes=one.content_bytes,
        content_describes=one.content_describes,
        outside=one.outside,
        query_schema=one.query_schema,
    )


def _filter(message: record_pb2.Filter) -> filters.Filter:
    match message.WhichOneof("node"):
        case "condition":
            stated = message.condition
            return filters.condition(stated.field, stated.op, stated.value)
        case "all":
            return filters.All(tuple(_filter(one) for one in message.all.filters))
        case "any":
            return filters.Any(tuple(_filter(one) for one in message.any.filters))
        case "negation":
            return filters.Not(_filter(message.negation))
        case _:
            raise errors.invalid("A filter is a condition, or a tree of and, or, not.", filters.PARAM)


def _parts(messages: Iterable[record_pb2.Part]) -> tuple[Part, ...]:
    return tuple(
        Part(
            one.type,
            one.text,
            one.role,
            file(one.file) if one.HasField("file") else None,
            one.text_source,
            one.raw,
        )
        for one in messages
    )


def file(message: record_pb2.File) -> File:
    """A file that a part names."""
    return File(message.id, message.name, message.media_type, message.bytes, message.version)


def wire_file(one: File) -> record_pb2.File:
    """A file that a part names."""
    return record_pb2.File(
        id=one.id, name=one.name, media_type=one.media_type, bytes=one.bytes, version=one.version
    )


def _part(one: Part) -> record_pb2.Part:
    made = record_pb2.Part(
        type=one.type, text=one.text, role=one.role, text_source=one.text_source, raw=one.raw
    )
    if one.file is not None:
        made.file.CopyFrom(wire_file(one.file))
    return made


def _references(messages: Iterable[record_pb2.Reference]) -> tuple[Reference, ...]:
    return tuple(Reference(one.rel, one.memory_id, one.record_id) for one in messages)


def _moment(message: Message, field: str) -> datetime | None:
    """An instant, aware and in UTC, to the microsecond; None when the field is unset."""
    if not message.HasField(field):
        return None
    stated: Timestamp = getattr(message, field)
    try:
        return stated.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise errors.invalid("A time lies between the years 1 and 9999.", field) from None


def _set(field: Timestamp, moment: datetime) -> None:
    field.FromDatetime(moment)
