"""Which versions a recall ranks, read from Postgres: all it may see while they are few, else the best by each signal.

Every count is made over the versions this very question may see, so no ranking tells anything of a memory that is
not among them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from psycopg import sql

from provider_workers.adapters.native.generations import Generation
from provider_workers.adapters.native.lexemes import Search, masks
from provider_workers.adapters.native.scope import Arguments, among
from provider_workers.adapters.native.seen import BEST, Keys, Seen, Spread, keys_of
from provider_workers.adapters.native.signals import Candidate, Counted, Pool, bits, key_pairs
from provider_workers.adapters.native.vectors import Vector, literal
from provider_workers.adapters.native.wording import PLACES, Wording
from service_kit.db.tx import Row, Tx

__all__ = ["Candidates"]

WHOLE: Final = 2_000
"""Up to so many versions all are ranked; of more the best by each signal, with what stands beside them."""

_SIGNS_FROM: Final = 50_000
_BY_SIGNS: Final = 2_000

_COLUMNS: Final = sql.SQL(
    "v.memory_id, v.record_id, v.version, v.type, v.digest, v.supersedes, v.created_at, v.invalidated_at, v.derived,"
    " coalesce(v.valid_from, v.created_at) as happened_at, v.session, length(v.words) as length,"
    " octet_length(v.text) as size,"
    " left(coalesce(v.attributes_json ->> 'subject', v.attributes_json ->> 'speaker', ''), 200) as said_by"
)

Links = list[tuple[int, int, int]]
"""Neighbours by their places, and how far they are apart."""


class Candidates:
    """The candidates of one search, within one transaction."""

    def __init__(self, tx: Tx, search: Search, generation: Generation) -> None:
        self._tx = tx
        self._search = search
        self._seen = Seen(tx, search)
        self._generation = generation

    async def pool(self) -> Pool:
        """What is ranked."""
        few = len(self._search.memory_ids) <= WHOLE and await self._seen.count(WHOLE + 1) <= WHOLE
        if few:
            return await self._all()
        async with self._seen.at_large():
            held, spread = await self._seen.spread(PLACES)
            return await (self._all() if held <= WHOLE else self._best_of(held, spread))

    async def _all(self) -> Pool:
        rows = await self._rows(None)
        counted = [
            Counted(len(rows), _holding(rows, name, count))
            for name, count in (("words", len(self._search.query.words)), ("has_text", self._texts))
        ]
        return await self._pool(rows, _links_in(rows), counted)

    async def _best_of(self, held: int, spread: Spread) -> Pool:
        keys, counted = await self._best(held, spread)
        beside = await self._beside(keys)
        rows = await self._rows(_all_of(keys, beside))
        return await self._pool(rows, _links_of(rows, beside), counted)

    async def _pool(self, rows: Sequence[Row], links: Links, counted: Sequence[Counted]) -> Pool:
        sources = await self._sources(rows)
        as_of = self._search.question.selection.as_of
        candidates = [_candidate(row, as_of, sources) for row in rows]
        return Pool(candidates, links, counted[0], counted[1], key_pairs(candidates))

    @property
    def _texts(self) -> int:
        return 1 if self._search.plain else len(self._search.text.words)

    async def _rows(self, keys: Keys | None) -> list[Row]:
        """Versions with their words, texts and cosine: those of ``keys``, or all there are. In the order they were
        written, so that the same question is answered alike wherever its rows lie.
        """
        search, bind, memory_ids = self._search, Arguments(), None
        versions = sql.SQL("version v")
        if keys is not None:
            # All were found in these, or beside one that was.
            memory_ids = sorted({memory_id for memory_id, _, _ in keys})
            versions = sql.SQL(
                "unnest({}::text[], {}::text[], {}::int[]) k(memory_id, record_id, version)"
                " join version v using (memory_id, record_id, version)"
            ).format(*(bind([key[part] for key in keys]) for part in range(3)))
        cosine, joined = sql.SQL("null::float8"), sql.SQL("")
        if search.vector is not None:
            cosine = sql.SQL("1 - (e.vector <=> {}::halfvec)").format(bind(literal(search.vector)))
            joined = sql.SQL(
                " left join embedding e on e.memory_id = v.memory_id and e.record_id = v.record_id"
                " and e.version = v.version and e.generation = {} and e.dimension = {}"
            ).format(bind(self._generation.name), sql.Literal(self._generation.dimension))
        statement = sql.SQL(
            "select {columns}, {words} as words, {text} as has_text, {cosine} as cosine from {versions}{joined}"
            " where {seen} order by v.created_at, v.record_id, v.version"
        ).format(
            columns=_COLUMNS,
            words=masks(search.query.each, bind),
            text=self._text(bind),
            cosine=cosine,
            versions=versions,
            joined=joined,
            seen=self._seen.scope(bind, memory_ids).condition,
        )
        return await self._seen.fetch(statement, bind)

    async def _best(self, total: int, spread: Spread) -> tuple[Keys, list[Counted]]:
        """The best by each signal, and how rare the words are."""
        search, wording = self._search, Wording(self._seen, total, spread)
        keys, counted = Keys(), list[Counted]()
        for asked in (search.query, search.text):
            found, holding = await wording.best(asked)
            keys += found
            counted.append(Counted(total, holding))
        if search.plain:
            counted[1] = Counted(total, [1.0])
            keys += await self._seen.newest(self._holds_plain(bind := Arguments()), bind)
        if search.vector is not None:
            keys += await self._near(search.vector, total)
        if not (search.question.query or search.question.text):
            keys += await self._seen.newest(sql.SQL("true"), Arguments())
        return list(dict.fromkeys(keys)), counted

    async def _near(self, vector: Vector, total: int) -> Keys:
        """The nearest. In a large memory those whose signs agree most are compared, else all are."""
        bind = Arguments()
        seen = self._seen.scope(bind)
        near = bind(literal(vector))
        if seen.present:
            source = sql.SQL("embedding e where e.memory_id {} and e.invalidated_at is null").format(
                among(self._search.memory_ids, bind)
            )
        else:
            source = sql.SQL(
                "version v join embedding e on e.memory_id = v.memory_id and e.record_id = v.record_id"
                " and e.version = v.version where {}"
            ).format(seen.condition)
        by_signs = seen.present and total > _SIGNS_FROM
        # The index of signs is read alone: it holds no dimension but in them.
        dimension = sql.SQL("length(e.signs)" if by_signs else "e.dimension")
        source = sql.SQL("{} and e.generation = {} and {} = {}").format(
            source, bind(self._generation.name), dimension, sql.Literal(self._generation.dimension)
        )
        if by_signs:
            source = sql.SQL(
                "(select e.memory_id, e.record_id, e.version, e.generation from {}"
                " order by e.signs <~> binary_quantize({}::halfvec) limit {}) s"
                " join embedding e using (memory_id, record_id, version, generation)"
            ).format(source, near, sql.Literal(_BY_SIGNS))
        statement = sql.SQL(
            "select e.memory_id, e.record_id, e.version from {} order by e.vector <=> {}::halfvec limit {}"
        ).format(source, near, sql.Literal(BEST))
        return keys_of(await self._seen.fetch(statement, bind))

    async def _beside(self, keys: Keys) -> list[Row]:
        """The neighbours of episodes in their conversation, with how far they are away, and the sources of facts."""
        bind = Arguments()
        statement = sql.SQL(
            "with k as materialized (select v.memory_id, v.record_id, v.session, v.created_at"
            " from unnest({}::text[], {}::text[], {}::int[]) k(memory_id, record_id, version)"
            " join version v using (memory_id, record_id, version))"
            " select k.memory_id, k.record_id, n.memory_id as other_memory, n.record_id as other, n.version, n.apart"
            " from k cross join lateral ("
            "(select n.memory_id, n.record_id, n.version, row_number() over (order by n.created_at desc,"
            " n.record_id desc) as apart from version n where n.memory_id = k.memory_id and n.session = k.session"
            " and n.session <> '' and (n.created_at, n.record_id) < (k.created_at, k.record_id)"
            " order by n.created_at desc, n.record_id desc limit 2) union all"
            " (select n.memory_id, n.record_id, n.version, row_number() over (order by n.created_at,"
            " n.record_id) from version n where n.memory_id = k.memory_id and n.session = k.session"
            " and n.session <> '' and (n.created_at, n.record_id) > (k.created_at, k.record_id)"
            " order by n.created_at, n.record_id limit 2)) n where k.session <> ''"
            " union all select k.memory_id, k.record_id, d.source_memory_id, d.source_record_id, 1, 0"
            " from k join derivation d on d.memory_id = k.memory_id and d.record_id = k.record_id"
            " where d.source_memory_id = k.memory_id"
        ).format(*(bind([key[part] for key in keys]) for part in range(3)))
        return await self._tx.fetch_all(statement, bind.values)

    async def _sources(self, rows: Sequence[Row]) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """What the facts among the rows were derived from."""
        facts = [(row["memory_id"], row["record_id"]) for row in rows if row["type"] == "fact"]
        if not facts or all(row["type"] == "fact" for row in rows):
            return {}
        found = await self._tx.fetch_all(
            "select d.* from unnest(%s::text[], %s::text[]) k(memory_id, record_id)"
            " join derivation d using (memory_id, record_id)",
            ([memory for memory, _ in facts], [record for _, record in facts]),
        )
        sources = dict[tuple[str, str], list[tuple[str, str]]]()
        for row in found:
            of = sources.setdefault((row["memory_id"], row["record_id"]), [])
            of.append((row["source_memory_id"], row["source_record_id"]))
        return sources

    def _text(self, bind: Arguments) -> sql.Composable:
        if self._search.plain is None:
            return masks(self._search.text.each, bind)
        return sql.SQL("array[({})::int::bigint]").format(self._holds_plain(bind))

    def _holds_plain(self, bind: Arguments) -> sql.Composable:
        """Whether a version has the text that no lexeme is left of."""
        how, what = self._search.plain or ("sign", "")
        holds = "v.text ~* {}" if how == "words" else "position(lower({}) in lower(v.text)) > 0"
        return sql.SQL(holds).format(bind(what))


def _holding(rows: Sequence[Row], name: str, count: int) -> list[float]:
    held = bits([row[name] for row in rows], count)
    return [float(one) for one in held.sum(0)]


def _links_in(rows: Sequence[Row]) -> Links:
    """Neighbours among all versions there are."""
    said = sorted(
        (row["memory_id"], row["session"], row["created_at"], row["record_id"], at)
        for at, row in enumerate(rows)
        if row["session"]
    )
    return [
        (one[-1], other[-1], apart)
        for apart in (1, 2)
        for one, other in zip(said, said[apart:], strict=False)
        if one[:2] == other[:2]
    ]


def _links_of(rows: Sequence[Row], beside: Sequence[Row]) -> Links:
    """Neighbours as they were looked up, each pair once."""
    places = {(row["memory_id"], row["record_id"]): at for at, row in enumerate(rows)}
    found = set[tuple[int, int, int]]()
    for row in beside:
        one = places.get((row["memory_id"], row["record_id"]))
        other = places.get((row["other_memory"], row["other"]))
        if row["apart"] and one is not None and other is not None:
            found.add((min(one, other), max(one, other), row["apart"]))
    return sorted(found)


def _all_of(keys: Keys, beside: Sequence[Row]) -> Keys:
    return list(
        dict.fromkeys([*keys, *((row["other_memory"], row["other"], row["version"]) for row in beside)])
    )


def _candidate(
    row: Row, as_of: datetime | None, sources: dict[tuple[str, str], list[tuple[str, str]]]
) -> Candidate:
    closed_at = row["invalidated_at"]
    return Candidate(
        key=(row["memory_id"], row["record_id"], row["version"]),
        kind=row["type"],
        digest=bytes(row["digest"]),
        supersedes=row["supersedes"],
        current=closed_at is None or (as_of is not None and closed_at > as_of),
        derived=row["derived"],
        created_at=row["created_at"],
        happened_at=row["happened_at"],
        session=row["session"],
        said_by=row["said_by"],
        length=row["length"],
        size=row["size"],
        words=row["words"],
        text=row["has_text"],
        cosine=row["cosine"],
        sources=sources.get((row["memory_id"], row["record_id"]), ()),
    )
