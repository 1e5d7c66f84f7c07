"""Records, filters and recall between their schemas and their messages."""

from typing import Final, Literal

from google.protobuf.timestamp_pb2 import Timestamp

from gateway.clients.convert import moment, timestamp
from gateway.errors import invalid
from gateway.schemas import records as schema
from gateway.schemas.base import UNSET, Count, Raw, UnsetType
from gateway.schemas.content import Content, File, Part, parts_of
from gateway.schemas.filters import Condition, Filter, Node, Not, tree_of
from gateway.schemas.memories import Place
from protos.common.v1 import record_pb2
from protos.memory.v1 import memory_pb2
from service_kit.errors import GroveError

__all__ = [
    "changes",
    "draft",
    "episode",
    "include",
    "job",
    "place",
    "recall_query",
    "recalled",
    "record",
    "wire_filter",
]

_STATUS: Final = {
    record_pb2.STATUS_ACTIVE: "active",
    record_pb2.STATUS_SUPERSEDED: "superseded",
    record_pb2.STATUS_FORGOTTEN: "forgotten",
}
_INCLUDE: Final = {
    "active": record_pb2.INCLUDE_ACTIVE,
    "superseded": record_pb2.INCLUDE_SUPERSEDED,
    "forgotten": record_pb2.INCLUDE_FORGOTTEN,
    "all": record_pb2.INCLUDE_ALL,
}


def record(message: record_pb2.Record) -> schema.Record:
    """One version of a record."""
    return schema.Record(
        id=message.id,
        memory_id=message.memory_id,
        type=message.type,
        content=[_part(one) for one in message.content],
        attributes=message.attributes,
        version=message.version,
        status=_STATUS.get(message.status, "active"),
        supersedes=message.supersedes,
        time=schema.Times(
            valid_from=moment(message.valid_from) if message.HasField("valid_from") else None,
            valid_to=moment(message.valid_to) if message.HasField("valid_to") else None,
            written_at=moment(message.written_at) if message.HasField("written_at") else None,
            invalidated_at=moment(message.invalidated_at) if message.HasField("invalidated_at") else None,
        ),
        written_by=schema.Writer(kind=message.written_by.kind, id=message.written_by.id),
        references=[_reference(one) for one in message.references],
    )


def _part(message: record_pb2.Part) -> Part:
    held = message.file if message.HasField("file") else None
    return Part(
        type=message.type,
        text=message.text,
        role=message.role,
        file=held
        and File(
            id=held.id,
            name=held.name,
            media_type=held.media_type,
            bytes=held.bytes,
            version=held.version,
        ),
        text_source=message.text_source,
        raw=message.raw,
    )


def _reference(message: record_pb2.Reference) -> schema.Reference:
    if message.HasField("available") and not message.available:
        return schema.Reference(memory_id=message.memory_id, record_id=message.record_id, available=False)
    return schema.Reference(
        rel=message.rel or UNSET, memory_id=message.memory_id, record_id=message.record_id
    )


def job(message: record_pb2.Job) -> schema.Job:
    """Background work."""
    return schema.Job(
        id=message.id,
        status=message.status,
        records=[record(one) for one in message.records],
        created_at=moment(message.created_at) if message.HasField("created_at") else None,
        finished_at=moment(message.finished_at) if message.HasField("finished_at") else None,
        error=message.error,
    )


def draft(asked: schema.Remember) -> record_pb2.Draft:
    """A record as stated."""
    return record_pb2.Draft(
        type=asked.type,
        content=_content(asked.content, needed=not _may_be_empty(asked.type)),
        attributes=_attributes(asked.attributes, "attributes"),
        references=_references(asked.references, "references"),
        supersedes=asked.supersedes or "",
        valid_from=_bound(asked.time, "valid_from", "time"),
        valid_to=_bound(asked.time, "valid_to", "time"),
    )


def _may_be_empty(kind: str) -> bool:
    """A link has no content of its own (section 4.1), an extension what its type says."""
    return kind == "link" or kind.startswith("x.")


def episode(asked: schema.Episode, param: str) -> memory_pb2.Episode:
    """One piece of raw experience."""
    return memory_pb2.Episode(
        content=[_wire_part(one, asked.role or "") for one in parts_of(asked.content, f"{param}.content")],
        attributes=_attributes(asked.attributes, f"{param}.attributes"),
        references=_references(asked.references, f"{param}.references"),
        valid_from=_bound(asked.time, "valid_from", f"{param}.time"),
        valid_to=_bound(asked.time, "valid_to", f"{param}.time"),
    )


def changes(asked: schema.Revise) -> record_pb2.Changes:
    """What a revision changes. Raises ``invalid_input`` when that is nothing."""
    stated = (asked.content, asked.attributes, asked.time, asked.references)
    if all(one is UNSET for one in stated):
        raise invalid("A revision changes content, attributes, time or references.")
    time = None if isinstance(asked.time, UnsetType) else asked.time
    made = record_pb2.Changes(
        content=_content(asked.content, needed=False),
        replace_content=asked.content is not UNSET,
        replace_references=asked.references is not UNSET,
        references=_references(
            None if isinstance(asked.references, UnsetType) else asked.references, "references"
        ),
        clear=[] if time is None else _cleared(time),
        valid_from=_bound(time, "valid_from", "time"),
        valid_to=_bound(time, "valid_to", "time"),
    )
    if not isinstance(asked.attributes, UnsetType):
        made.attributes = _attributes(asked.attributes, "attributes")
    return made


def _content(content: Content | UnsetType, *, needed: bool) -> list[record_pb2.Part]:
    if not isinstance(content, UnsetType):
        return [_wire_part(one, "") for one in parts_of(content)]
    if needed:
        raise invalid("content is required.", "content")
    return []


def _wire_part(part: Part, role: str) -> record_pb2.Part:
    if part.raw:
        return record_pb2.Part(type=part.type, raw=part.raw)
    return record_pb2.Part(
        type=part.type,
        text=part.text,
        role=part.role or role,
        text_source=part.text_source,
        file=part.file
        and record_pb2.File(id=part.file.id, name=part.file.name, media_type=part.file.media_type),
    )


def _attributes(attributes: Raw | UnsetType, param: str) -> bytes:
    """The object's bytes, exactly as they came."""
    if isinstance(attributes, UnsetType):
        return b""
    raw = bytes(attributes)
    if not raw.startswith(b"{"):
        raise invalid(f"{param} must be an object.", param)
    return raw


def _references(asked: list[schema.NewReference] | None, param: str) -> list[record_pb2.Reference]:
    if asked is not None and len(asked) > MAX_REFERENCES:
        raise invalid(f"A record has at most {MAX_REFERENCES} references.", param)
    return [
        record_pb2.Reference(rel=one.rel or "", memory_id=one.memory_id, record_id=one.record_id)
        for one in asked or ()
    ]


MAX_REFERENCES: Final = 100
"""Most references of one record."""


def _bound(
    time: schema.Valid | None, name: Literal["valid_from", "valid_to"], param: str
) -> Timestamp | None:
    if time is None:
        return None
    at = time.valid_from if name == "valid_from" else time.valid_to
    return None if at is None or isinstance(at, UnsetType) else timestamp(at, f"{param}.{name}")


def _cleared(time: schema.Valid) -> list[str]:
    bounds = {"valid_from": time.valid_from, "valid_to": time.valid_to}
    return [name for name, at in bounds.items() if at is None]


def include(asked: schema.Include | None) -> record_pb2.Include.ValueType:
    """Which versions a read covers."""
    return record_pb2.INCLUDE_UNSPECIFIED if asked is None else _INCLUDE[asked]


def wire_filter(asked: Filter | None) -> record_pb2.Filter | None:
    """A filter, checked for shape."""
    return None if asked is None else _node(tree_of(asked))


def _node(node: Node) -> record_pb2.Filter:
    if isinstance(node, Condition):
        return record_pb2.Filter(
            condition=record_pb2.Condition(field=node.field, op=node.op, value=node.value)
        )
    if isinstance(node, Not):
        return record_pb2.Filter(negation=_node(node.node))
    several = record_pb2.FilterList(filters=[_node(one) for one in node.nodes])
    return record_pb2.Filter(all=several) if node.every else record_pb2.Filter(any=several)


def recall_query(asked: schema.Recall) -> record_pb2.RecallQuery:
    """What a recall asks for. Raises ``memory_invalid`` when that is nothing (section 6.2)."""
    if not (asked.query or asked.text or asked.filters):
        raise GroveError("memory_invalid", "A recall needs at least one of query, text and filters.")
    return record_pb2.RecallQuery(
        query=asked.query or "",
        text=asked.text or "",
        filter=wire_filter(asked.filters),
        types=asked.types or [],
        as_of=None if asked.as_of is None else timestamp(asked.as_of, "as_of"),
        include=include(asked.include),
        limit=asked.limit or 0,
        explain=asked.explain,
    )


def recalled(message: memory_pb2.RecallResponse) -> schema.Recalled:
    """A recall's answer."""
    return schema.Recalled(
        results=[
            schema.Found(
                record=record(one.hit.record),
                score=one.hit.score,
                why=list(one.hit.why),
                memory=place(one.memory) if one.HasField("memory") else None,
                signals=dict(one.hit.signals),
            )
            for one in message.results
        ],
        parent=place(message.parent) if message.HasField("parent") else None,
        children=[place(one) for one in message.children],
        degraded=list(message.degraded),
        abstain=message.abstain,
        abstain_reason=message.abstain_reason,
        evidence=schema.Evidence(score=message.evidence.score, threshold=message.evidence.threshold)
        if message.HasField("evidence")
        else None,
    )


def place(message: memory_pb2.Place) -> Place:
    """Somewhere to walk to."""
    return Place(
        id=message.id,
        name=message.name,
        description=message.description,
        records=Count(count=message.records_count),
    )
