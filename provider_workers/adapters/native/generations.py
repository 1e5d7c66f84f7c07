"""Which model vectors are made with where workers were started with several: the newest, decided in the database.

A worker tells its model at its start and every few seconds. One that nobody had takes the highest place and is the
newest from then on; one that is known keeps its place, so that an old worker that is started again changes nothing.
Where a worker hears of none of a higher place for ``given_up_s``, they were given up, and its own model takes the
highest. Only workers of the newest keep vectors and give others theirs; vectors of two models are never compared.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

import psycopg
from psycopg import sql

from provider_workers.adapters.native.scope import Arguments, among
from service_kit.db.pool import Database
from service_kit.db.tx import Tx
from service_kit.errors import GroveError

__all__ = ["GIVEN_UP_S", "Generation", "Generations", "Leaving", "outdated"]

GIVEN_UP_S: Final = 600.0
"""How long nobody needs to have a model until it counts as given up."""
TELL_S: Final = 10.0
"""How often a worker tells its model, and hears which is the newest."""

_HEARD_S: Final = 60.0
"""By then every worker that lives has heard of a new one, and keeps no vectors of its own any more."""
_LOCK: Final = 0x67656E73  # "gens": one tells at a time

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Generation:
    """Model, dimension and preprocessing of the vectors a worker makes and searches."""

    name: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """Generations whose vectors are to be dropped. ``forgotten``: those of them that no worker has had for long.
    ``heard``: no worker that lives keeps vectors of them any more.
    """

    names: Sequence[str]
    forgotten: Sequence[str]
    heard: bool


class Generations:
    """The generation of this worker among those of all."""

    def __init__(self, database: Database, own: Generation, given_up_s: float = GIVEN_UP_S) -> None:
        self.own: Generation = own
        self._database = database
        self._given_up_s = given_up_s
        self._newest: bool | None = None
        self._heard_since: float | None = None
        self._first = asyncio.Lock()

    async def watch(self) -> None:
        """Tell, again and again, until cancelled; without a database, or before its migrations, it only waits."""
        while True:
            try:
                await self.tell()
            except (GroveError, psycopg.Error) as error:
                # Nothing was heard of the others meanwhile: that they were given up can be said of later times only.
                self._heard_since = None
                _log.debug("the embedding model was not told: %s", type(error).__name__)
            await asyncio.sleep(TELL_S)

    async def newest(self) -> bool:
        """Whether vectors are made with this worker's model, as it last heard. Asked first, it tells first."""
        if self._newest is None:
            async with self._first:
                if self._newest is None:
                    return await self.tell()
        return self._newest

    async def tell(self) -> bool:
        """Say that a worker has this model; answers :meth:`newest`."""
        if self._heard_since is None:
            self._heard_since = monotonic()
        async with self._database.begin() as tx:
            await tx.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            # A worker whose model was forgotten while it could not tell brings nothing new: it comes below the others.
            await tx.execute(
                "insert into vector_generation (name, place)"
                " select %s, case when %s then coalesce(max(place), 0) + 1 else coalesce(min(place), 0) - 1 end"
                " from vector_generation on conflict (name) do update set seen_at = clock_timestamp()",
                (self.own.name, self._newest is None),
            )
            above = await tx.fetch_all(
                "select name, seen_at > clock_timestamp() - make_interval(secs => %s) as had from vector_generation"
                " where place > (select place from vector_generation where name = %s) order by place desc",
                (self._given_up_s, self.own.name),
            )
            long_enough = monotonic() - self._heard_since >= self._given_up_s
            if above and long_enough and not any(row["had"] for row in above):
                await self._take_over(tx)
                above = []
        self._say(above[0]["name"] if above else None)
        return not above

    async def leaving(self) -> Leaving:
        """What the newest has to drop; nothing where it was done and the others are still in use."""
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select name, emptied, seen_at <= clock_timestamp() - make_interval(secs => %s) as unused"
                " from vector_generation where name <> %s",
                (self._given_up_s, self.own.name),
            )
            heard = await tx.fetch_value(
                "select placed_at <= clock_timestamp() - make_interval(secs => %s) from vector_generation"
                " where name = %s",
                (_HEARD_S, self.own.name),
            )
        due = [row for row in rows if row["unused"] or not row["emptied"]]
        return Leaving(
            [row["name"] for row in due], [row["name"] for row in due if row["unused"]], heard=bool(heard)
        )

    async def left(self, leaving: Leaving) -> None:
        """Their vectors are dropped; one that was forgotten counts as new if it ever comes back."""
        async with self._database.begin() as tx:
            if leaving.heard:
                await tx.execute(
                    "update vector_generation set emptied = true where name = any(%s)", (list(leaving.names),)
                )
            await tx.execute(
                "delete from vector_generation where name = any(%s)"
                " and seen_at <= clock_timestamp() - make_interval(secs => %s)",
                (list(leaving.forgotten), self._given_up_s),
            )

    async def _take_over(self, tx: Tx) -> None:
        await tx.execute("update vector_generation set emptied = false")
        await tx.execute(
            "update vector_generation set placed_at = clock_timestamp(),"
            " place = (select max(place) + 1 from vector_generation) where name = %s",
            (self.own.name,),
        )

    def _say(self, above: str | None) -> None:
        if above is not None and self._newest is not False:
            _log.warning(
                "vectors are made with %s, which came after %s: this worker leaves them to its workers",
                above,
                self.own.name,
            )
        elif above is None and self._newest is False:
            _log.warning(
                "no worker has a newer model any more: vectors are made with %s again", self.own.name
            )
        self._newest = above is None


async def outdated(tx: Tx, memory_ids: Sequence[str], generation: Generation) -> bool:
    """Whether the memories hold vectors of another generation, which are not searched. But for the time of a
    change there is none, and only that is looked at.
    """
    name = generation.name
    if not await tx.fetch_value("select exists (select from vector_generation where name <> %s)", (name,)):
        return False
    bind = Arguments()
    statement = sql.SQL(
        "select exists (select from embedding where memory_id {} and generation <> {})"
    ).format(among(memory_ids, bind), bind(name))
    return await tx.fetch_value(statement, bind.values)
