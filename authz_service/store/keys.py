"""Idempotency keys that are past their time."""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from service_kit.clock import Clock
from service_kit.db import keys
from service_kit.db.pool import Database
from service_kit.errors import GroveError

__all__ = ["OldKeys"]

KEPT: Final = timedelta(hours=48)
"""How long a key is kept (the specification asks for 24 hours at least)."""
_EVERY_S: Final = 3_600.0
_log: Final = logging.getLogger(__name__)


class OldKeys:
    """Lets go of them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database: Database = database
        self._clock: Clock = clock

    async def run(self) -> None:
        """Every hour, for ever."""
        while True:
            try:
                async with self._database.begin() as tx:
                    await keys.drop_old(tx, self._clock.now() - KEPT)
            except GroveError as error:
                _log.warning("old idempotency keys could not be dropped: %s", error.message)
            await asyncio.sleep(_EVERY_S)
