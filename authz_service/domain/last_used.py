"""When each token was used last: to the minute, and never in a request's way."""

import asyncio
import logging
from datetime import datetime
from typing import Final

from authz_service.domain.ports import Tokens
from service_kit.clock import Clock
from service_kit.errors import GroveError

EVERY_S: Final = 5.0
"""Seconds between two writes, which is what a process that dies loses."""
MOST: Final = 10_000
"""Most tokens waited for at a time; more are noted when they are used again."""

_log: Final = logging.getLogger(__name__)


class LastUsed:
    """Uses are collected here, at most one for a token and minute, and written together."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens: Tokens = tokens
        self._clock: Clock = clock
        self._waiting: dict[str, datetime] = {}
        self._minute: datetime | None = None
        self._noted: set[str] = set()

    def note(self, token_id: str) -> None:
        """The token is used now."""
        minute = self._clock.now().replace(second=0, microsecond=0)
        if minute != self._minute:
            self._minute = minute
            self._noted.clear()
        if token_id in self._noted or (len(self._waiting) >= MOST and token_id not in self._waiting):
            return
        self._noted.add(token_id)
        self._waiting[token_id] = minute

    async def run(self) -> None:
        """Write what was collected every few seconds, and once more at the end."""
        try:
            while True:
                await asyncio.sleep(EVERY_S)
                await self.write()
        finally:
            await self.write()

    async def write(self) -> None:
        """Write what was collected. Without a database it waits for the next time."""
        times, self._waiting = self._waiting, {}
        if not times:
            return
        try:
            await self._tokens.used(times)
        except GroveError as error:
            self._waiting = {**times, **self._waiting}
            _log.warning("when tokens were used has to wait: %s", error.message)
