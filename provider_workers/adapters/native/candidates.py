"""Which versions a recall ranks, read from Postgres: all it may see while they are few, else the best by each signal.

Every count is made over the versions this very question may see, so no ranking tells anything of a memory that is
not among them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from psycopg import sql

from provider_workers.adapters.native.lexemes import Lexemes, Search, bit, masks
from provider_workers.adapters.native.reading import filtered
from provider_workers.adapters.native.scope import Arguments, Scope, scope
from provider_workers.adapters.native.signals import Candidate, Counted, Pool, bits
from provider_workers.adapters.native.vectors import Generation, Vector, literal
from service_kit.db.tx import Row, Tx

__all__ = ["Candidates"]

WHOLE: Final = 2_000
"""Up to so many versions all are ranked."""
BEST: Final = 400
"""From more, so many of the best by each signal are, with what stands beside them."""

_SIGNS_FROM: Final = 50_000
_BY_SIGNS: Final = 2_000
_RARE: Final = 5_000
_LOOKED_FOR: Final = 20_000
_SEEN: Final = 10
_SAMPLED: Final = 1_024
_PROBES: Final = 16

_COLUMNS: Final = sql.SQL(
    "v.memory_id, v.record_id, v.version, v.type, v.digest, v.supersedes, v.created_at, v.invalidated_at, v.derived,"
    " coalesce(v.valid_from, v.created_at) as happened_at, v.session, length(v.words) as length,"
    " octet_length(v.text) as size,"
    " left(coalesce(v.attributes_json ->> 'subject', v.attributes_json ->> 'speaker', ''), 200) as said_by"
)

Keys = list[tuple[str, str, int]]


class Candidates:
    """The candidates of one search, within one transaction."""

    def __init__(self, tx: Tx, search: Search, generation: Generation) -> None:
        self._tx = tx
        self._search = search
        self._generation = generation

    async def pool(self) -> Pool:
        """What is ranked."""
        if await self._few():
            rows = await self._rows(None)
            counted = [
                Counted(len(rows), _holding(rows, name, count))
                for name, count in (("words", len(self._search.query.words)), ("has_text", self._texts))
            ]
            links = _links_in(rows)
        else:
            keys, counted = await self._best()
            beside = await self._beside(keys)
            rows = await self._rows(_all_of(keys, beside))
            links = _links_of(rows, beside)
        sources = await self._sources(rows)
        as_of = self._search.question.selection.as_of
        return Pool([_candidate(row, as_of, sources) for row in rows], links, counted[0], counted[1])

    @property
    def _texts(self) -> int:
        return 1 if self._search.plain else len(self._search.text.words)

    async def _few(self) -> bool:
        bind = Arguments()
        statement = sql.SQL(
            "select count(*) as held from (select 1 from version v where {} limit {}) few"
        ).format(self._scope(bind).condition, sql.Literal(WHOLE + 1))
        return (await self._fetch(statement, bind))[0]["held"] <= WHOLE

    async def _rows(self, keys: Keys | None) -> list[Row]:
        """Versions with their words, texts and cosine: those of ``keys``, or all there are. In the order they were
        written, so that the same question is answered alike wherever its rows lie.
        """
        search, bind = self._search, Arguments()
        among = sql.SQL("version v")
        if keys is not None:
            among = sql.SQL(
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
            "select {columns}, {words} as words, {text} as has_text, {cosine} as cosine from {among}{joined}"
            " where {seen} order by v.created_at, v.record_id, v.version"
        ).format(
            columns=_COLUMNS,
            words=masks(search.query.each, bind),
            text=self._text(bind),
            cosine=cosine,
            among=among,
            joined=joined,
            seen=self._scope(bind).condition,
        )
        return await self._fetch(statement, bind)

    async def _best(self) -> tuple[Keys, list[Counted]]:
        """The best by each signal, and how rare the words are."""
        search, bind = self._search, Arguments()
        statement = sql.SQL("select count(*) as held from version v where {}").format(
            self._scope(bind).condition
        )
        total = (await self._fetch(statement, bind))[0]["held"]
        keys, counted = list[tuple[str, str, int]](), list[Counted]()
        for asked in (search.query, search.text):
            found, holding = await self._by_words(asked, total)
            keys += found
            counted.append(Counted(total, holding))
        if search.plain:
            counted[1] = Counted(total, [1.0])
            keys += await self._newest(self._holds_plain(bind := Arguments()), bind)
        if search.vector is not None:
            keys += await self._near(search.vector, total)
        if not (search.question.query or search.question.text):
            keys += await self._newest(sql.SQL("true"), Arguments())
        return list(dict.fromkeys(keys)), counted

    async def _by_words(self, asked: Lexemes, total: int) -> tuple[Keys, list[float]]:
        """The best by the sum of their words' rarities, and how many versions have each word.

        How common a common word is, is estimated from a sample, and it is looked for only when rarer ones find too
        little: the rarest of them, or else the newest with all of them.
        """
        if not asked.words:
            return [], []
        shares = await self._shares(asked)
        holding = [share * total for share in shares]
        rare = [at for at, held in enumerate(holding) if held <= _RARE or shares[at] * _SAMPLED < _SEEN]
        rarest = min(range(len(holding)), key=holding.__getitem__)
        if not rare and holding[rarest] <= _LOOKED_FOR:
            rare = [rarest]
        if not rare:
            return await self._with_common(asked.each), holding
        rows = await self._with_rare([asked.each[at] for at in rare], total)
        for place, at in enumerate(rare):
            holding[at] = float(rows[0]["holding"][place]) if rows else 0.0
        keys = [_key(row) for row in rows]
        common = [one for at, one in enumerate(asked.each) if at not in rare]
        if common and len(keys) < BEST:
            keys += await self._with_common(common)
        return keys, holding

    async def _with_common(self, each: Sequence[str]) -> Keys:
        """The newest that have all of the words, then those that have any."""
        found = Keys()
        for joined in (" & ", " | "):
            bind = Arguments()
            holds = sql.SQL("v.words @@ {}::tsquery").format(bind(joined.join(each)))
            found += await self._newest(holds, bind)
            if len(found) >= BEST:
                break
        return found

    async def _with_rare(self, each: Sequence[str], total: int) -> list[Row]:
        bind = Arguments()
        counts = sql.SQL(", ").join(
            sql.SQL("count(*) filter (where {})").format(bit(at)) for at in range(len(each))
        )
        score = sql.SQL(" + ").join(
            sql.SQL("({}) * ln(1 + ({n} - holding[{at}] + 0.5) / (holding[{at}] + 0.5))").format(
                sql.SQL("({})::int").format(bit(at)), n=sql.Literal(float(total)), at=sql.Literal(at + 1)
            )
            for at in range(len(each))
        )
        statement = sql.SQL(
            "with hit as materialized (select v.memory_id, v.record_id, v.version, v.created_at, {masks} as words"
            " from version v where {seen} and v.words @@ {any}::tsquery),"
            " counted as materialized (select array[{counts}]::float8[] as holding from hit)"
            " select memory_id, record_id, version, holding from hit cross join counted"
            " order by {score} desc, created_at desc, record_id limit {most}"
        ).format(
            masks=masks(each, bind),
            seen=self._scope(bind).condition,
            any=bind(" | ".join(each)),
            counts=counts,
            score=score,
            most=sql.Literal(BEST),
        )
        return await self._fetch(statement, bind)

    async def _shares(self, asked: Lexemes) -> list[float]:
        """In what share of the versions each word is, by versions spread over the memories and their time."""
        bind, ids = Arguments(), self._search.memory_ids
        probed = [ids[at * len(ids) // _PROBES] for at in range(_PROBES)]
        statement = sql.SQL(
            "select distinct on (v.record_id, v.version) {masks} as words"
            " from unnest({memories}::text[], {parts}::float8[]) p(memory_id, part)"
            " cross join lateral (select min(created_at) as low, max(created_at) as high from version v"
            " where v.memory_id = p.memory_id and v.invalidated_at is null) span"
            " cross join lateral (select * from version v where v.memory_id = p.memory_id"
            " and v.invalidated_at is null and v.created_at >= low + (high - low) * part"
            " order by v.created_at limit {each}) v"
        ).format(
            masks=masks(asked.each, bind),
            memories=bind(probed),
            parts=bind([(at * 7 % _PROBES) / _PROBES for at in range(_PROBES)]),
            each=sql.Literal(_SAMPLED // _PROBES),
        )
        rows = await self._tx.fetch_all(statement, bind.values)
        held = bits([row["words"] for row in rows], len(asked.each))
        return [float(share) for share in held.mean(0)] if rows else [0.0] * len(asked.each)

    async def _newest(self, holds: sql.Composable, bind: Arguments) -> Keys:
        """The newest for which this holds."""
        statement = sql.SQL(
            "select v.memory_id, v.record_id, v.version from version v where {} and {}"
            " order by v.created_at desc, v.record_id desc, v.version desc limit {}"
        ).format(self._scope(bind).condition, holds, sql.Literal(BEST))
        return [_key(row) for row in await self._fetch(statement, bind)]

    async def _near(self, vector: Vector, total: int) -> Keys:
        """The nearest. In a large memory those whose signs agree most are compared, else all are."""
        bind = Arguments()
        seen = self._scope(bind)
        near = bind(literal(vector))
        if seen.present:
            source = sql.SQL("embedding e where e.memory_id = any({}) and e.invalidated_at is null").format(
                bind(list(self._search.memory_ids))
            )
        else:
            source = sql.SQL(
                "version v join embedding e on e.memory_id = v.memory_id and e.record_id = v.record_id"
                " and e.version = v.version where {}"
            ).format(seen.condition)
        source = sql.SQL("{} and e.generation = {} and e.dimension = {}").format(
            source, bind(self._generation.name), sql.Literal(self._generation.dimension)
        )
        if seen.present and total > _SIGNS_FROM:
            source = sql.SQL(
                "(select e.memory_id, e.record_id, e.version, e.generation from {}"
                " order by e.signs <~> binary_quantize({}::halfvec) limit {}) s"
                " join embedding e using (memory_id, record_id, version, generation)"
            ).format(source, near, sql.Literal(_BY_SIGNS))
        statement = sql.SQL(
            "select e.memory_id, e.record_id, e.version from {} order by e.vector <=> {}::halfvec limit {}"
        ).format(source, near, sql.Literal(BEST))
        return [_key(row) for row in await self._fetch(statement, bind)]

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

    def _scope(self, bind: Arguments) -> Scope:
        return scope(self._search.memory_ids, self._search.question.selection, bind)

    async def _fetch(self, statement: sql.Composed, bind: Arguments) -> list[Row]:
        return await filtered(self._tx, statement, bind, self._search.question.selection)


def _holding(rows: Sequence[Row], name: str, count: int) -> list[float]:
    held = bits([row[name] for row in rows], count)
    return [float(one) for one in held.sum(0)]


def _links_in(rows: Sequence[Row]) -> list[tuple[int, int, int]]:
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


def _links_of(rows: Sequence[Row], beside: Sequence[Row]) -> list[tuple[int, int, int]]:
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


def _key(row: Row) -> tuple[str, str, int]:
    return row["memory_id"], row["record_id"], row["version"]


def _candidate(
    row: Row, as_of: datetime | None, sources: dict[tuple[str, str], list[tuple[str, str]]]
) -> Candidate:
    closed_at = row["invalidated_at"]
    return Candidate(
        key=_key(row),
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
