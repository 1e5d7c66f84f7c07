"""Bounds of what is recorded of refusals, by the clock."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from authz_service.domain import refusals
from authz_service.domain.audit import Act, AuditQuery, AuditRecord, Refusal
from authz_service.domain.refusals import MOST, Refusals, recording
from service_kit.clock import FixedClock
from service_kit.errors import GroveError


class AuditInMemory:
    """``domain.ports.Audit`` that keeps a list."""

    def __init__(self) -> None:
        self.kept: list[Refusal] = []
        self.failure: Exception | None = None
        self.may_write: asyncio.Event = asyncio.Event()
        self.may_write.set()

    async def refused(self, refusal: Refusal) -> None:
        await self.may_write.wait()
        if self.failure is not None:
            raise self.failure
        self.kept.append(refusal)

    async def page(self, query: AuditQuery, after: tuple[int, ...], limit: int) -> list[AuditRecord]:
        raise NotImplementedError

    @property
    def counted(self) -> dict[tuple[str, str], object]:
        """The counts that were recorded, by actor and source."""
        return {
            (one.actor, one.source): one.act.detail["count"]
            for one in self.kept
            if one.act.action == "audit.suppressed"
        }


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(datetime(2026, 10, 1, 12, 0, 30, tzinfo=UTC))


@pytest.fixture
async def audit() -> AuditInMemory:
    return AuditInMemory()


@pytest.fixture
async def noting(audit: AuditInMemory, clock: FixedClock) -> Refusals:
    return Refusals(audit, clock)


def by(actor: str = "", source: str = "") -> Refusal:
    return Refusal(Act("access.check"), "memory_not_found", actor=actor, source=source)


async def test_a_refusal_is_recorded_by_the_time_it_is_answered(noting: Refusals, audit: AuditInMemory):
    await noting.note(by("person:a"))
    assert audit.kept == [by("person:a")]


async def test_beyond_the_bound_refusals_are_counted_and_the_count_is_recorded_when_the_minute_ends(
    noting: Refusals, audit: AuditInMemory, clock: FixedClock
):
    for _ in range(MOST + 7):
        await noting.note(by("person:a", "203.0.113.9"))
    await noting.note(by("person:b"))
    await noting.flush()
    assert len(audit.kept) == MOST + 1  # the minute is not over
    clock.advance(timedelta(seconds=30))
    await noting.note(by("person:a"))
    await noting.flush()
    assert audit.counted == {("person:a", ""): 7}
    [counted] = [one for one in audit.kept if one.act.action == "audit.suppressed"]
    assert counted.act.detail["minute"] == "2026-10-01T12:00:00+00:00"
    assert len(audit.kept) == MOST + 3
    await noting.stop()
    assert len(audit.kept) == MOST + 3


async def test_where_the_credential_was_refused_each_source_is_counted_and_all_of_them_together(
    noting: Refusals, audit: AuditInMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(refusals, "MOST", 3)
    monkeypatch.setattr(refusals, "MOST_OF_STRANGERS", 8)
    for source in ("203.0.113.1", "203.0.113.1", "203.0.113.1", "203.0.113.1", "203.0.113.2"):
        await noting.note(by(source=source))
    assert len(audit.kept) == 4
    for number in range(20):
        await noting.note(by(source=f"2001:db8::{number}"))
    assert len(audit.kept) == 7
    await noting.note(by("person:a", "203.0.113.1"))  # who is known is not held up by strangers
    assert len(audit.kept) == 8
    await noting.stop()
    assert audit.counted == {("", "203.0.113.1"): 1, ("", ""): 17}


async def test_the_memory_it_takes_is_bounded_and_no_count_is_lost_for_it(
    noting: Refusals, audit: AuditInMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(refusals, "MOST", 1)
    monkeypatch.setattr(refusals, "MOST_ACTORS", 2)
    for actor in ("person:a", "person:a", "person:b", "person:c", "person:d"):
        await noting.note(by(actor))
    await noting.flush()
    assert audit.counted == {("person:a", ""): 1}


async def test_what_cannot_be_recorded_is_logged_and_nothing_else(
    noting: Refusals, audit: AuditInMemory, caplog: pytest.LogCaptureFixture
):
    for failure in (GroveError("grovekeeper_unavailable", "Try again."), RuntimeError("of the driver")):
        audit.failure = failure
        await noting.note(by("person:a"))
    assert caplog.text.count("could not be recorded") == 2
    audit.failure = None
    await noting.note(by("person:a"))
    assert audit.kept == [by("person:a")]


async def test_who_leaves_before_the_answer_is_recorded_all_the_same(audit: AuditInMemory, clock: FixedClock):
    audit.may_write.clear()
    async with recording(audit, clock) as noting:
        asking = asyncio.create_task(noting.note(by("person:a")))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert not audit.kept
        audit.may_write.set()
    assert audit.kept == [by("person:a")]
