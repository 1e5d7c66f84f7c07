"""What can be computed of calendar events: moving one, and the time that others leave open.

An event is from ``starts_at`` until ``ends_at``, instants with an offset, or days. A day begins and ends in the
event's ``time_zone``, else in that of whoever asks; without ``ends_at`` a day lasts until the next one and an
instant takes no time.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from provider_workers.domain import errors
from service_kit.attributes import changed

__all__ = ["INSTANT", "Event", "event_of", "free_slots", "reschedule"]

INSTANT: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2}))?$"
)
"""A day, or an instant with its offset."""

MAX_SPAN: Final = timedelta(days=366)
"""Longest time that is looked through for slots."""
MAX_SLOTS: Final = 200
_DEFAULT: Final = timedelta(minutes=30)
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)

_encode: Final = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Event:
    """One event as its attributes say; ``start`` None: they say nothing that can be understood."""

    record_id: str
    start: datetime | date | None
    end: datetime | date | None
    zone: tzinfo | None
    cancelled: bool

    def taken(self, zone: tzinfo) -> tuple[datetime, datetime] | None:
        """From when until when; ``zone`` is whose days are meant where the event says nothing."""
        if self.start is None:
            return None
        start = _instant(self.start, self.zone or zone)
        if self.end is not None:
            return start, _instant(self.end, self.zone or zone)
        if isinstance(self.start, datetime):
            return start, start
        if self.start == date.max:
            return start, _LAST
        return start, _instant(self.start + timedelta(days=1), self.zone or zone)


def event_of(record_id: str, attributes: bytes) -> Event:
    """The event a record tells of."""
    fields = _fields(attributes)
    start, end = _when(fields.get("starts_at")), _when(fields.get("ends_at"))
    understood = start is not None and (end is not None or fields.get("ends_at") is None)
    return Event(
        record_id,
        start if understood else None,
        end,
        _zone(fields.get("time_zone")),
        fields.get("status") == "cancelled",
    )


def reschedule(attributes: bytes, given: bytes) -> bytes:
    """The attributes with the times of the input; without ``ends_at`` the event keeps its length."""
    asked = _fields(given)
    start, end = _when(asked.get("starts_at")), _when(asked.get("ends_at"))
    if start is None:
        raise errors.invalid_content("starts_at is no day or instant there is.", "input.starts_at")
    if end is None and asked.get("ends_at") is not None:
        raise errors.invalid_content("ends_at is no day or instant there is.", "input.ends_at")
    if end is None:
        end = _moved_end(event_of("", attributes), start)
    if end is not None and (isinstance(end, datetime) != isinstance(start, datetime) or end < start):
        raise errors.invalid_content("The event ends before it starts.", "input.ends_at")
    moved = changed(attributes, ["starts_at"], _encode(asked["starts_at"]))
    return moved if end is None else changed(moved, ["ends_at"], _encode(_written(end)))


def free_slots(own: Event, others: Iterable[Event], given: bytes) -> bytes:
    """What no other event takes between ``from`` and ``to``, as the result of the operation."""
    asked = _fields(given)
    start, end = _when(asked["from"]), _when(asked["to"])
    if not isinstance(start, datetime) or not isinstance(end, datetime):
        raise errors.invalid_content("from and to are instants with an offset.", "input.from")
    if not timedelta() < end - start <= MAX_SPAN:
        raise errors.invalid_content(f"to is after from, by {MAX_SPAN.days} days at most.", "input.to")
    zone = own.zone or cast("tzinfo", start.tzinfo)
    least = _least(asked["minutes"]) if "minutes" in asked else _length(own, zone)
    events = [one for one in others if not one.cancelled]
    busy = [span for one in events if (span := one.taken(zone)) is not None]
    slots = [slot for slot in _gaps(start, end, busy) if slot[1] - slot[0] >= least]
    return _encode(
        {
            "slots": [
                {
                    "starts_at": _written(_shown(first, zone)),
                    "ends_at": _written(_shown(last, zone)),
                    "minutes": int((last - first) / timedelta(minutes=1)),
                }
                for first, last in slots[:MAX_SLOTS]
            ],
            "more": len(slots) > MAX_SLOTS,
            "not_understood": sorted(one.record_id for one in events if one.start is None),
        }
    )


def _gaps(
    start: datetime, end: datetime, busy: Sequence[tuple[datetime, datetime]]
) -> Iterable[tuple[datetime, datetime]]:
    """The time between two instants that none of ``busy`` covers. All of it in UTC, where hours are hours."""
    free, until = start.astimezone(UTC), end.astimezone(UTC)
    for first, last in sorted(busy):
        if last <= free or first >= until or last <= first:
            continue
        if first > free:
            yield free, first
        free = last
    if free < until:
        yield free, until


def _least(minutes: object) -> timedelta:
    """The shortest slot worth naming: a whole number of any size, which may be written as ``30.0``."""
    longest = MAX_SPAN // timedelta(minutes=1)
    return timedelta(minutes=min(cast("float", minutes), longest + 1))


def _length(own: Event, zone: tzinfo) -> timedelta:
    span = own.taken(zone) if isinstance(own.start, datetime) else None
    return _DEFAULT if span is None or span[1] <= span[0] else span[1] - span[0]


def _moved_end(before: Event, start: datetime | date) -> datetime | date | None:
    """When an event is over that starts then and lasts as long as before; None: it never said."""
    if before.start is None or before.end is None:
        return None
    if isinstance(before.end, datetime) != isinstance(start, datetime):
        raise errors.invalid_content(
            "An event that changes between days and instants needs ends_at.", "input"
        )
    try:
        return start + (before.end - before.start)  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]
    except (OverflowError, TypeError):
        raise errors.invalid_content("The event has no length to keep: say ends_at.", "input") from None


def _instant(when: datetime | date, zone: tzinfo) -> datetime:
    """When that is in UTC. A day whose midnight lies outside of the calendar there begins where the calendar does."""
    at = when if isinstance(when, datetime) else datetime.combine(when, time(), zone)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return _FIRST if at.year == MINYEAR else _LAST


def _shown(at: datetime, zone: tzinfo) -> datetime:
    """An instant as clocks in the zone show it; in UTC where their calendar has no such day."""
    try:
        return at.astimezone(zone)
    except OverflowError:
        return at


def _when(written: object) -> datetime | date | None:
    if not isinstance(written, str):
        return None
    try:
        if "T" not in written:
            return date.fromisoformat(written)
        at = datetime.fromisoformat(written)
        at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None if at.tzinfo is None else at


def _written(when: datetime | date) -> str:
    return when.isoformat().replace("+00:00", "Z")


def _zone(name: object) -> tzinfo | None:
    try:
        return ZoneInfo(name) if isinstance(name, str) and name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _fields(raw: bytes) -> dict[str, object]:
    try:
        # A number of any size is one: what is beyond a float is without end.
        value = cast("object", json.loads(raw or b"{}", parse_int=float))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
