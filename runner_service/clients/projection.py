"""Memories and records as an agent reads them: small JSON objects with plain names.

Where a record came from (``written_by``, §13) always goes along; what is empty is left out.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from protos.authz.v1 import authz_pb2
from protos.common.v1 import record_pb2
from protos.memory.v1 import memory_pb2, queries_pb2
from runner_service.domain.abilities import Ability
from runner_service.domain.errors import invalid
from runner_service.domain.fence import raw_json
from runner_service.domain.model import Item

__all__ = ["ability", "memory", "moment", "place", "query_answer", "record", "timestamp"]

_STATUS: Final = {
    record_pb2.STATUS_ACTIVE: "active",
    record_pb2.STATUS_SUPERSEDED: "superseded",
    record_pb2.STATUS_FORGOTTEN: "forgotten",
}
_PRIVILEGES: Final = {
    authz_pb2.PRIVILEGE_READ: "read",
    authz_pb2.PRIVILEGE_WRITE: "write",
    authz_pb2.PRIVILEGE_CREATE: "create",
    authz_pb2.PRIVILEGE_DELETE: "delete",
}


def memory(message: memory_pb2.Memory) -> Item:
    """A memory, with what the agent may do there. Where it lies is not said: its parent may not be one to read."""
    held = {_PRIVILEGES.get(one) for one in message.privileges}
    return {
        "id": message.id,
        "name": message.name,
        "description": message.description,
        "may": [one for one in ("read", "write") if one in held],
        "records": message.records_count,
        "children": message.children_count,
    }


def place(message: memory_pb2.Place) -> Item:
    """A memory one can walk to."""
    return {
        "id": message.id,
        "name": message.name,
        "description": message.description,
        "records": message.records_count,
    }


def record(message: record_pb2.Record) -> Item:
    """One version of one record."""
    found: Item = {
        "record": message.id,
        "memory": message.memory_id,
        "type": message.type,
        "content": "\n\n".join(text for text in _texts(message.content) if text),
        "version": message.version,
        "status": _STATUS.get(message.status, "active"),
        "written_by": f"{message.written_by.kind}:{message.written_by.id}",
        "written_at": moment(message.written_at),
        "trust": "untrusted",
    }
    if message.attributes and message.attributes != b"{}":
        found["attributes"] = raw_json(message.attributes)
    for field in ("valid_from", "valid_to", "invalidated_at"):
        if message.HasField(field):
            found[field] = moment(getattr(message, field))
    if message.supersedes:
        found["supersedes"] = message.supersedes
    if message.references:
        found["references"] = [_reference(one) for one in message.references]
    return found


def ability(one: Ability) -> Item:
    """What a memory can be asked beyond records; empty where that is nothing."""
    found: Item = {}
    if one.queries:
        found["queries"] = [
            {
                "name": query.name,
                "description": query.description,
                "params": raw_json(query.params or b"{}"),
                "requires": "write" if query.writes else "read",
            }
            for query in one.queries
        ]
    if one.free_query_languages:
        found["query_languages"] = list(one.free_query_languages)
    return found


def query_answer(message: queries_pb2.QueryResponse) -> Item:
    """Records, with where to walk from here, or rows beside their columns."""
    found: Item = {}
    answer = message.answer
    if answer.is_records:
        found["records"] = [record(one) for one in answer.records]
    else:
        found["columns"] = list(answer.columns)
        found["rows"] = [raw_json(one) for one in answer.rows]
    if message.HasField("parent"):
        found["parent"] = place(message.parent)
    if message.children:
        found["children"] = [place(one) for one in message.children]
    if answer.degraded:
        found["degraded"] = list(answer.degraded)
    return found | {"trust": "untrusted"}


def _texts(parts: Iterable[record_pb2.Part]) -> Iterable[str]:
    for part in parts:
        if part.type == "file":
            yield f"[file {part.file.name}, {part.file.media_type}]\n{part.text}".strip()
        else:
            yield part.text


def _reference(message: record_pb2.Reference) -> Item:
    if message.HasField("available") and not message.available:
        return {"memory": message.memory_id, "record": message.record_id, "available": False}
    return {"rel": message.rel, "memory": message.memory_id, "record": message.record_id}


def moment(at: Timestamp) -> str:
    """An instant as RFC 3339, in UTC."""
    return at.ToDatetime(UTC).isoformat().replace("+00:00", "Z")


def timestamp(text: str, field: str) -> Timestamp:
    """An instant from RFC 3339. ``invalid_input``."""
    made = Timestamp()
    try:
        at = datetime.fromisoformat(text)
        made.FromDatetime((at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC))
    except (ValueError, OverflowError):
        raise invalid(f"{field} must be a time such as 2026-10-01T17:02:11Z.", field) from None
    return made
