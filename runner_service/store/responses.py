"""Sessions, responses and their events, for those who ask for them, in Postgres."""

from collections.abc import Sequence
from typing import Final

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from runner_service.domain import errors
from runner_service.domain.model import Event, Idempotency, Response, Session
from runner_service.store import rows
from runner_service.store.keys import remember, remembered
from service_kit.db.pool import Database
from service_kit.db.tx import Tx

_CREATE: Final = "create_response"


class PostgresResponses:
    """The verbs of ``domain.ports.ResponseStore``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database

    async def repeated_response(self, owner: str, idempotency: Idempotency) -> Response | None:
        if not idempotency.key:
            return None
        async with self._database.read() as tx:
            known = await remembered(tx, owner, _CREATE, idempotency)
            return None if known is None else await _one(tx, owner, known)

    async def queued(self) -> int:
        async with self._database.read() as tx:
            return int(await tx.fetch_value("select count(*) from response where status = 'queued'"))

    async def accept(
        self, session: Session, response: Response, created: Event, idempotency: Idempotency
    ) -> Response:
        try:
            async with self._database.begin() as tx:
                first = await remember(tx, response.owner, _CREATE, idempotency, response.id)
                if first is not None:
                    known = await _one(tx, response.owner, first)
                    if known is None:
                        raise errors.response_not_found()
                    return known
                await _enter_session(tx, session, response)
                await _add_response(tx, response)
                await add_events(tx, response.id, [created])
                return response
        except UniqueViolation as error:
            if error.diag.constraint_name == "response_running":
                raise errors.session_busy() from error
            raise

    async def response(self, owner: str, response_id: str) -> Response | None:
        found = await self.followable(owner, response_id)
        hidden = found is not None and found.status.terminal and not found.asked.store
        return None if hidden else found

    async def followable(self, owner: str, response_id: str) -> Response | None:
        async with self._database.read() as tx:
            return await _one(tx, owner, response_id)

    async def expired(self, owner: str, response_id: str) -> bool:
        async with self._database.read() as tx:
            found = await tx.fetch_one(
                "select 1 from expired_response where id = %s and owner = %s", (response_id, owner)
            )
        return found is not None

    async def session(self, owner: str, session_id: str) -> Session | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select * from session where id = %s and owner = %s", (session_id, owner)
            )
        return None if row is None else rows.session(row)

    async def running(self, session_id: str) -> str | None:
        async with self._database.read() as tx:
            return await tx.fetch_value(
                "select id from response where session_id = %s and status in ('queued', 'in_progress')",
                (session_id,),
            )

    async def events(self, response_id: str, after: int, limit: int) -> tuple[Event, ...]:
        async with self._database.read() as tx:
            return await read_events(tx, response_id, after, limit)

    async def cancel_queued(self, response: Response, events: Sequence[Event]) -> bool:
        async with self._database.begin() as tx:
            changed = await tx.execute(
                "update response set status = 'cancelled', cancel_requested = true, finished_at = %s, final = %s"
                " where id = %s and status = 'queued'",
                (response.finished_at, response.final, response.id),
            )
            if changed:
                await add_events(tx, response.id, events)
        return bool(changed)

    async def request_cancel(self, response_id: str) -> None:
        async with self._database.begin() as tx:
            await tx.execute(
                "update response set cancel_requested = true where id = %s and status = 'in_progress'",
                (response_id,),
            )


async def _one(tx: Tx, owner: str, response_id: str) -> Response | None:
    row = await tx.fetch_one("select * from response where id = %s and owner = %s", (response_id, owner))
    return None if row is None else rows.response(row)


async def _enter_session(tx: Tx, session: Session, response: Response) -> None:
    """Make the session, or hold the one that is continued: it may have been deleted a moment ago, and stays so."""
    if response.asked.previous_response_id:
        held = await tx.fetch_one("select 1 from session where id = %s for key share", (session.id,))
        if held is None:
            raise errors.response_not_found("previous_response_id")
        return
    await tx.execute(
        "insert into session (id, owner, harness_id, memory_id, created_at, updated_at)"
        " values (%s, %s, %s, %s, %s, %s)",
        (
            session.id,
            session.owner,
            session.harness_id,
            session.memory_id,
            session.created_at,
            session.created_at,
        ),
    )


async def _add_response(tx: Tx, response: Response) -> None:
    asked = response.asked
    await tx.execute(
        "insert into response (id, owner, session_id, harness_id, status, model, input, instructions,"
        " memory_id, previous_response_id, store, background, max_output_tokens, max_step, timeout_seconds,"
        " ignored_fields, trace, created_at, title)"
        " values (%(id)s, %(owner)s, %(session_id)s, %(harness_id)s, %(status)s, %(model)s, %(input)s,"
        " %(instructions)s, %(memory_id)s, %(previous)s, %(store)s, %(background)s, %(max_output_tokens)s,"
        " %(max_step)s, %(timeout_seconds)s, %(ignored)s, %(trace)s, %(created_at)s, %(title)s)",
        {
            "id": response.id,
            "owner": response.owner,
            "session_id": response.session_id,
            "harness_id": response.harness_id,
            "status": response.status.value,
            "model": response.model,
            "input": asked.input,
            "instructions": asked.instructions,
            "memory_id": asked.memory_id,
            "previous": asked.previous_response_id,
            "store": asked.store,
            "background": asked.background,
            "max_output_tokens": asked.budgets.max_output_tokens,
            "max_step": asked.budgets.max_step,
            "timeout_seconds": asked.budgets.timeout_seconds,
            "ignored": list(asked.ignored_fields),
            "trace": Jsonb(dict(response.trace)),
            "created_at": response.created_at,
            "title": response.title,
        },
    )


async def add_events(tx: Tx, response_id: str, events: Sequence[Event]) -> None:
    """Append to a response's log, in one statement."""
    await tx.execute(
        "insert into event (response_id, sequence_number, type, terminal, json)"
        " select %s, one.* from unnest(%s::bigint[], %s::text[], %s::boolean[], %s::bytea[]) as one"
        # A write whose answer was lost is made again.
        " on conflict do nothing",
        (response_id, *columns(events)),
    )


def columns(events: Sequence[Event]) -> tuple[list[int], list[str], list[bool], list[bytes]]:
    """Events as the columns ``unnest`` takes: number, type, terminal, json."""
    return (
        [one.sequence_number for one in events],
        [one.type for one in events],
        [one.terminal for one in events],
        [one.json for one in events],
    )


async def read_events(tx: Tx, response_id: str, after: int, limit: int) -> tuple[Event, ...]:
    """Events with a higher number than ``after``, in order."""
    found = await tx.fetch_all(
        "select sequence_number, type, terminal, json from event"
        " where response_id = %s and sequence_number > %s order by sequence_number limit %s",
        (response_id, after, limit),
    )
    return tuple(rows.event(row) for row in found)
