"""What feeds a replica: a first reading of everything, and then what changed since a moment.

A moment is a snapshot as Postgres writes one down (``pg_snapshot``). Transactions are not serialised for a
replica's sake: one that began early and ends late is simply not in the earlier snapshot, whatever number it has.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg.rows import tuple_row

from authz_service.replica.tree import Changes, Row
from service_kit.db.pool import Database, Query, Quick, Tx

PAGE: Final = 1_000
"""Rows of one page of a first reading: some milliseconds of work."""
LOOK_S: Final = 5.0
"""A database that does not answer for so long is taken for lost."""
BATCH: Final = 5_000
"""Most rows one statement removes from the log."""

# The moment it is now, and whether anything changed since another. Nearly always nothing did.
_ANYTHING: Final = """
select pg_current_snapshot(), extract(epoch from now()), exists (
    select from change
    where xid >= pg_snapshot_xmin($1::pg_snapshot) and xid < pg_snapshot_xmax(pg_current_snapshot())
      and not pg_visible_in_snapshot(xid, $1::pg_snapshot) and kind <> 's'
)
"""

_SINCE: Final = """
with since as materialized (
    select distinct kind, key from change
    where xid >= pg_snapshot_xmin(%(moment)s::pg_snapshot)
      and xid < pg_snapshot_xmax(pg_current_snapshot())
      and not pg_visible_in_snapshot(xid, %(moment)s::pg_snapshot) and kind <> 's'
)
select pg_current_snapshot()::text as moment, extract(epoch from now())::float8 as at, s.kind::text, s.key,
       n.id, n.parent_id, n.restricted, n.creator, n.creator_revoked, n.deleted_at is not null as deleted,
       g.principals, g.privs, m.groups
from (select) one left join since s on true
left join lateral (
    select * from node where s.kind = 'n' and node.id = s.key offset 0
) n on true
left join lateral (
    select array_agg(principal) as principals, array_agg(privs::int) as privs
    from grants where node = n.id offset 0
) g on true
left join lateral (
    select array_agg(group_name) as groups from member where s.kind = 'p' and principal = s.key offset 0
) m on true
"""

_NODES: Final = """
select n.id, n.parent_id, n.restricted, n.creator, n.creator_revoked, n.deleted_at is not null,
       g.principals, g.privs
from (select * from node where id > %s order by id limit %s) n
left join lateral (
    select array_agg(principal) as principals, array_agg(privs::int) as privs
    from grants where node = n.id offset 0
) g on true
order by n.id
"""

_MEMBERS: Final = """
select m.principal, array_agg(m.group_name)
from (select distinct principal from member where principal > %s order by principal limit %s) p
join member m on m.principal = p.principal
group by m.principal order by m.principal
"""


_ROW: Final = (
    "id",
    "parent_id",
    "restricted",
    "creator",
    "creator_revoked",
    "deleted",
    "principals",
    "privs",
)


@dataclass(frozen=True, slots=True)
class Step:
    """The way from one moment to a later one, which Postgres' clock calls ``at`` (seconds since the epoch).

    ``whole``: the way is not known, everything has to be read anew.
    """

    moment: str
    at: float
    changes: Changes
    whole: bool


async def looking(tx: Tx) -> Quick:
    """What :func:`step` looks with."""
    return await tx.quick(_ANYTHING, LOOK_S)


async def step(tx: Tx, look: Quick, moment: str) -> Step:
    """What changed since ``moment``, as it is now: one statement, so that all of it is one moment's."""
    now, at, changed = await look.fetch(moment)
    if changed == "f":
        return Step(now, float(at), Changes([], [], {}), _newest(now) < _newest(moment))
    return await _changed(tx, moment)


async def _changed(tx: Tx, moment: str) -> Step:
    rows, gone, groups = list[Row](), list[str](), dict[str, list[str]]()
    found = await tx.fetch_all(_SINCE, {"moment": moment})
    now = found[0]["moment"]
    whole = _newest(now) < _newest(moment)  # the database was put back to an earlier time
    for row in found:
        match row["kind"]:
            case "n" if row["id"] is None:
                gone.append(row["key"])
            case "n":
                rows.append(tuple(row[one] for one in _ROW))
            case "p":
                groups[row["key"]] = row["groups"] or []
            case "a":
                whole = True
            case _:
                pass
    return Step(now, found[0]["at"], Changes(rows, gone, groups), whole)


async def beginning(tx: Tx) -> tuple[str, float]:
    """The moment of a snapshot transaction, and what Postgres' clock calls it."""
    ((moment, at),) = await _tuples(
        tx, "select pg_current_snapshot()::text, extract(epoch from clock_timestamp())::float8", ()
    )
    return moment, at


async def cluster(tx: Tx) -> str:
    """What changes when another server, or an earlier state of this one, takes the database's place; "" where
    a server does not tell its users.
    """
    told = await tx.fetch_value(
        "select bool_and(has_function_privilege(f::regprocedure, 'execute'))"
        " from unnest(array['pg_control_system()', 'pg_control_checkpoint()']) f"
    )
    if not told:
        return ""
    return await tx.fetch_value(
        "select s.system_identifier || ' ' || c.timeline_id from pg_control_system() s, pg_control_checkpoint() c"
    )


async def exceeds(tx: Tx, most: int) -> bool:
    """Whether there are more nodes than ``most``."""
    return await tx.fetch_value("select count(*) > %s from (select from node limit %s + 1) n", (most, most))


async def nodes(tx: Tx) -> AsyncGenerator[Sequence[Row]]:
    """All nodes by id, in pages."""
    last = ""
    while page := await _tuples(tx, _NODES, (last, PAGE)):
        yield page
        last = page[-1][0]


async def members(tx: Tx) -> AsyncGenerator[dict[str, list[str]]]:
    """The groups of all principals that are in one, in pages."""
    last = ""
    while page := await _tuples(tx, _MEMBERS, (last, PAGE)):
        yield dict(page)
        last = page[-1][0]


async def prune(database: Database) -> int:
    """Remove what is older than any replica may go on from; answers the rows removed.

    Several processes may do so at once: each takes rows that no other has in hand.
    """
    async with database.begin() as tx:
        # Numbers yet to come are another server's, whose contents were loaded into this one.
        removed = await tx.execute("delete from change where xid >= pg_snapshot_xmax(pg_current_snapshot())")
        await tx.execute(
            "insert into change (kind, key) select 's', pg_current_snapshot()::text"
            " where not exists (select from change where kind = 's' and at > now() - interval '1 minute')"
        )
    while True:
        async with database.begin() as tx:
            batch = await tx.execute(
                """
                delete from change where ctid = any (array(
                    select ctid from change where xid < (
                        select pg_snapshot_xmin(key::pg_snapshot) from change
                        where kind = 's' and at <= now() - interval '1 hour' order by at desc limit 1
                    )
                    order by xid limit %s for update skip locked
                ))
                """,
                (BATCH,),
            )
        removed += batch
        if batch < BATCH:
            return removed


def _newest(moment: str) -> int:
    """The number of the first transaction that had not begun (``xmin:xmax:…``)."""
    return int(moment.split(":")[1])


async def _tuples(tx: Tx, query: Query, params: Any) -> list[Any]:
    """The rows as tuples: there are many."""
    async with tx.connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query, params, prepare=True)
        return await cursor.fetchall()
