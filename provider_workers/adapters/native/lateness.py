"""How many versions wait for a vector, as a gauge of every process: late ones, and all after a change of model."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import psycopg
from opentelemetry.metrics import CallbackOptions, Observation

from service_kit import semconv, telemetry
from service_kit.db.pool import Database
from service_kit.errors import GroveError

__all__ = ["Lateness"]

_MEASURE_S: Final = 10.0
_log: Final = logging.getLogger(__name__)


@dataclass
class _Shown:
    waiting: int = 0


_shown: Final = _Shown()


def _read(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(_shown.waiting)]


telemetry.meter(__name__).create_observable_gauge(
    semconv.GROVE_EMBEDDINGS_PENDING,
    [_read],
    unit="{version}",
    description="Versions that wait for a vector.",
)


class Lateness:
    """Keeps the gauge current."""

    def __init__(self, database: Database, every_s: float = _MEASURE_S) -> None:
        self._database = database
        self._every_s = every_s

    async def watch(self) -> None:
        """Runs until it is cancelled; without a database, or before its migrations, it only waits."""
        while True:
            try:
                await self.measure()
            except (GroveError, psycopg.Error) as error:
                _log.debug("what waits for a vector was not counted: %s", type(error).__name__)
            await asyncio.sleep(self._every_s)

    async def measure(self) -> int:
        """Count once; what the gauge shows from then on."""
        async with self._database.read() as tx:
            _shown.waiting = await tx.fetch_value("select count(*) from unembedded")
        return _shown.waiting
