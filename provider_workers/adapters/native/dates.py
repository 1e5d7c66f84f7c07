"""The time that words speak of, by rules: ``last March`` -> a window of days. English; nothing is guessed.

In a question a date that is only a month, a day or a weekday is the last one that has begun by the reference time. In
a statement it may as well be one to come, so of that only days beyond doubt are read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

__all__ = ["Spoken", "Window", "day_of", "spoken_of"]

Window = tuple[datetime, datetime]
"""From an instant to before another."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A time, and how it was said."""

    window: Window
    said: str


_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS: Final = ("a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NAMED: Final = "|".join(one if len(one) == 3 else rf"{one}|{one[:3]}\.?" for one in _MONTHS)
_MONTH: Final = f"(?P<month>{_NAMED})"
_DAY: Final = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_MAX_AGO: Final = 1_000

Rule = Callable[[re.Match[str], date], tuple[date, date]]


def spoken_of(question: str, at: datetime) -> Spoken | None:
    """The first time a question names, seen from ``at``; None when it names none."""
    for pattern, rule in _RULES:
        found = pattern.search(question)
        spoken = _read(found, rule, at) if found else None
        if spoken is not None:
            return spoken
    return None


def day_of(statement: str, at: datetime) -> datetime | None:
    """The start of the one past day that a statement made at ``at`` names: ``yesterday``, ``on 3 May 2026``. Days are
    those of UTC. None when it names none, several, or one to come.
    """
    named = [_read(found, rule, at) for pattern, rule in _DAYS for found in pattern.finditer(statement)]
    if len(named) != 1 or named[0] is None:
        return None
    start, end = named[0].window
    return start if end - start == timedelta(days=1) and start <= at else None


def _read(found: re.Match[str], rule: Rule, at: datetime) -> Spoken | None:
    """What was found, unless there is no such day: a 31 June, a year before the first."""
    try:
        start, end = rule(found, at.astimezone(UTC).date())
        before = found.groupdict().get("before") or found.string[: found.start()]
        return Spoken(_opened(before, _midnight(start), _midnight(end)), found.group())
    except (ValueError, OverflowError):
        return None


def _opened(before: str, start: datetime, end: datetime) -> Window:
    """``before March`` ends where March begins."""
    word = (re.findall(r"[a-z]+", before.lower()) or [""])[-1]
    if word in ("before", "until", "till"):
        return datetime.min.replace(tzinfo=UTC), start
    if word == "after":
        return end, datetime.max.replace(tzinfo=UTC)
    if word == "since":
        return start, datetime.max.replace(tzinfo=UTC)
    return start, end


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _iso(found: re.Match[str], _: date) -> tuple[date, date]:
    day = date.fromisoformat(found.group())
    return day, day + timedelta(days=1)


def _on_day(found: re.Match[str], at: date) -> tuple[date, date]:
    month, number = _number_of(found), int(found["day"])
    day = date(int(found["year"]) if found["year"] else at.year, month, number)
    if not found["year"] and day > at:
        day = day.replace(year=at.year - 1)
    return day, day + timedelta(days=1)


def _in_month(found: re.Match[str], at: date) -> tuple[date, date]:
    start = date(int(found["year"]) if found["year"] else at.year, _number_of(found), 1)
    if not found["year"] and start > at:
        start = start.replace(year=at.year - 1)
    return start, _next_month(start)


def _in_year(found: re.Match[str], _: date) -> tuple[date, date]:
    return date(int(found["year"]), 1, 1), date(int(found["year"]) + 1, 1, 1)


def _ago(found: re.Match[str], at: date) -> tuple[date, date]:
    said = found["count"].casefold()
    count = int(said) if said.isdigit() else 1 if said in ("an", "one") else _NUMBERS.index(said) + 1
    if count > _MAX_AGO:
        raise ValueError(count)
    return _back(found["unit"].casefold(), count, at)


def _last(found: re.Match[str], at: date) -> tuple[date, date]:
    return _back(found["unit"].casefold(), 0 if found["which"].casefold() == "this" else 1, at)


def _back(unit: str, count: int, at: date) -> tuple[date, date]:
    """The day, calendar week, month or year that lies so many back."""
    if unit == "day":
        start = at - timedelta(days=count)
        return start, start + timedelta(days=1)
    if unit == "week":
        start = at - timedelta(days=at.weekday() + 7 * count)
        return start, start + timedelta(days=7)
    if unit == "month":
        months = at.year * 12 + at.month - 1 - count
        start = date(months // 12, months % 12 + 1, 1)
        return start, _next_month(start)
    return date(at.year - count, 1, 1), date(at.year - count + 1, 1, 1)


def _weekday(found: re.Match[str], at: date) -> tuple[date, date]:
    start = at - timedelta(days=(at.weekday() - _WEEKDAYS.index(found["weekday"].casefold()) - 1) % 7 + 1)
    return start, start + timedelta(days=1)


def _yesterday(found: re.Match[str], at: date) -> tuple[date, date]:
    return _back("day", 0 if found.group().casefold() == "today" else 1, at)


def _number_of(found: re.Match[str]) -> int:
    # The pattern takes a long s for an s, which lower() leaves as it is.
    return next(at for at, one in enumerate(_MONTHS, 1) if found["month"].casefold().startswith(one[:3]))


def _next_month(start: date) -> date:
    return (start + timedelta(days=31)).replace(day=1)


def _rule(pattern: str, rule: Rule) -> tuple[re.Pattern[str], Rule]:
    return re.compile(pattern, re.IGNORECASE), rule


# The most exact first. "may" and "march" are words too: alone they are months only after a preposition.
_RULES: Final = (
    _rule(r"\b\d{4}-\d\d-\d\d\b", _iso),
    _rule(rf"\b{_DAY}(?: of)? {_MONTH}\b(?:,? {_YEAR})?", _on_day),
    _rule(rf"\b{_MONTH} {_DAY}\b(?:,? {_YEAR})?", _on_day),
    _rule(rf"\b{_MONTH},? {_YEAR}\b", _in_month),
    _rule(rf"\b(?P<before>in|during|last|since|before|after|until|this|of) {_MONTH}(?![\w'])(?P<year>)", _in_month),
    _rule(r"\b(?P<count>\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten) (?P<unit>day|week|month|year)s?"
          r" ago\b", _ago),
    _rule(r"\b(?P<which>last|this|past) (?P<unit>week|month|year)\b", _last),
    _rule(rf"\b(?:last|on|past) (?P<weekday>{'|'.join(_WEEKDAYS)})\b", _weekday),
    _rule(r"\b(?:yesterday|today)\b", _yesterday),
    _rule(rf"\b(?P<before>in|during|since|before|after|until|of|by) {_YEAR}\b", _in_year),
)  # fmt: skip
_DAYS: Final = (
    _rule(r"\b\d{4}-\d\d-\d\d\b", _iso),
    _rule(rf"\b{_DAY}(?: of)? {_MONTH},? {_YEAR}\b", _on_day),
    _rule(rf"\b{_MONTH} {_DAY},? {_YEAR}\b", _on_day),
    _rule(
        r"\b(?P<count>\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten) (?P<unit>day)s? ago\b",
        _ago,
    ),
    _rule(rf"\blast (?P<weekday>{'|'.join(_WEEKDAYS)})\b", _weekday),
    _rule(r"\byesterday\b", _yesterday),
)
"""Those of the rules that name one day wherever they stand."""
