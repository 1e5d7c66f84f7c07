"""The clock is handed in, so that a test can hold it."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "FixedClock", "SystemClock"]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The current time: aware, UTC, microseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class FixedClock:
    """A clock that moves only when told to; for tests."""

    def __init__(self, at: datetime) -> None:
        self._at: datetime = at.astimezone(UTC)

    def now(self) -> datetime:
        return self._at

    def advance(self, by: timedelta) -> datetime:
        """Move the clock and answer the new time."""
        self._at += by
        return self._at
