"""The queue, the leases and the event log, for those who run turns, in Postgres.

A lease lives in its session's row and is measured by the database's clock, so that runners need not
agree on the time. Whoever writes a turn locks that row and shows its epoch: an older one is refused.
Whoever locks a session and a response of it locks the session first; taking one from the queue waits for neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from runner_service.domain.errors import LeaseLostError
from runner_service.domain.model import Claim, Event, Item, Lease, PastTurn, Priming, Response
from runner_service.store import rows
from runner_service.store.harnesses import attached
from runner_service.store.responses import add_events, columns, read_events
from runner_service.store.sessions import remove_sessions
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.jobs import Jobs

__all__ = ["OBSERVE", "Keeping", "PostgresTurns"]

OBSERVE: Final = "observe"
"""The name of the job that sends an ended turn to its memory."""
_MAX_HISTORY: Final = 500
_EXPIRED_AT_ONCE: Final = 100


class _Final(msgspec.Struct):
    output: list[Item]


_final = msgspec.json.Decoder(_Final)


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long a lease holds, and how long unstored responses, idle ``sessions`` (zero: until they are deleted),
    idempotency keys, and the ids of what is ``expired`` are kept.
    """

    lease: timedelta
    unstored: timedelta
    sessions: timedelta = timedelta()
    keys: timedelta = timedelta(hours=48)
    expired: timedelta = timedelta(days=90)


class PostgresTurns:
    """The verbs of ``domain.ports.TurnStore`` and ``domain.ports.ObservedTurns``."""

    def __init__(self, database: Database, jobs: Jobs, keeping: Keeping) -> None:
        self._database: Database = database
        self._jobs: Jobs = jobs
        self._keeping: Keeping = keeping

    async def claim(self, owner: str) -> Claim | None:
        async with self._database.begin() as tx:
            row = await tx.fetch_one(
                "with next as (select r.id, r.session_id from response r join session s on s.id = r.session_id"
                " where r.status = 'queued' order by r.created_at, r.id limit 1"
                " for update of r skip locked for no key update of s skip locked),"
                " leased as (update session set lease_owner = %s, lease_epoch = lease_epoch + 1,"
                " lease_until = clock_timestamp() + %s, updated_at = clock_timestamp()"
                " from next where session.id = next.session_id"
                " returning session.id, lease_epoch)"
                " update response set status = 'in_progress', started_at = clock_timestamp()"
                " from next, leased where response.id = next.id returning response.*, leased.lease_epoch",
                (owner, self._keeping.lease),
            )
            return None if row is None else await _claim(tx, row, owner)

    async def abandoned(self, owner: str, limit: int) -> tuple[Claim, ...]:
        async with self._database.begin() as tx:
            found = await tx.fetch_all(
                "with silent as (select id from session where lease_owner is not null"
                " and lease_until < clock_timestamp() order by lease_until limit %s for update skip locked),"
                " leased as (update session set lease_owner = %s, lease_epoch = lease_epoch + 1,"
                " lease_until = clock_timestamp() + %s from silent where session.id = silent.id"
                " returning session.id, lease_epoch)"
                " select response.*, leased.lease_epoch from response join leased"
                " on leased.id = response.session_id and response.status = 'in_progress'",
                (limit, owner, self._keeping.lease),
            )
            return tuple([await _claim(tx, row, owner) for row in found])

    async def beat(self, owner: str, leases: Sequence[Lease]) -> frozenset[str]:
        async with self._database.begin() as tx:
            found = await tx.fetch_all(
                "update session set lease_until = clock_timestamp() + %s"
                " from unnest(%s::text[], %s::bigint[]) as held (id, epoch)"
                " where session.id = held.id and lease_epoch = held.epoch and lease_owner = %s"
                " returning session.id",
                (
                    self._keeping.lease,
                    [one.session_id for one in leases],
                    [one.epoch for one in leases],
                    owner,
                ),
            )
        return frozenset(row["id"] for row in found)

    async def cancels(self, response_ids: Sequence[str]) -> frozenset[str]:
        async with self._database.read() as tx:
            found = await tx.fetch_all(
                "select id from response where id = any(%s) and cancel_requested", (list(response_ids),)
            )
        return frozenset(row["id"] for row in found)

    async def history(self, response: Response) -> tuple[PastTurn, ...]:
        async with self._database.read() as tx:
            found = await tx.fetch_all(
                "with recursive chain as (select id, previous_response_id, 0 as step from response where id = %s"
                " union all select before.id, before.previous_response_id, chain.step + 1"
                " from chain join response as before on before.id = chain.previous_response_id"
                " where chain.step < %s)"
                " select response.input, response.final from chain join response on response.id = chain.id"
                " where chain.step > 0 order by chain.step desc",
                (response.id, _MAX_HISTORY),
            )
        return tuple(
            PastTurn(bytes(row["input"]), tuple(_final.decode(row["final"]).output) if row["final"] else ())
            for row in found
        )

    async def prime(self, lease: Lease, priming: Priming | None) -> None:
        async with self._database.begin() as tx:
            await _held(tx, lease)
            await tx.execute(
                "update session set priming = %s::jsonb where id = %s",
                (None if priming is None else rows.priming_json(priming), lease.session_id),
            )

    async def append(self, lease: Lease, response_id: str, events: Sequence[Event]) -> None:
        async with self._database.begin() as tx:
            held = await tx.fetch_value(
                "with held as (select 1 from session"
                " where id = %s and lease_epoch = %s and lease_owner = %s for share),"
                " added as (insert into event (response_id, sequence_number, type, terminal, json)"
                " select %s, one.* from held,"
                " unnest(%s::bigint[], %s::text[], %s::boolean[], %s::bytea[]) as one"
                # A write whose answer was lost is made again.
                " on conflict do nothing)"
                " select count(*) from held",
                (lease.session_id, lease.epoch, lease.owner, response_id, *columns(events)),
            )
            if not held:
                raise LeaseLostError(lease.session_id)

    async def log(self, response_id: str) -> tuple[Event, ...]:
        async with self._database.read() as tx:
            return await read_events(tx, response_id, -1, 2**31)

    async def finish(
        self, lease: Lease, response: Response, events: Sequence[Event], observe: str | None
    ) -> None:
        async with self._database.begin() as tx:
            await _held(tx, lease)
            await add_events(tx, response.id, events)
            await _end(tx, response)
            await tx.execute(
                "update session set lease_owner = null, lease_until = null, updated_at = clock_timestamp()"
                " where id = %s",
                (lease.session_id,),
            )
            if observe is not None:
                payload = {"response_id": response.id, "memory_id": observe}
                await self._jobs.defer(tx, OBSERVE, payload, lock=lease.session_id)

    async def queue_depth(self) -> int:
        async with self._database.read() as tx:
            return int(await tx.fetch_value("select count(*) from response where status = 'queued'"))

    async def finished(self, response_id: str) -> Response | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select * from response where id = %s and finished_at is not null", (response_id,)
            )
        return None if row is None else rows.response(row)

    async def purge(self) -> int:
        async with self._database.begin() as tx:
            # Sessions first, as whoever locks both does.
            held = await tx.fetch_all(
                "select id from session where id in (select session_id from response"
                " where not store and finished_at < now() - %s) for update skip locked",
                (self._keeping.unstored,),
            )
            ids = [row["id"] for row in held]
            await tx.execute(
                "delete from response where session_id = any(%s) and not store and finished_at < now() - %s",
                (ids, self._keeping.unstored),
            )
            # A session goes with its last response: nothing continues it, and what it was primed with is of memories.
            await tx.execute(
                "delete from session where id = any(%s)"
                " and not exists (select from response where session_id = session.id)",
                (ids,),
            )
            await tx.execute("delete from idempotency where created_at < now() - %s", (self._keeping.keys,))
            await tx.execute(
                "delete from expired_response where expired_at < now() - %s", (self._keeping.expired,)
            )
        expired = 0
        while self._keeping.sessions and (gone := await self._expire(self._keeping.sessions)):
            expired += gone
        return expired

    async def _expire(self, idle: timedelta) -> int:
        """Remove a batch of sessions that were idle for so long; answers how many."""
        async with self._database.begin() as tx:
            held = await tx.fetch_all(
                "select id from session s where updated_at < now() - %s and lease_owner is null"
                " and not exists (select from response where session_id = s.id and finished_at is null)"
                " order by updated_at limit %s for update skip locked",
                (idle, _EXPIRED_AT_ONCE),
            )
            # One that was continued before it was locked is left alone.
            found = await tx.fetch_all(
                "select id from session s where id = any(%s)"
                " and not exists (select from response where session_id = s.id and finished_at is null)",
                ([row["id"] for row in held],),
            )
            ids = [row["id"] for row in found]
            await tx.execute(
                "insert into expired_response (id, owner) select id, owner from response"
                " where session_id = any(%s) and store on conflict do nothing",
                (ids,),
            )
            await remove_sessions(tx, ids)
        return len(ids)


async def _held(tx: Tx, lease: Lease) -> None:
    """Lock the session under this lease, or ``LeaseLostError``."""
    query = "select 1 from session where id = %s and lease_epoch = %s and lease_owner = %s for update"
    if await tx.fetch_one(query, (lease.session_id, lease.epoch, lease.owner)) is None:
        raise LeaseLostError(lease.session_id)


async def _claim(tx: Tx, row: Row, owner: str) -> Claim:
    response = rows.response(row)
    session = await tx.fetch_one("select * from session where id = %s", (response.session_id,))
    harness = await tx.fetch_one("select * from harness where id = %s", (response.harness_id,))
    assert session is not None  # noqa: S101 - foreign keys hold both
    assert harness is not None  # noqa: S101
    return Claim(
        response,
        rows.session(session),
        rows.harness(harness),
        Lease(response.session_id, owner, row["lease_epoch"]),
        await attached(tx, response.harness_id),
    )


async def _end(tx: Tx, response: Response) -> None:
    outcome = response.outcome
    assert outcome is not None  # noqa: S101 - only an ended response is finished
    await tx.execute(
        "update response set status = %s, failure_code = %s, failure_message = %s, reason = %s,"
        " input_tokens = %s, output_tokens = %s, final = %s, finished_at = %s"
        " where id = %s and status = 'in_progress'",
        (
            outcome.status.value,
            outcome.failure.code if outcome.failure else None,
            outcome.failure.message if outcome.failure else None,
            outcome.reason,
            outcome.usage.input_tokens if outcome.usage else None,
            outcome.usage.output_tokens if outcome.usage else None,
            response.final,
            response.finished_at,
            response.id,
        ),
    )
