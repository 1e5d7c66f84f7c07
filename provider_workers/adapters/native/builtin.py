"""The types the native provider has of its own: tasks and calendar events (Memories, section 8)."""

from typing import Final

import msgspec

from provider_workers.adapters.native.calendar import INSTANT
from provider_workers.domain.model import Operation, RecordType

__all__ = ["EVENT", "TYPES"]

EVENT: Final = "x.calendar.event"

_TEXT: Final = {"type": "string"}
_WHEN: Final = {"type": "string", "pattern": INSTANT}
_MOMENT: Final = {"type": "string", "pattern": INSTANT.replace("(T", "T").replace(")?$", "$")}
_ZONE: Final = {"type": "string", "description": "An IANA name, as in Europe/Zurich."}


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _takes(properties: dict[str, object], *required: str) -> bytes:
    return _json(
        {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        }
    )


_TASK: Final = RecordType(
    type="x.task",
    description="Something to be done, by whom and until when.",
    schema=_json(
        {
            "type": "object",
            "properties": {
                "title": {"type": "string", "minLength": 1},
                "status": {"enum": ["open", "in_progress", "done", "cancelled"]},
                "due_at": {**_WHEN, "description": "A day, or an instant with its offset."},
                "assignee": _TEXT,
                "priority": {"enum": ["low", "normal", "high"]},
                "labels": {"type": "array", "items": _TEXT},
                "completed_at": _WHEN,
            },
            "required": ["title"],
        }
    ),
    text="title, status, assignee, due day and labels as one line",
    projection=(
        "attributes.title",
        "attributes.status",
        "attributes.assignee",
        "attributes.due_at",
        "attributes.labels",
    ),
    operations=(
        Operation(
            "complete",
            "Mark the task as done now.",
            _takes({}),
            "write",
            _json(
                {
                    "set": {
                        "attributes.status": {"const": "done"},
                        "attributes.completed_at": {"now": True},
                    }
                }
            ),
        ),
        Operation(
            "reopen",
            "Open the task again, whether it was done or cancelled.",
            _takes({}),
            "write",
            _json(
                {
                    "set": {
                        "attributes.status": {"const": "open"},
                        "attributes.completed_at": {"remove": True},
                    }
                }
            ),
        ),
    ),
)

_CALENDAR: Final = RecordType(
    type=EVENT,
    description=(
        "A meeting or a block of time. Times are instants with their offset (2026-10-05T09:00:00+02:00), or days"
        " (2026-10-05) for what lasts all day; ends_at is when it is over, and for days the first day after it."
    ),
    schema=_json(
        {
            "type": "object",
            "properties": {
                "title": _TEXT,
                "starts_at": _WHEN,
                "ends_at": _WHEN,
                "time_zone": _ZONE,
                "location": _TEXT,
                "attendees": {"type": "array"},
                "status": {"enum": ["confirmed", "tentative", "cancelled"]},
            },
            "required": ["starts_at"],
        }
    ),
    text="title, attendees, place and time as one line",
    projection=(
        "attributes.title",
        "attributes.attendees",
        "attributes.location",
        "attributes.starts_at",
        "attributes.ends_at",
        "attributes.status",
    ),
    operations=(
        Operation(
            "reschedule",
            "Move the event to a new time. Without ends_at it keeps its length.",
            _takes({"starts_at": _WHEN, "ends_at": _WHEN}, "starts_at"),
            "write",
        ),
        Operation(
            "free_slots",
            (
                "Open time between two instants in which this event would fit: what no other event of this memory"
                " takes. Cancelled events take no time, nor does this event itself. minutes is the shortest slot"
                " worth naming; without it the length of this event, or half an hour."
            ),
            _takes(
                {"from": _MOMENT, "to": _MOMENT, "minutes": {"type": "integer", "minimum": 1}}, "from", "to"
            ),
            "read",
        ),
    ),
)

TYPES: Final = (_TASK, _CALENDAR)
