"""What is late, as gauges of every process: versions that wait for a vector, and the oldest job of derivation."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import psycopg
from opentelemetry.metrics import CallbackOptions, Observation

from service_kit import semconv, telemetry
from service_kit.db.pool import Database
from service_kit.errors import GroveError

__all__ = ["Late", "Lateness"]

_MEASURE_S: Final = 10.0
_NEWEST: Final = (
    "select name, exists (select from vector_generation o where o.place < n.place and not o.emptied) as others"
    " from vector_generation n order by place desc limit 1"
)
"""The model that vectors are made with, and whether some of another may still have to be dropped."""
_log: Final = logging.getLogger(__name__)


@dataclass
class Late:
    """Versions that wait for a vector, of which model, and how long the oldest pending derivation has waited, in seconds."""

    waiting: int = 0
    generation: str = ""
    oldest_s: float = 0.0


_shown: Final = Late()


def _read(_: CallbackOptions) -> Iterable[Observation]:
    of = {semconv.GROVE_EMBEDDING_GENERATION: _shown.generation} if _shown.generation else {}
    return [Observation(_shown.waiting, of)]


telemetry.meter(__name__).create_observable_gauge(
    semconv.GROVE_EMBEDDINGS_PENDING,
    [_read],
    unit="{version}",
    description="Versions that wait for a vector.",
)

telemetry.meter(__name__).create_observable_gauge(
    semconv.GROVE_DERIVATION_OLDEST_AGE,
    [lambda _: [Observation(_shown.oldest_s)]],
    unit="s",
    description="How long the oldest pending derivation of any memory has waited; 0: none waits.",
)


class Lateness:
    """Keeps the gauges current."""

    def __init__(self, database: Database, every_s: float = _MEASURE_S) -> None:
        self._database = database
        self._every_s = every_s

    async def watch(self) -> None:
        """Runs until it is cancelled; without a database, or before its migrations, it only waits."""
        while True:
            try:
                await self.measure()
            except (GroveError, psycopg.Error) as error:
                _log.debug("what is late was not measured: %s", type(error).__name__)
            await asyncio.sleep(self._every_s)

    async def measure(self) -> Late:
        """Measure once, for the gauges to show from then on."""
        async with self._database.read() as tx:
            newest = await tx.fetch_one(_NEWEST)
            waiting = await tx.fetch_value("select count(*) from unembedded")
            _shown.generation = "" if newest is None else newest["name"]
            if newest is not None and newest["others"]:
                waiting += await tx.fetch_value(
                    "select count(*) from embedding where generation <> %s", (_shown.generation,)
                )
            _shown.waiting = waiting
            _shown.oldest_s = await tx.fetch_value(
                "select greatest(0, coalesce(extract(epoch from clock_timestamp()"
                " - min(coalesce(retried_at, created_at))), 0))::float from job where status = 'pending'"
            )
        return replace(_shown)
