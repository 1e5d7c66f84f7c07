"""What is refused is recorded, within bounds that nobody can fill the audit past."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from authz_service.domain.audit import Act, Refusal
from authz_service.domain.ports import Audit
from service_kit import semconv, telemetry
from service_kit.clock import Clock

MOST: Final = 600
"""Most refusals of one actor (of one source, where the credential was refused) recorded in a minute."""
MOST_OF_STRANGERS: Final = 6_000
"""Most refused credentials recorded in a minute, wherever they come from: addresses cost nothing."""
MOST_ACTORS: Final = 10_000
"""Most actors and sources counted at a time; the one not seen for longest makes room."""
MINUTE_S: Final = 60

_log: Final = logging.getLogger(__name__)
_meter: Final = telemetry.meter(__name__)
_suppressed: Final = _meter.create_counter(
    semconv.GROVE_AUDIT_SUPPRESSED, unit="{record}", description="Refusals that were counted, not recorded."
)
_failed: Final = _meter.create_counter(
    semconv.GROVE_AUDIT_FAILED, unit="{record}", description="Refusals whose record could not be written."
)


@dataclass(slots=True)
class _Count:
    """Of one actor or source in the minute: refusals recorded, and those only counted."""

    recorded: int = 0
    suppressed: int = 0


@asynccontextmanager
async def recording(audit: Audit, clock: Clock) -> AsyncGenerator["Refusals"]:
    """Refusals, and what of them is only counted, recorded by the end of the block."""
    refusals = Refusals(audit, clock)
    try:
        yield refusals
    finally:
        await refusals.stop()


class Refusals:
    """Records refusals, each before it is answered; beyond the bounds it counts them.

    What was counted becomes one record, ``audit.suppressed`` with the count, when the minute has ended.
    """

    def __init__(self, audit: Audit, clock: Clock) -> None:
        self._audit: Audit = audit
        self._clock: Clock = clock
        self._minute: int = 0
        self._strangers: int = 0
        self._counts: OrderedDict[tuple[str, str], _Count] = OrderedDict()
        self._ended: list[Refusal] = []
        self._writing: set[asyncio.Task[None]] = set()

    async def note(self, refusal: Refusal) -> None:
        """Record a refusal. Whatever becomes of that, the caller is to answer the refusal itself.

        A caller that goes away meanwhile takes nothing back: the record is written all the same.
        """
        if not self._within_bounds(refusal):
            _suppressed.add(1)
            return
        writing = asyncio.create_task(self._write(refusal))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        await asyncio.shield(writing)

    async def run(self) -> None:
        """At the end of each minute, record what was only counted."""
        while True:
            await asyncio.sleep(MINUTE_S - self._clock.now().timestamp() % MINUTE_S)
            self._turn()
            await self.flush()

    async def stop(self) -> None:
        """Record what was counted so far and wait for whatever is being written."""
        self._end_minute()
        await self.flush()
        if self._writing:
            await asyncio.wait(self._writing)

    async def flush(self) -> None:
        """Record what was counted in minutes that have ended."""
        ended, self._ended = self._ended, []
        for one in ended:
            await self._write(one)

    async def _write(self, refusal: Refusal) -> None:
        try:
            await self._audit.refused(refusal)
        except Exception:  # noqa: BLE001 - a refusal stays a refusal, whatever becomes of its record
            _failed.add(1)
            _log.exception("a refusal could not be recorded", extra={"action": refusal.act.action})

    def _within_bounds(self, refusal: Refusal) -> bool:
        self._turn()
        key = refusal.actor, "" if refusal.actor else refusal.source
        if not refusal.actor:
            self._strangers += 1
            if self._strangers > MOST_OF_STRANGERS:
                self._count(("", "")).suppressed += 1
                return False
        count = self._count(key)
        if count.recorded >= MOST:
            count.suppressed += 1
            return False
        count.recorded += 1
        return True

    def _count(self, key: tuple[str, str]) -> _Count:
        count = self._counts.setdefault(key, _Count())
        self._counts.move_to_end(key)
        if len(self._counts) > MOST_ACTORS:
            self._end(*self._counts.popitem(last=False))
        return count

    def _turn(self) -> None:
        """Begin the minute it is, if that is another one."""
        minute = int(self._clock.now().timestamp()) // MINUTE_S
        if minute != self._minute:
            self._end_minute()
            self._minute = minute

    def _end_minute(self) -> None:
        for key, count in self._counts.items():
            self._end(key, count)
        self._counts.clear()
        self._strangers = 0

    def _end(self, key: tuple[str, str], count: _Count) -> None:
        if not count.suppressed:
            return
        begun = datetime.fromtimestamp(self._minute * MINUTE_S, UTC)
        detail = {"count": count.suppressed, "minute": begun.isoformat()}
        actor, source = key
        self._ended.append(Refusal(Act("audit.suppressed", detail=detail), "", actor=actor, source=source))
