"""The job of a run: reads what is new, oldest first, and tidies it up.

In each batch exact duplicates come first, then sentences close to one another; at the end what has ended is closed and
sessions and days are summed up. It may be killed anywhere: the run goes on after ``through``, and what was done
before it is found done.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from opentelemetry import trace
from psycopg import sql

from provider_workers.adapters.native.consolidation import finding, late, rules
from provider_workers.adapters.native.consolidation.due import settled
from provider_workers.adapters.native.consolidation.pen import LostError, Pen
from provider_workers.adapters.native.consolidation.summaries import Summaries
from provider_workers.adapters.native.rows import COLUMNS
from provider_workers.adapters.native.vectors import Vectors
from service_kit import semconv, telemetry
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.jobs import Jobs

__all__ = ["ATTEMPTS", "CONSOLIDATE", "MOST_CHANGES", "Working"]

CONSOLIDATE: Final = "consolidate"
"""The name of the job."""
ATTEMPTS: Final = 50
"""How often the queue may try this job; it gives itself up before, in words its reader sees."""
MOST_CHANGES: Final = 2_000
"""Records one run changes at most, so that it can be reverted in one step; the next run goes on."""

_MOST_EPOCHS: Final = 10
_BATCH: Final = 64
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
_AGAIN_S: Final = 1.0
_NOT_COMPARED: Final = ["changed:embedding_pending", "similar:embedding_pending"]
_NO_SUMMARY: Final = "summary:embedding_unavailable"
_LOCK: Final = 0x636F6E73  # "cons": runs are taken one after another

_tracer: Final = telemetry.tracer(__name__)
_ended: Final = telemetry.meter(__name__).create_counter(
    semconv.GROVE_CONSOLIDATIONS, unit="{run}", description="Consolidation runs that ended."
)
_changes: Final = telemetry.meter(__name__).create_counter(
    semconv.GROVE_CONSOLIDATION_CHANGES,
    unit="{record}",
    description="Records that consolidation runs changed.",
)


class _EnoughError(Exception):
    """The budget ran out; ``exhausted`` unless it was the bound of what can be reverted in one step."""

    def __init__(self, *, exhausted: bool) -> None:
        super().__init__()
        self.exhausted = exhausted


@dataclass
class _Spent:
    """How far a taking is, and what it has used: since ``began``, and changes made by the run so far."""

    limit: int
    unit: str
    records: int
    worked_before: float
    began: float
    changes: int
    through: datetime
    ceiling: datetime
    left: set[str] = field(default_factory=set[str])
    """What could not be done and why, as the run says it."""

    @property
    def worked(self) -> float:
        return self.worked_before + time.monotonic() - self.began

    def check(self) -> None:
        """Raises :class:`_EnoughError`. Without a model a run uses no tokens."""
        used = {"records": self.records, "seconds": self.worked}.get(self.unit, 0)
        if used >= self.limit:
            raise _EnoughError(exhausted=True)
        if self.changes >= MOST_CHANGES:
            raise _EnoughError(exhausted=False)

    def room(self) -> int:
        """How many records may be read next."""
        return min(_BATCH, self.limit - self.records) if self.unit == "records" else _BATCH


class Working:
    """``near`` is the cosine from which two sentences may say the same, ``alike`` from which they may be about one
    thing; ``at_once`` bounds the runs that work at a time.
    """

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        jobs: Jobs,
        summaries: Summaries,
        bounds: tuple[float, float, int],
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._jobs = jobs
        self._summaries = summaries
        self._near, self._alike, self._at_once = bounds

    async def run(self, payload: dict[str, Any]) -> None:
        """One taking of the run of ``payload``: ``memory_id`` and ``run_id``."""
        row = await self._take(str(payload["memory_id"]), str(payload["run_id"]))
        if row is None:
            return
        pen = Pen(self._database, self._vectors.generation, row["memory_id"], row["run_id"], row["epoch"])
        spent = _Spent(
            row["budget_limit"],
            row["budget_unit"],
            row["records"],
            row["worked_s"],
            time.monotonic(),
            row["created"] + row["superseded"] + row["forgotten"],
            row["through"] or _BEGINNING,
            row["ceiling"],
        )
        with _tracer.start_as_current_span(
            "consolidate", attributes={semconv.GROVE_MEMORY_ID: row["memory_id"]}
        ):
            try:
                await self._work(pen, spent)
                await self._end(pen, spent, "completed")
            except _EnoughError as enough:
                await self._end(pen, spent, "stopped", exhausted=enough.exhausted)
            except LostError:
                return

    async def _take(self, memory_id: str, run_id: str) -> Row | None:
        """Make the run this process's; None when it has ended, or has to wait for its turn."""
        async with self._database.begin() as tx:
            await tx.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            row = await tx.fetch_one(
                "select * from consolidation where memory_id = %s and run_id = %s"
                " and status in ('queued', 'running') for update",
                (memory_id, run_id),
            )
            if row is None:
                return None
            if row["status"] == "queued" and not await self._turn(tx, row):
                payload = {"memory_id": memory_id, "run_id": run_id}
                await self._jobs.defer(tx, CONSOLIDATE, payload, after_s=_AGAIN_S)
                return None
            failed = row["epoch"] >= _MOST_EPOCHS
            taken = await tx.fetch_one(
                "update consolidation set status = %s, error = %s, epoch = epoch + 1,"
                " started_at = coalesce(started_at, clock_timestamp()), finished_at = case when %s then clock_timestamp() end"
                " where memory_id = %s and run_id = %s returning *",
                (
                    "failed" if failed else "running",
                    "The run could not be worked on." if failed else "",
                    failed,
                    memory_id,
                    run_id,
                ),
            )
            if failed and taken is not None:
                await settled(tx, memory_id, run_id)
                _count(taken)
                return None
        return taken if taken is None or taken["ceiling"] is not None else await self._look(taken)

    async def _turn(self, tx: Tx, row: Row) -> bool:
        """Whether no run of this memory works or was there before, and not too many work elsewhere."""
        waits = await tx.fetch_value(
            "select exists (select from consolidation where memory_id = %(memory)s and status in ('queued', 'running')"
            " and (created_at, run_id) < (%(at)s, %(run)s))"
            " or (select count(*) from consolidation where status = 'running') >= %(most)s",
            {
                "memory": row["memory_id"],
                "at": row["created_at"],
                "run": row["run_id"],
                "most": self._at_once,
            },
        )
        return not waits

    async def _look(self, row: Row) -> Row:
        """Settle what the run reads: from where the one before ended up to an instant that no write is across."""
        async with self._database.begin() as tx:
            looked = await tx.fetch_one(
                "update consolidation c set ceiling = snapshot_moment(c.memory_id), through = coalesce(c.through,"
                " (select max(p.through) from consolidation p where p.memory_id = c.memory_id))"
                " where c.memory_id = %s and c.run_id = %s and c.epoch = %s returning c.*",
                (row["memory_id"], row["run_id"], row["epoch"]),
            )
        return row if looked is None else looked

    async def _work(self, pen: Pen, spent: _Spent) -> None:
        spent.check()
        while await self._batch(pen, spent):
            spent.check()
        while await self._catch_up(pen, spent):
            spent.check()
        await self._close_expired(pen, spent)
        if self._summaries.on:
            await self._sum_up(pen, spent)

    async def _catch_up(self, pen: Pen, spent: _Spent) -> bool:
        """Compare what an earlier run, or this one, had to leave for want of a vector; False when that is done."""
        async with self._database.read() as tx:
            record_ids = await late.caught_up(tx, pen.memory_id, pen.generation, spent.room())
        if not record_ids:
            return False
        await self._compare(pen, spent, record_ids, newer=True)
        async with self._database.begin() as tx:
            await pen.hold(tx)
            await late.compared(tx, pen.memory_id, record_ids)
            spent.records += len(record_ids)
            await tx.execute(
                "update consolidation set records = %s, worked_s = %s where memory_id = %s and run_id = %s",
                (spent.records, spent.worked, pen.memory_id, pen.run_id),
            )
        return True

    async def _sum_up(self, pen: Pen, spent: _Spent) -> None:
        """Sessions and days that grew. Once nobody answers with vectors the others are left as they are, too."""
        tried = list[str]()
        while (group := await self._summaries.next(pen, tried)) is not None:
            spent.check()
            before = await self._changes_of(pen)
            tried.append(group["group_key"])
            if not await self._summaries.write(pen, group):
                spent.left.add(_NO_SUMMARY)
                if self._vectors.away:
                    return
            spent.changes += await self._changes_of(pen) - before

    async def _batch(self, pen: Pen, spent: _Spent) -> bool:
        """Read and tidy up what comes next; False when there is nothing any more."""
        rows = await self._read(pen, spent)
        if not rows:
            return False
        digests = [
            bytes(row["digest"]) for row in rows if row["type"] in finding.MERGED and not row["derived"]
        ]
        for later, oldest in await finding.stated_twice(self._database, pen.memory_id, digests):
            await self._replace(pen, spent, later, oldest, "duplicate")
        derived = [row["record_id"] for row in rows if row["derived"] and row["type"] == "fact"]
        waiting = list[str]()
        if derived and self._alike <= 1:
            async with self._database.read() as tx:
                waiting = await late.uncompared(tx, pen.memory_id, derived, pen.generation)
            await self._compare(pen, spent, derived)
        async with self._database.begin() as tx:
            await pen.hold(tx)
            await late.put_off(tx, pen.memory_id, waiting)
            episodes = [row for row in rows if row["type"] == "episode"]
            if self._summaries.on:
                await self._summaries.note(tx, pen.memory_id, episodes)
            spent.records += len(rows)
            spent.through = rows[-1]["created_at"]
            await tx.execute(
                "update consolidation set through = %s, episodes = episodes + %s, records = %s, worked_s = %s"
                " where memory_id = %s and run_id = %s",
                (
                    rows[-1]["created_at"],
                    len(episodes),
                    spent.records,
                    spent.worked,
                    pen.memory_id,
                    pen.run_id,
                ),
            )
        return True

    async def _read(self, pen: Pen, spent: _Spent) -> list[Row]:
        """The next records in the order they were first written, and all that were written in the same instant."""
        async with self._database.read() as tx:
            last = await tx.fetch_value(
                "select max(created_at) from (select created_at from version where memory_id = %s"
                " and invalidated_at is null and created_at > %s and created_at <= %s order by created_at limit %s) page",
                (pen.memory_id, spent.through, spent.ceiling, spent.room()),
            )
            return await tx.fetch_all(
                sql.SQL(
                    "select {columns}, v.derived, v.digest from version v where v.memory_id = %s"
                    " and v.invalidated_at is null and v.created_at > %s and v.created_at <= %s"
                    " order by v.created_at, v.record_id"
                ).format(columns=sql.SQL(COLUMNS)),
                (
                    pen.memory_id,
                    spent.through,
                    last,
                ),
            )

    async def _compare(self, pen: Pen, spent: _Spent, record_ids: list[str], *, newer: bool = False) -> None:
        """Derived facts that say the same, or give one thing another value."""
        closed = set[str]()
        least = min(self._near, self._alike)
        pairs = await finding.close_pairs(
            self._database, pen.memory_id, record_ids, pen.generation.name, least, newer=newer
        )
        for later, older, cosine in pairs:
            if later["record_id"] in closed or older["record_id"] in closed:
                continue
            if cosine >= self._near and rules.same(later["text"], older["text"]):
                gone, kept, reason = later, older, "similar"
            elif (
                cosine >= self._alike
                and later["refs"] != older["refs"]
                and rules.changed(later["text"], older["text"])
            ):
                gone, kept = _in_time(older, later)
                reason = "changed"
                if _when(gone) == _when(kept):
                    continue
            else:
                continue
            if await self._replace(pen, spent, gone, kept, reason):
                closed.add(gone["record_id"])

    async def _close_expired(self, pen: Pen, spent: _Spent) -> None:
        while ended := await finding.expired(self._database, pen.memory_id, spent.ceiling, _BATCH):
            done = 0
            for row in ended:
                spent.check()
                done += await pen.forget(row, "expired")
            spent.changes += done
            if not done:
                return

    async def _replace(self, pen: Pen, spent: _Spent, gone: Row, kept: Row, reason: str) -> bool:
        spent.check()
        done = await pen.replace(gone, kept, reason)
        spent.changes += done
        return done

    async def _changes_of(self, pen: Pen) -> int:
        async with self._database.read() as tx:
            return await tx.fetch_value(
                "select created + superseded + forgotten from consolidation where memory_id = %s and run_id = %s",
                (pen.memory_id, pen.run_id),
            )

    async def _end(self, pen: Pen, spent: _Spent, status: str, *, exhausted: bool = False) -> None:
        async with self._database.begin() as tx:
            await pen.hold(tx)
            ended = await tx.fetch_one(
                "update consolidation c set status = %s, exhausted = %s, worked_s = %s, finished_at = clock_timestamp(),"
                " through = case when %s then ceiling else through end, degraded = %s::text[] || case when exists (select"
                " from consolidation_late l join version v using (memory_id, record_id) where l.memory_id = c.memory_id"
                " and v.invalidated_at is null) then %s::text[] else '{}' end"
                " where memory_id = %s and run_id = %s returning *",
                (
                    status,
                    exhausted,
                    spent.worked,
                    status == "completed",
                    sorted(spent.left),
                    _NOT_COMPARED,
                    pen.memory_id,
                    pen.run_id,
                ),
            )
            await settled(tx, pen.memory_id, pen.run_id)
        if ended is not None:
            _count(ended)


def _when(fact: Row) -> Any:
    return fact["valid_from"] or fact["created_at"]


def _in_time(one: Row, other: Row) -> tuple[Row, Row]:
    """(the earlier, the later) by when they were said."""
    return (one, other) if _when(one) <= _when(other) else (other, one)


def _count(run: Row) -> None:
    trigger = {semconv.GROVE_CONSOLIDATION_TRIGGER: run["trigger"]}
    _ended.add(1, {**trigger, semconv.GROVE_CONSOLIDATION_STATUS: run["status"]})
    span = trace.get_current_span()
    span.set_attribute(semconv.GROVE_CONSOLIDATION_STATUS, run["status"])
    for change in ("created", "superseded", "forgotten"):
        _changes.add(run[change], {**trigger, semconv.GROVE_CONSOLIDATION_CHANGE: change})
