"""Recall: exact search by vector and by words within the memories named, ranked together (section 6).

A word's rarity is counted over the versions this very question may see, so no ranking tells anything of a
memory that is not among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from psycopg import sql

from provider_workers.adapters.native import words
from provider_workers.adapters.native.ranking import Asked, Candidate, Ranked, evidence, rank
from provider_workers.adapters.native.reading import filtered, fit, left_out
from provider_workers.adapters.native.rows import COLUMNS, record_of
from provider_workers.adapters.native.scope import Arguments, Scope, scope, visible
from provider_workers.adapters.native.vectors import Vector, Vectors, literal, outdated
from provider_workers.domain.model import Found, Hit, Question
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx

__all__ = ["Recall"]

_LEAST_CANDIDATES: Final = 50
_CANDIDATES_PER_HIT: Final = 5
_MAX_WORDS: Final = 100
_INDEXED_DIMENSION: Final = 1024


@dataclass(frozen=True, slots=True)
class _Words:
    """The lexemes of a question. ``part`` is the weight they must have: A is what a record says."""

    lexemes: tuple[str, ...]
    part: str

    @property
    def each(self) -> list[str]:
        """One ``tsquery`` for each lexeme."""
        return [f"{_quoted(one)}{self.part}" for one in self.lexemes]


@dataclass(frozen=True, slots=True)
class _Search:
    """A question as it is searched for. ``plain`` is a text without any lexeme, looked for as it is."""

    memory_ids: Sequence[str]
    question: Question
    vector: Vector | None
    query: _Words
    text: _Words
    plain: str

    @property
    def candidates(self) -> int:
        """How many each signal contributes."""
        return max(_LEAST_CANDIDATES, self.question.limit * _CANDIDATES_PER_HIT)


class Recall:
    """``abstain_below`` is the evidence under which nothing found counts as an answer."""

    def __init__(
        self, database: Database, vectors: Vectors, *, abstain_below: float, answer_bytes: int
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._abstain_below = abstain_below
        self._answer_bytes = answer_bytes

    async def recall(self, memory_ids: Sequence[str], question: Question) -> Found:
        query, text = _clean(question.query), _clean(question.text)
        vector = await self._vectors.of(query) if query else None
        degraded = ["query:embedding_unavailable"] if query and vector is None else []
        async with self._database.read() as tx:
            search, capped = await _read(tx, memory_ids, question, (query, text), vector)
            candidates = await self._candidates(tx, search)
            asked = Asked(bool(query), bool(text), question.selection.filter is not None)
            best = rank(candidates, asked)[: question.limit]
            hits, cut = await self._hits(tx, best, question)
            degraded += await left_out(tx, memory_ids, question.selection)
            if vector is not None and await self._pending(tx, memory_ids, question):
                degraded.append("query:embedding_pending")
        degraded += capped + (["limit:capped_by_size"] if cut else [])
        found = evidence(best, with_vectors=vector is not None) if query else 0.0
        abstain = not hits or (bool(query) and found < self._abstain_below)
        return Found(tuple(hits), tuple(degraded), abstain=abstain, evidence=found)

    async def _candidates(self, tx: Tx, search: _Search) -> list[Candidate]:
        """What the signals found, each with its true score on every signal."""
        bind = Arguments()
        seen = scope(search.memory_ids, search.question.selection, bind)
        parts, names = list[sql.Composable](), list[sql.SQL]()
        if search.vector is not None:
            parts.append(self._near(search.vector, search, seen, bind))
            names.append(sql.SQL("near"))
        if search.query.lexemes:
            parts.append(_matched(sql.SQL("query"), search.query, search, seen, bind))
            names.append(sql.SQL("query"))
        if search.text.lexemes:
            parts.append(_matched(sql.SQL("text"), search.text, search, seen, bind))
            names.append(sql.SQL("text"))
        elif search.plain:
            parts.append(_plain(search, seen, bind))
            names.append(sql.SQL("text"))
        if not parts:
            asks_words = bool(search.question.query or search.question.text)
            return [] if asks_words else await self._newest(tx, search, seen, bind)
        statement = _joined(parts, names)
        selection = search.question.selection
        return [_candidate(row, selection.as_of) for row in await filtered(tx, statement, bind, selection)]

    def _near(self, vector: Vector, search: _Search, seen: Scope, bind: Arguments) -> sql.Composed:
        """Every version with its cosine. The present is read from one index alone; literals let the planner
        see that it may.
        """
        generation = self._vectors.generation
        indexed = sql.SQL("true")
        if generation.dimension <= _INDEXED_DIMENSION:
            indexed = sql.SQL("e.dimension <= {}").format(sql.Literal(_INDEXED_DIMENSION))
        which = sql.SQL("e.generation = {} and e.dimension = {} and {}").format(
            bind(generation.name), sql.Literal(generation.dimension), indexed
        )
        if seen.present:
            source = sql.SQL("embedding e where e.memory_id = any({}) and e.invalidated_at is null").format(
                bind(list(search.memory_ids))
            )
        else:
            source = sql.SQL(
                "version v join embedding e on e.memory_id = v.memory_id and e.record_id = v.record_id"
                " and e.version = v.version where {}"
            ).format(seen.condition)
        return sql.SQL(
            "near_all as materialized (select e.memory_id, e.record_id, e.version,"
            " 1 - (e.vector <=> {vector}::halfvec) as score from {source} and {which}),"
            " near as (select memory_id, record_id, version from near_all"
            " order by score desc, record_id limit {most})"
        ).format(
            vector=bind(literal(vector)), source=source, which=which, most=sql.Literal(search.candidates)
        )

    async def _newest(self, tx: Tx, search: _Search, seen: Scope, bind: Arguments) -> list[Candidate]:
        """What a filter alone leaves."""
        statement = sql.SQL(
            "select v.memory_id, v.record_id, v.version, v.type, v.digest, v.supersedes, v.created_at,"
            " v.invalidated_at from version v where {condition}"
            " order by v.created_at desc, v.record_id desc, v.version desc limit {limit}"
        ).format(condition=seen.condition, limit=sql.Literal(search.candidates))
        selection = search.question.selection
        return [_candidate(row, selection.as_of) for row in await filtered(tx, statement, bind, selection)]

    async def _hits(self, tx: Tx, best: Sequence[Ranked], question: Question) -> tuple[list[Hit], bool]:
        """The records themselves, as many as fit one answer; one that is no longer to be seen is left out."""
        bind = Arguments()
        keys = [one.candidate.key for one in best]
        statement = sql.SQL(
            "select {columns}, v.size, place from version v"
            " join unnest({memories}::text[], {records}::text[], {versions}::int[])"
            " with ordinality k(memory_id, record_id, version, place) using (memory_id, record_id, version)"
            " where {visible} order by place"
        ).format(
            columns=sql.SQL(COLUMNS),
            memories=bind([key[0] for key in keys]),
            records=bind([key[1] for key in keys]),
            versions=bind([key[2] for key in keys]),
            visible=visible(question.selection.include, question.selection.as_of, bind),
        )
        rows = await tx.fetch_all(statement, bind.values)
        kept = fit(rows, self._answer_bytes)
        hits = list[Hit]()
        for row in kept:
            found = best[int(row["place"]) - 1]
            hits.append(Hit(record_of(row, question.selection.as_of), found.score, found.why))
        return hits, len(kept) < len(rows)

    async def _pending(self, tx: Tx, memory_ids: Sequence[str], question: Question) -> bool:
        """Whether anything the question may see still waits for its vector. Few do: each is looked up."""
        bind = Arguments()
        seen = scope(memory_ids, question.selection, bind)
        statement = sql.SQL(
            "select exists (select 1 from unembedded u cross join lateral (select 1 from version v"
            " where v.memory_id = u.memory_id and v.record_id = u.record_id and v.version = u.version"
            " and {} limit 1) seen where u.memory_id = any({})) as pending"
        ).format(seen.condition, bind(list(memory_ids)))
        rows = await filtered(tx, statement, bind, question.selection)
        return bool(rows[0]["pending"]) or await outdated(tx, memory_ids, self._vectors.generation)


async def _read(
    tx: Tx,
    memory_ids: Sequence[str],
    question: Question,
    asked: tuple[str, str],
    vector: Vector | None,
) -> tuple[_Search, list[str]]:
    """The question cut into lexemes as the records were, and what of it is left out."""
    query, text = asked
    row = await tx.fetch_one(
        "select tsvector_to_array(to_tsvector('pg_catalog.english', %s)) as query,"
        " tsvector_to_array(to_tsvector('pg_catalog.english', %s)) as text",
        (words.query_words(query), words.query_words(text)),
    )
    found: dict[str, list[str]] = {name: row[name] if row else [] for name in ("query", "text")}
    capped = [
        f"{name}:capped_at_{_MAX_WORDS}_words" for name, them in found.items() if len(them) > _MAX_WORDS
    ]
    search = _Search(
        memory_ids,
        question,
        vector,
        _Words(tuple(found["query"][:_MAX_WORDS]), ""),
        _Words(tuple(found["text"][:_MAX_WORDS]), ":A"),
        text if text and not found["text"] else "",
    )
    return search, capped


def _matched(name: sql.SQL, asked: _Words, search: _Search, seen: Scope, bind: Arguments) -> sql.Composed:
    """Versions with any of the words, scored by the rarity of those they have: the sum of idf."""
    each = bind(asked.each)
    return sql.SQL(
        "{n}_word as materialized (select one, ord from unnest({each}::text[]::tsquery[])"
        " with ordinality w(one, ord)),"
        " {n}_hit as materialized (select v.memory_id, v.record_id, v.version, v.created_at,"
        " (select array_agg(ord) from {n}_word where v.words @@ one) as ords"
        " from version v where {seen} and v.words @@ {any}::tsquery),"
        " {n}_idf as materialized (select ord, ln(1 + (n - df + 0.5) / (df + 0.5)) as idf from"
        " (select ord, count({n}_hit.ord)::float8 as df from {n}_word left join"
        " (select unnest(ords) as ord from {n}_hit) {n}_hit using (ord) group by ord) counted,"
        " (select count(*)::float8 as n from version v where {seen}) held),"
        " {n}_all as materialized (select memory_id, record_id, version, created_at,"
        " (select sum(idf) from {n}_idf where ord = any(ords)) as score from {n}_hit),"
        " {n} as (select memory_id, record_id, version from {n}_all"
        " order by score desc, created_at desc, record_id limit {most})"
    ).format(
        n=name,
        each=each,
        any=bind(" | ".join(asked.each)),
        seen=seen.condition,
        most=sql.Literal(search.candidates),
    )


def _plain(search: _Search, seen: Scope, bind: Arguments) -> sql.Composed:
    """Versions that have a text no lexeme is left of: its words when all are stop words, else the sign it is."""
    stopped = words.query_words(search.plain).split()[:_MAX_WORDS]
    if stopped:
        pattern = rf"(^|[^[:alnum:]])({'|'.join(stopped)})([^[:alnum:]]|$)"
        holds = sql.SQL("v.text ~* {}").format(bind(pattern))
    else:
        holds = sql.SQL("position(lower({}) in lower(v.text)) > 0").format(bind(search.plain))
    return sql.SQL(
        "text_all as materialized (select v.memory_id, v.record_id, v.version, 1.0::float8 as score"
        " from version v where {seen} and {holds}"
        " order by v.created_at desc limit {most}),"
        " text as (select memory_id, record_id, version from text_all)"
    ).format(seen=seen.condition, holds=holds, most=sql.Literal(search.candidates))


def _joined(parts: Sequence[sql.Composable], names: Sequence[sql.SQL]) -> sql.Composed:
    """The union of what the signals found, with every signal's score beside it."""
    held = {name.as_string() for name in names}
    scores = list[sql.Composable]()
    joins = list[sql.Composable]()
    for signal, column in (("near", "cosine"), ("query", "words"), ("text", "text")):
        if signal in held:
            scores.append(
                sql.SQL("{}.score as {}").format(sql.Identifier(f"{signal}_all"), sql.Identifier(column))
            )
            joins.append(
                sql.SQL("left join {} using (memory_id, record_id, version)").format(
                    sql.Identifier(f"{signal}_all")
                )
            )
        else:
            scores.append(sql.SQL("null::float8 as {}").format(sql.Identifier(column)))
    # Of all words asked for, so that none found is no evidence, and not a question without words.
    total = sql.SQL("(select sum(idf) from query_idf)") if "query" in held else sql.SQL("null::float8")
    return sql.SQL(
        "with {parts}, found as ({union}) select memory_id, record_id, version, v.type, v.digest, v.supersedes,"
        " v.created_at, v.invalidated_at, {scores}, {total} as words_total"
        " from found join version v using (memory_id, record_id, version) {joins}"
    ).format(
        parts=sql.SQL(", ").join(parts),
        union=sql.SQL(" union ").join([sql.SQL("select * from {}").format(name) for name in names]),
        scores=sql.SQL(", ").join(scores),
        total=total,
        joins=sql.SQL(" ").join(joins),
    )


def _candidate(row: Row, as_of: datetime | None) -> Candidate:
    closed_at = row["invalidated_at"]
    return Candidate(
        key=(row["memory_id"], row["record_id"], row["version"]),
        kind=row["type"],
        digest=bytes(row["digest"]),
        supersedes=row["supersedes"],
        current=closed_at is None or (as_of is not None and closed_at > as_of),
        created_at=row["created_at"],
        cosine=row.get("cosine"),
        words=row.get("words"),
        words_total=row.get("words_total") or 0.0,
        text=row.get("text"),
    )


def _clean(text: str) -> str:
    return text.replace("\0", "").strip()


def _quoted(lexeme: str) -> str:
    """A lexeme as ``tsquery`` reads it."""
    doubled = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"
