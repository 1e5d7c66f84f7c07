"""The audit in Postgres: rows are only ever added."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, LiteralString, NamedTuple

from authz_service.domain.audit import (
    Act,
    AuditQuery,
    AuditRecord,
    Refusal,
    memory_named,
    principal_named,
)
from authz_service.store.batch import Batcher
from service_kit import semconv, telemetry
from service_kit.db.pool import Database, Row, Tx
from service_kit.identity import passport_or_none
from service_kit.ids import new_id

_INSERT: Final = """
insert into audit (id, at, actor, token_id, action, outcome, code, node, principal, source, trace_id, detail)
values (%s, clock_timestamp(), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

# Nobody waits for the disk to tell a stranger no: a crash of Postgres may lose the last of these, and no other.
_INSERT_REFUSALS: Final = """
insert into audit (id, at, actor, token_id, action, outcome, code, node, principal, source, trace_id, detail)
select r.id, clock_timestamp(), r.actor, r.token_id, r.action, 'refused', r.code, r.node, r.principal, r.source,
       r.trace_id, r.detail
from unnest(
    %(id)s::text[], %(actor)s::text[], %(token_id)s::text[], %(action)s::text[], %(code)s::text[],
    %(node)s::text[], %(principal)s::text[], %(source)s::text[], %(trace_id)s::text[], %(detail)s::text[]
) as r (id, actor, token_id, action, code, node, principal, source, trace_id, detail)
cross join (select set_config('synchronous_commit', 'off', true)) as unhurried
"""

_COLUMNS: Final = (
    "select id, at, actor, token_id, action, outcome, code, node, principal, source, trace_id, detail,"
    " xid::text::bigint as transaction, seq from audit where "
)

# What narrows a listing, each where it is asked for, so that each uses its index.
_NARROWING: Final[Mapping[str, LiteralString]] = {
    "actor": "actor = %(actor)s",
    "node": "node = %(node)s",
    "action": "action = %(action)s",
    "since": "at >= %(since)s",
    "until": "at < %(until)s",
}
_OUTCOMES: Final[Mapping[str, LiteralString]] = {
    "allowed": "outcome = 'allowed'",
    "refused": "outcome = 'refused'",
}

# A record's number and its transaction's follow its time, but for the length of a transaction: an hour off
# either end, the index of times says where the walk begins and ends.
_EARLIER: Final = "from audit where at < %(since)s - interval '1 hour' order by at desc limit 1"
_LATER: Final = "from audit where at > %(until)s + interval '1 hour' order by at limit 1"


class _Order(NamedTuple):
    """How a listing walks: always, after the last record shown, and between two moments. The largest page and
    one more is asked for by its number, which the planner has to see to know that it need not read everything.
    """

    always: LiteralString
    resumed: LiteralString
    since: LiteralString
    until: LiteralString
    by: LiteralString


_NEWEST: Final = _Order(
    "true",
    "seq < %(seq)s",
    "seq > coalesce((select seq " + _EARLIER + "), 0)",
    "seq < coalesce((select seq " + _LATER + "), 9223372036854775807)",
    " order by seq desc limit 201",
)
# By transaction, of those that lie before every one still under way: what is committed later comes later.
_OLDEST: Final = _Order(
    "xid < pg_snapshot_xmin(pg_current_snapshot())",
    "(xid, seq) > (%(xid)s::text::xid8, %(seq)s)",
    "xid >= coalesce((select xid " + _EARLIER + "), '0')",
    "xid <= coalesce((select xid " + _LATER + "), '18446744073709551615')",
    " order by xid, seq limit 201",
)

_records: Final = telemetry.meter(__name__).create_counter(
    semconv.GROVE_AUDIT_RECORDS, unit="{record}", description="Records added to the audit."
)


async def append(tx: Tx, act: Act) -> None:
    """Add what the bearer of the current passport did, in the transaction that does it."""
    passport = passport_or_none()
    await tx.execute(
        _INSERT,
        (
            new_id("haud"),
            "" if passport is None else passport.principal,
            "" if passport is None else passport.token_id or "",
            act.action,
            "allowed",
            "",
            memory_named(act.node),
            principal_named(act.principal),
            "" if passport is None else passport.source or passport.session or "",
            telemetry.trace_id(),
            _json(act),
        ),
    )
    _records.add(1, {semconv.GROVE_AUDIT_OUTCOME: "allowed"})


class PostgresAudit:
    """``domain.ports.Audit``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database
        self._refused: Batcher[Refusal, None] = Batcher(database, _append_refusals, writes=True)

    async def refused(self, refusal: Refusal) -> None:
        await self._refused.ask(refusal)

    async def page(self, query: AuditQuery, after: tuple[int, ...], limit: int) -> list[AuditRecord]:
        params: dict[str, object] = {
            "actor": query.actor,
            "node": query.node,
            "action": query.action,
            "since": query.since,
            "until": query.until,
            "xid": str(after[0]) if after else "",
            "seq": after[-1] if after else 0,
        }
        async with self._database.read() as tx:
            rows = await tx.fetch_all(_statement(query, resumed=bool(after)), params)
        return [_record(row, oldest_first=query.oldest_first) for row in rows[:limit]]


async def _append_refusals(tx: Tx, batch: Sequence[Refusal]) -> list[None]:
    await tx.execute(
        _INSERT_REFUSALS,
        {
            "id": [new_id("haud") for _ in batch],
            "actor": [one.actor for one in batch],
            "token_id": [one.token_id for one in batch],
            "action": [one.act.action for one in batch],
            "code": [one.code for one in batch],
            "node": [memory_named(one.act.node) for one in batch],
            "principal": [principal_named(one.act.principal) for one in batch],
            "source": [one.source for one in batch],
            "trace_id": [one.trace_id for one in batch],
            "detail": [_json(one.act) for one in batch],
        },
    )
    _records.add(len(batch), {semconv.GROVE_AUDIT_OUTCOME: "refused"})
    return [None] * len(batch)


def _statement(query: AuditQuery, *, resumed: bool) -> LiteralString:
    order = _OLDEST if query.oldest_first else _NEWEST
    conditions: list[LiteralString] = [order.always]
    conditions.extend(text for name, text in _NARROWING.items() if getattr(query, name))
    if query.outcome:
        conditions.append(_OUTCOMES[query.outcome])
    if query.since is not None:
        conditions.append(order.since)
    if query.until is not None:
        conditions.append(order.until)
    if resumed:
        conditions.append(order.resumed)
    return _COLUMNS + " and ".join(conditions) + order.by


def _record(row: Row, *, oldest_first: bool) -> AuditRecord:
    return AuditRecord(
        row["id"],
        row["at"],
        row["actor"],
        row["token_id"],
        row["action"],
        row["outcome"],
        row["code"],
        row["node"],
        row["principal"],
        row["source"],
        row["trace_id"],
        row["detail"],
        (row["transaction"], row["seq"]) if oldest_first else (row["seq"],),
    )


def _json(act: Act) -> str:
    return json.dumps(act.detail, ensure_ascii=False, separators=(",", ":"))
