"""Consolidation runs, started and waited for."""

import time

from tests.e2e.caller import Json
from tests.e2e.people import Person

__all__ = ["consolidated", "ended"]

_OPEN = ("queued", "running")


def consolidated(who: Person, memory: str, body: Json | None = None) -> Json:
    """A run, from its start to its end."""
    started = who.post(f"/v1/memories/{memory}/consolidations", body or {})
    assert started["status"] in _OPEN
    return ended(who, memory, str(started["id"]))


def ended(who: Person, memory: str, run: str, within_s: float = 60.0) -> Json:
    """A run that was started, once it has ended."""
    until = time.monotonic() + within_s
    while (found := who.get(f"/v1/memories/{memory}/consolidations/{run}"))["status"] in _OPEN:
        assert time.monotonic() < until, found
        time.sleep(0.05)
    return found
