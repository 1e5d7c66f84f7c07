"""Recall: what exactly the memories named hold, ranked by every signal together (section 6)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from psycopg import sql

from provider_workers.adapters.native import words
from provider_workers.adapters.native.candidates import Candidates
from provider_workers.adapters.native.dates import spoken_of
from provider_workers.adapters.native.generations import outdated
from provider_workers.adapters.native.judging import About, Judged, judge, named
from provider_workers.adapters.native.lexemes import Lexemes, Search, languages_of, lexed
from provider_workers.adapters.native.ranking import Asked, Ranked, rank
from provider_workers.adapters.native.reading import filtered, fit, left_out
from provider_workers.adapters.native.rows import COLUMNS, record_of
from provider_workers.adapters.native.scope import Arguments, among, selected, visible
from provider_workers.adapters.native.signals import Pool, Signals
from provider_workers.adapters.native.vectors import Vectors
from provider_workers.domain.model import Found, Hit, Question
from service_kit.db.pool import Database
from service_kit.db.tx import Tx

__all__ = ["Recall"]

_MAX_WORDS: Final = 100


class Recall:
    """``abstain_below`` is the evidence under which nothing found counts as an answer, ``without`` the signals that do not
    count.
    """

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        *,
        abstain_below: float,
        answer_bytes: int,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._abstain_below = abstain_below
        self._answer_bytes = answer_bytes
        self._without = without

    async def recall(self, memory_ids: Sequence[str], question: Question) -> Found:
        query, text = _clean(question.query), _clean(question.text)
        vector = await self._vectors.of(query) if query else None
        degraded = ["query:embedding_unavailable"] if query and vector is None else []
        async with self._database.read() as tx:
            search, capped = await _read(tx, memory_ids, question, (query, text))
            search = replace(search, vector=vector)
            pool = await Candidates(tx, search, self._vectors.generation).pool()
            best, judged = await asyncio.to_thread(_ranked, pool, search, query, self._without)
            hits, cut = await self._hits(tx, best[: question.limit], question)
            degraded += await left_out(tx, memory_ids, question.selection)
            if vector is not None and await self._pending(tx, memory_ids, question):
                degraded.append("query:embedding_pending")
        degraded += capped + (["limit:capped_by_size"] if cut else [])
        return self._found(hits, judged, asks=bool(query), degraded=degraded)

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
            hits.append(Hit(record_of(row, question.selection.as_of), found.score, found.why, found.signals))
        return hits, len(kept) < len(rows)

    async def _pending(self, tx: Tx, memory_ids: Sequence[str], question: Question) -> bool:
        """Whether anything the question may see still waits for its vector. Few do: each is looked up."""
        bind = Arguments()
        seen = selected(question.selection, bind)
        statement = sql.SQL(
            "select exists (select 1 from unembedded u cross join lateral (select 1 from version v"
            " where v.memory_id = u.memory_id and v.record_id = u.record_id and v.version = u.version"
            " and {} limit 1) seen where u.memory_id {}) as pending"
        ).format(seen.condition, among(memory_ids, bind))
        rows = await filtered(tx, statement, bind, question.selection)
        return bool(rows[0]["pending"]) or await outdated(tx, memory_ids, self._vectors.generation)

    def _found(self, hits: Sequence[Hit], judged: Judged, *, asks: bool, degraded: Sequence[str]) -> Found:
        threshold = self._abstain_below if asks else 0.0
        weak = judged.evidence < threshold
        return Found(
            tuple(hits),
            tuple(degraded),
            abstain=not hits or weak,
            evidence=judged.evidence,
            threshold=threshold,
            reason="nothing_stored" if not hits else judged.reason if weak else "",
        )


def _ranked(pool: Pool, search: Search, query: str, without: frozenset[str]) -> tuple[list[Ranked], Judged]:
    """The ranking, and whether it answers. On a thread: some thousand candidates take a while."""
    question = search.question
    if not pool.candidates:
        return [], Judged(0.0)
    subjects = named(pool, query) if query else frozenset[str]()
    at = question.selection.as_of or datetime.now(UTC)
    spoken = spoken_of(query, at) if query else None
    pool = replace(
        pool,
        links=() if "neighbours" in without else pool.links,
        keys=() if "keys" in without else pool.keys,
    )
    signals = Signals(pool, subjects, spoken.window if spoken else None)
    has_text = bool(search.text.words or search.plain)
    asked = Asked(bool(query), has_text, question.selection.filter is not None, without)
    about = About(search.query.words, subjects, words.names(spoken.said) if spoken else frozenset())
    judged = judge(signals, about) if query else Judged(0.0)
    if not (asked.query or asked.text) and (question.query or question.text):
        return [], judged
    return rank(signals, asked), judged


async def _read(
    tx: Tx, memory_ids: Sequence[str], question: Question, asked: tuple[str, str]
) -> tuple[Search, list[str]]:
    """The question cut into words as the records were, and what of it is left out."""
    query, text = asked
    languages = await languages_of(tx, memory_ids)
    found = {name: await lexed(tx, said, languages) for name, said in (("query", query), ("text", text))}
    capped = [
        f"{name}:capped_at_{_MAX_WORDS}_words" for name, them in found.items() if len(them) > _MAX_WORDS
    ]
    search = Search(
        memory_ids,
        question,
        None,
        Lexemes(tuple(found["query"][:_MAX_WORDS])),
        Lexemes(tuple(found["text"][:_MAX_WORDS]), ":A"),
        _plain(text) if text and not found["text"] else None,
    )
    return search, capped


def _plain(text: str) -> tuple[str, str]:
    """How a text no lexeme is left of is looked for: by its words when all are stop words, else as it stands."""
    stopped = [one.written for one in words.question(text)][:_MAX_WORDS]
    if stopped:
        return "words", rf"(^|[^[:alnum:]])({'|'.join(stopped)})([^[:alnum:]]|$)"
    return "sign", text


def _clean(text: str) -> str:
    return text.replace("\0", "").strip()
