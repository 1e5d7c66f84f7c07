"""Deciding upon nodes: their lineages in one statement, for many callers at once.

What a lineage means is decided in ``domain.caller.place`` and nowhere else.

Statements reach rows only by index, one after the other (``lateral … offset 0``): the planner must never
choose to read a whole table to answer one question, whatever it believes of the table's size.
"""

# ruff: noqa: S608 - statements are put together from literals only; the type checker refuses anything else

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from authz_service.domain.caller import Caller, place
from authz_service.domain.model import Place, Step
from service_kit.db.pool import Tx
from service_kit.ids import is_id

_SEPARATOR: Final = "\x1f"
FEW: Final = 500
"""Children that are looked at one by one; where there are more, the caller's own grants are instead."""

# What the principals in c.principals hold by themselves on the node k.
OWN: Final = """(
    coalesce((select bit_or(g.privs) from grants g where g.node = k.id and g.principal = any (c.principals)), 0)
    | case when not k.creator_revoked and k.creator = any (c.principals) then 15 else 0 end
)"""

# The cap of the entry for the node k, if there is one.
ENTRY: Final = "c.caps[array_position(c.entries, k.id)]"

# A caller as it is sent, its own principal first, with the groups that one was put in. They are looked up in
# the statement that decides, so that leaving a group holds as soon as a revoked grant does.
_PRINCIPALS: Final = """(
    string_to_array(s.sent, chr(31))
    || array(select m.group_name from member m where m.principal = split_part(s.sent, chr(31), 1))
)"""

# The walk starts at the node asked for or, where there is none, at its neighbour: unknown and forbidden
# take the same path, and only then is it seen that the node is another one.
_LINEAGES: Final = (
    """
with recursive callers as materialized (
    select s.caller, """
    + _PRINCIPALS
    + """ as principals
    from unnest(%(principals)s::text[]) with ordinality as s (sent, caller)
), asked as (
    select a.ask, a.id, c.principals
    from unnest(%(ids)s::text[], %(callers)s::int[]) with ordinality as a (id, caller, ask)
    join callers c on c.caller = a.caller
), walk as (
    select a.ask, a.principals, 0 as step, k.*
    from asked a cross join lateral (
        (
            select id, parent_id, restricted, creator, creator_revoked, deleted_at
            from node where node.id >= a.id order by node.id limit 1
        ) union all (
            select id, parent_id, restricted, creator, creator_revoked, deleted_at
            from node order by node.id limit 1
        )
        limit 1
    ) k
  union all
    select w.ask, w.principals, w.step + 1, k.*
    from walk w cross join lateral (
        select id, parent_id, restricted, creator, creator_revoked, deleted_at
        from node where node.id = w.parent_id offset 0
    ) k
    where w.step < 64
), known as (
    select k.ask, k.step, k.id, k.restricted, k.deleted_at, """
    + OWN
    + """ as own
    from walk k cross join lateral (select k.principals) c
)
select ask, array_agg(id order by step) as ids, array_agg(restricted order by step) as restricted,
       array_agg(own order by step) as own, bool_or(deleted_at is not null) as deleted
from known group by ask
"""
)

# The mask of the child k of the node q, under the rule of domain.caller.place.
CHILD: Final = (
    "((case when k.restricted then 0 else q.held end | " + OWN + ") & coalesce(" + ENTRY + ", q.cap))"
)

# Open children inherit what makes their parent visible, so they need only be counted; entries of a
# narrowed caller may be capped lower and are looked at, as restricted ones are.
_COUNTS: Final = (
    """
select q.n, (
    select count(*) from node k
    where k.parent_id = q.id and not k.restricted and k.id <> all (c.entries)
) + (
    select count(*) from node k
    where k.parent_id = q.id and not k.restricted and k.id = any (c.entries) and """
    + CHILD
    + """ <> 0
) + case when (
    select count(*) from (
        select from node k where k.parent_id = q.id and k.restricted limit %(few)s + 1
    ) counted
) <= %(few)s then (
    select count(*) from node k where k.parent_id = q.id and k.restricted and """
    + CHILD
    + """ <> 0
) else (
    select count(*) from (
        select g.node as id from grants g where g.principal = any (c.principals)
        union
        select m.id from node m
        where m.parent_id = q.id and m.creator = any (c.principals) and not m.creator_revoked
    ) s
    cross join lateral (select id from node where parent_id = q.id and node.id = s.id offset 0) m
    cross join lateral (select * from node where node.id = m.id offset 0) k
    where k.restricted and """
    + CHILD
    + """ <> 0
) end as children
from unnest(%(ids)s::text[], %(held)s::int[], %(cap)s::int[], %(callers)s::int[])
    with ordinality as q (id, held, cap, caller, n)
cross join lateral (select (%(principals)s::text[])[q.caller] as sent) s
cross join lateral (
    select """
    + _PRINCIPALS
    + """ as principals,
           string_to_array((%(entries)s::text[])[q.caller], chr(31)) as entries,
           string_to_array((%(caps)s::text[])[q.caller], chr(31))::int[] as caps
    offset 0
) c
"""
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One place asked for by one caller."""

    caller: Caller
    id: str
    count: bool = False


async def decide(tx: Tx, asks: Sequence[Ask]) -> list[Place | None]:
    """The places, in order; one statement for the decisions, one more where children are to be counted."""
    if not asks:
        return []
    callers = {
        one: number for number, one in enumerate(dict.fromkeys(ask.caller.principals for ask in asks), 1)
    }
    rows = await tx.fetch_all(
        _LINEAGES,
        {
            # What has not the shape of an id names nothing, and goes the way of all that does not exist.
            "ids": [ask.id if is_id("hmem", ask.id) else "" for ask in asks],
            "callers": [callers[ask.caller.principals] for ask in asks],
            "principals": [_SEPARATOR.join(one) for one in callers],
        },
    )
    places: list[Place | None] = [None] * len(asks)
    for row in rows:
        if row["deleted"]:
            continue
        number = int(row["ask"]) - 1
        ask = asks[number]
        decided = place(ask.caller, tuple(map(Step, row["ids"], row["restricted"], row["own"])))
        if decided.id == ask.id:
            places[number] = decided
    await _count(tx, asks, places)
    return places


async def _count(tx: Tx, asks: Sequence[Ask], places: list[Place | None]) -> None:
    """Fill in how many children are seen, where that was asked and the place is seen itself."""
    wanted = [
        (index, ask.caller, one)
        for index, (ask, one) in enumerate(zip(asks, places, strict=True))
        if ask.count and one is not None and one.visible
    ]
    if not wanted:
        return
    callers = list({id(caller): caller for _, caller, _ in wanted}.values())
    numbers = {id(caller): number for number, caller in enumerate(callers, 1)}
    rows = await tx.fetch_all(
        _COUNTS,
        {
            "few": FEW,
            "ids": [one.id for _, _, one in wanted],
            "held": [one.held for _, _, one in wanted],
            "cap": [one.cap for _, _, one in wanted],
            "callers": [numbers[id(caller)] for _, caller, _ in wanted],
            "principals": [_SEPARATOR.join(one.principals) for one in callers],
            "entries": [_SEPARATOR.join(one.caps) for one in callers],
            "caps": [_SEPARATOR.join(map(str, one.caps.values())) for one in callers],
        },
    )
    for row in rows:
        index, _, one = wanted[int(row["n"]) - 1]
        places[index] = replace(one, children=row["children"])
