"""The tree and its grants as a listing needs them.

The listings find ids of nodes that qualify, by the rule of ``domain.caller.place`` written as conditions;
every node shown is then decided upon from its own lineage. Statements reach rows only by index, as in
``store.decide``.
"""

# ruff: noqa: S608 - statements are put together from literals only; the type checker refuses anything else

from collections.abc import Sequence
from typing import Any, Final, LiteralString

from authz_service.domain.caller import Caller
from authz_service.domain.model import FIRST, MAX_DEPTH, Grant, GrantKey, Place
from authz_service.store.decide import CHILD, ENTRY, FEW, OWN, Ask, decide
from service_kit.db.pool import Row, Tx

# The one caller of a listing.
_CALLER: Final = """(
    select %(principals)s::text[] as principals, %(entries)s::text[] as entries, %(caps)s::int[] as caps
) c"""

_MANY: Final = """
select (
    select count(*) from (select from node where parent_id = %(parent)s and restricted limit %(few)s + 1) counted
) > %(few)s or (
    select count(*) from (
        select from node where not %(bulk)s and parent_id = %(parent)s and not restricted limit %(few)s + 1
    ) counted
) > %(few)s
"""

# Children that must be looked at one by one, reached from their parent …
_CHILDREN_LOOKED_AT: Final = """(
    select * from node where parent_id = %(parent)s and restricted and id > %(after)s
    union all
    select * from node where parent_id = %(parent)s and not restricted and id > %(after)s
        and (not %(bulk)s or id = any (%(entries)s::text[]))
) k"""

# … or from what the caller holds itself, where the parent has too many.
_CHILDREN_HELD: Final = """(
    select n.* from (
        select g.node as id from grants g where g.principal = any (%(principals)s::text[])
        union
        select m.id from node m where m.parent_id = %(parent)s
            and m.creator = any (%(principals)s::text[]) and not m.creator_revoked
        union
        select unnest(%(entries)s::text[])
    ) s
    cross join lateral (
        select id from node where parent_id = %(parent)s and node.id = s.id and id > %(after)s offset 0
    ) m
    cross join lateral (select * from node where node.id = m.id offset 0) n
    where (n.restricted or not %(bulk)s or n.id = any (%(entries)s::text[]))
) k"""

_CHILDREN_HEAD: Final = """
select s.id from (
    (
        select k.id from node k
        where %(bulk)s and k.parent_id = %(parent)s and not k.restricted and k.id > %(after)s
            and k.id <> all (%(entries)s::text[])
        order by k.id limit %(limit)s
    ) union all (
        select k.id from """

_CHILDREN_TAIL: Final = (
    " cross join "
    + _CALLER
    + " cross join (select %(held)s::int as held, %(cap)s::int as cap) q where ("
    + CHILD
    + """ & %(need)s) <> 0
        order by k.id limit %(limit)s
    )
) s order by s.id limit %(limit)s
"""
)

_CHILDREN: Final = _CHILDREN_HEAD + _CHILDREN_LOOKED_AT + _CHILDREN_TAIL
_CHILDREN_OF_MANY: Final = _CHILDREN_HEAD + _CHILDREN_HELD + _CHILDREN_TAIL


# What the creator p created below a node it had created too, where its right to that one was revoked.
_BELOW_REVOKED: Final = """(
    select k.id from node r cross join lateral (
        select id from node
        where parent_id = r.id and creator = p.principal and not creator_revoked offset 0
    ) k
    where r.creator = p.principal and r.creator_revoked
) m"""


def _inside(node: LiteralString) -> LiteralString:
    """The parent of a node is one the caller holds something on by itself. Says nothing under a narrowing."""
    return (
        "(not %(narrowed)s and exists (select from node n join node k on k.id = n.parent_id cross join "
        + _CALLER
        + " where n.id = "
        + node
        + " and "
        + OWN
        + " <> 0))"
    )


_ENTRIES: Final = (
    """
select distinct s.id from (
    select f.id from unnest(%(principals)s::text[]) as p (principal) cross join lateral (
        select g.node as id from grants g
        where g.principal = p.principal and g.node > %(after)s and not """
    + _inside("g.node")
    + """
        order by g.node limit %(limit)s
    ) f
  union all
    select f.id from unnest(%(principals)s::text[]) as p (principal) cross join lateral (
        select m.id from node m
        where m.creator = p.principal and not m.creator_revoked and not m.follows
            and m.deleted_at is null and m.id > %(after)s and not """
    + _inside("m.id")
    + """
        order by m.id limit %(limit)s
    ) f
  union all
    select f.id from unnest(%(principals)s::text[]) as p (principal) cross join lateral (
        select m.id from """
    + _BELOW_REVOKED
    + """ where m.id > %(after)s and not """
    + _inside("m.id")
    + """
        order by m.id limit %(limit)s
    ) f
  union all
    select e.id from unnest(%(entries)s::text[]) as e (id) where e.id > %(after)s
) s order by s.id limit %(limit)s
"""
)

# Where the caller holds something below the start that what it holds further up does not flow down to:
# below a cutoff, with nothing of its own in between. up: all that lies between such nodes and the start,
# each node once; thread: back down along it.
_SEEDS: Final = (
    """
with recursive own as (
    select s.id, bit_or(s.privs) as privs from (
        select g.node as id, g.privs::int as privs from grants g where g.principal = any (%(principals)s::text[])
        union all
        select m.id, 15 from node m where m.creator = any (%(principals)s::text[]) and not m.creator_revoked
            and not m.follows
        union all
        select m.id, 15 from node m where m.creator = any (%(principals)s::text[]) and not m.creator_revoked
            and m.restricted
        union all
        select m.id, 15 from unnest(%(principals)s::text[]) as p (principal) cross join lateral (
            select m.id from """
    + _BELOW_REVOKED
    + """
        ) m
    ) s group by s.id
), up as (
    select k.id, k.parent_id, k.restricted
    from own o cross join lateral (select * from node where node.id = o.id offset 0) k
  union
    select k.id, k.parent_id, k.restricted
    from up u cross join lateral (select * from node where node.id = u.parent_id offset 0) k
    where u.id <> %(start)s
), thread as (
    select %(start)s::text collate "C" as id, 0 as depth, true as covered, 0 as privs, %(cap)s::int as cap
  union all
    select k.id, t.depth + 1,
           (t.covered and not k.restricted) or o.id is not null,
           case when t.covered and not k.restricted then 0 else coalesce(o.privs, 0) end,
           coalesce("""
    + ENTRY
    + """, t.cap)
    from thread t join up k on k.parent_id = t.id left join own o on o.id = k.id cross join """
    + _CALLER
    + """
    where t.depth < %(levels)s
)
select id, depth, privs, cap from thread where privs <> 0
"""
)

# From the start and from those seeds down through open children. The regions do not overlap.
_DESCENDANTS: Final = (
    """
with recursive seed as (
    select * from unnest(
        %(seeds)s::text[], %(seed_depths)s::int[], %(seed_privs)s::int[], %(seed_caps)s::int[]
    ) as s (id, depth, privs, cap)
), down as (
    select %(start)s::text collate "C" as id, 0 as depth, %(held)s::int as held, %(cap)s::int as cap
  union all
    select id collate "C", depth, privs, cap from seed where depth <= %(bound)s
  union all
    select k.id, d.depth + 1,
           case when not %(narrowed)s and (d.held & %(need)s) <> 0 then d.held else d.held | """
    + OWN
    + """ end,
           coalesce("""
    + ENTRY
    + """, d.cap)
    from down d cross join lateral (
        select * from node where parent_id = d.id and not restricted offset 0
    ) k cross join """
    + _CALLER
    + """
    where d.depth < %(bound)s
)
select deeper.yes as deeper, page.depth, page.id
from (
    select (select max(depth) from down) >= %(bound)s
        or exists (select from seed where depth > %(bound)s) as yes
) deeper left join lateral (
    select depth, id from down
    where depth > 0 and (held & cap & %(need)s) <> 0 and (depth, id) > (%(after_depth)s, %(after)s)
    order by depth, id limit %(limit)s
) page on true
"""
)

# Node by node as they are named, the creator's implicit grant first, then in the order they were given: an
# id begins with the time it was made.
_GRANTS: Final = """
select g.* from unnest(%(ids)s::text[]) with ordinality as line (node, place) cross join lateral (
    select id, node, principal, privs, created_at, false as creator from grants where node = line.node
    union all
    select 'hgrt_' || substr(id, 6), id, creator, 15, created_at, true
    from node where id = line.node and not creator_revoked
) g
where (%(among)s::text[] is null or g.principal = any (%(among)s::text[]))
    and (line.place, not g.creator, g.id) > (%(place)s, %(explicit)s, %(after)s)
order by line.place, not g.creator, g.id limit %(limit)s
"""

_GROUPS: Final = "select group_name from member where principal = %s order by group_name"


def creator_grant_id(node: str) -> str:
    """The id of the implicit grant of whoever created a node: the node's own digits, so it never changes."""
    return f"hgrt_{node.removeprefix('hmem_')}"


def grant(row: Row) -> Grant:
    """A grant from its row."""
    return Grant(
        row["id"], row["node"], row["principal"], row["privs"], row["created_at"], creator=row["creator"]
    )


class PostgresView:
    """The verbs of ``domain.ports.View`` on one connection."""

    def __init__(self, tx: Tx) -> None:
        self._tx: Tx = tx

    async def places(self, caller: Caller, ids: Sequence[str], *, count: bool = False) -> list[Place | None]:
        return await decide(self._tx, [Ask(caller, one, count) for one in ids])

    async def children(self, caller: Caller, parent: Place, need: int, after: str, limit: int) -> list[str]:
        params = await self._caller(caller) | {
            "parent": parent.id,
            "held": parent.held,
            "cap": parent.cap,
            "need": need,
            # All open children but entries are held as the parent is.
            "bulk": parent.mask & need != 0,
            "after": after,
            "limit": limit,
            "few": FEW,
        }
        many = await self._tx.fetch_value(_MANY, params)
        rows = await self._tx.fetch_all(_CHILDREN_OF_MANY if many else _CHILDREN, params)
        return [row["id"] for row in rows]

    async def entries(self, caller: Caller, after: str, limit: int) -> list[str]:
        rows = await self._tx.fetch_all(
            _ENTRIES, await self._caller(caller) | {"after": after, "limit": limit}
        )
        return [row["id"] for row in rows]

    async def descendants(
        self, caller: Caller, start: Place, need: int, levels: int, after: tuple[int, str], limit: int
    ) -> list[tuple[int, str]]:
        params = await self._caller(caller) | {
            "start": start.id,
            "held": start.held,
            "cap": start.cap,
            "need": need,
            "levels": levels,
            "after_depth": after[0],
            "after": after[1],
            "limit": limit,
        }
        seeds = await self._tx.fetch_all(_SEEDS, params)
        params |= {
            "seeds": [row["id"] for row in seeds],
            "seed_depths": [row["depth"] for row in seeds],
            "seed_privs": [row["privs"] for row in seeds],
            "seed_caps": [row["cap"] for row in seeds],
        }
        # Nearest first: go down only as far as the page needs, further with each attempt.
        bound, further = max(after[0], 1), 1
        while True:
            rows = await self._tx.fetch_all(_DESCENDANTS, params | {"bound": min(bound, levels)})
            found = [(row["depth"], row["id"]) for row in rows if row["id"] is not None]
            if len(found) >= limit or bound >= min(levels, MAX_DEPTH) or not rows[0]["deeper"]:
                return found
            bound, further = bound + further, further * 2

    async def grants_on(
        self,
        ids: Sequence[str],
        after: GrantKey = FIRST,
        limit: int | None = None,
        *,
        among: Sequence[str] | None = None,
    ) -> list[Grant]:
        params = {
            "ids": list(ids),
            "place": after.place,
            "explicit": after.explicit,
            "after": after.id,
            "limit": limit,
            "among": None if among is None else list(among),
        }
        return [grant(row) for row in await self._tx.fetch_all(_GRANTS, params)]

    async def groups_of(self, principal: str) -> list[str]:
        return [row["group_name"] for row in await self._tx.fetch_all(_GROUPS, (principal,))]

    async def _caller(self, caller: Caller) -> dict[str, Any]:
        """The parameters of the one caller of a listing, with the groups it was put in."""
        return {
            "principals": [*caller.principals, *await self.groups_of(caller.principal)],
            "entries": list(caller.caps),
            "caps": list(caller.caps.values()),
            "narrowed": caller.narrowed,
        }
