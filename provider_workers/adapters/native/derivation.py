"""The job behind an observe: gives the episodes their vectors and derives facts from what they say.

It may be run any number of times and be killed anywhere. A fact's id is made of its episode and sentence,
an episode's facts are written in one transaction with the mark that it is done, and the same sentence of
the same speaker is a fact once in a memory. An episode that fails, or that took the process down with it
before, is set aside: the job says so at its end, and the others go on. With a model several episodes go into one
call; one that a model failed on is tried alone. While its service is away or a memory's budget is spent, the job
waits, and says why.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from psycopg import sql

from provider_workers.adapters.native import dates, sentences, voice, words
from provider_workers.adapters.native.capabilities import NAME
from provider_workers.adapters.native.chat import UnusableError
from provider_workers.adapters.native.languages import Languages
from provider_workers.adapters.native.model_derivation import Found, ModelDerivation, WaitError
from provider_workers.adapters.native.moments import now
from provider_workers.adapters.native.rows import (
    COLUMNS,
    DERIVED_FROM,
    NewVersion,
    Text,
    append,
    close,
    hold_sources,
    indexed,
    record_of,
)
from provider_workers.adapters.native.vectors import Vector, Vectors, store
from provider_workers.adapters.native.writing import DERIVE
from provider_workers.domain.model import Draft, Part, Record, Reference, Status, Writer
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.jobs import Jobs

__all__ = ["ATTEMPTS", "Derivation", "Derive", "derive"]

ATTEMPTS: Final = 50
"""How often the queue may try this job; it gives itself up before, in words its reader sees."""

_MAX_RUNS: Final = 20
_MAX_ATTEMPTS: Final = 3
_BATCH: Final = 16
_LOCK: Final = 0x64726976  # "driv": advisory locks of derivation, one for each memory
_WRITER: Final = Writer("service", NAME)

_log: Final = logging.getLogger(__name__)

Derive = Callable[[Record], Sequence[Draft]]
"""From an episode to the facts it holds."""


def derive(episode: Record) -> Sequence[Draft]:
    """The facts of an episode: each a sentence as it was said, with its speaker, who is its subject too where they
    speak of themselves, its source, and its time: the past day it names, else when it was said.
    """
    who, texts = sentences.heard(episode)
    found = dict.fromkeys(sentence for text in texts for sentence in sentences.statements(text))
    return [_fact(episode, who, sentence) for sentence in list(found)[: sentences.MAX_FACTS]]


def _fact(episode: Record, who: str, sentence: str) -> Draft:
    said_by = {"speaker": who} if who else {}
    about = {"subject": who} if who and who not in words.ROLES and voice.first_person(sentence) else {}
    said_at = episode.valid_from or episode.written_at
    return Draft(
        "fact",
        (Part("text", sentence),),
        msgspec.json.encode(said_by | about) if who else b"",
        dates.day_of(sentence, said_at) or said_at,
        None,
        (Reference(DERIVED_FROM, episode.memory_id, episode.id),),
    )


@dataclass(frozen=True, slots=True)
class _Episode:
    """An episode under work. ``facts`` None: it failed."""

    position: int
    row: Row
    facts: list[Found] | None


class Derivation:
    """``how`` None keeps episodes as they are and derives nothing. ``jobs`` must know the task :data:`DERIVE`."""

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        jobs: Jobs,
        how: Derive | ModelDerivation | None,
        languages: Languages,
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._jobs = jobs
        self._languages = languages
        self._model = how if isinstance(how, ModelDerivation) else None
        self._derive = None if isinstance(how, ModelDerivation) else how

    async def run(self, payload: dict[str, Any]) -> None:
        """One run of the job of ``payload``: ``memory_id`` and ``job_id``."""
        memory_id, job_id = str(payload["memory_id"]), str(payload["job_id"])
        if not await self._begin(memory_id, job_id):
            return
        while batch := await self._take(memory_id, job_id):
            if self._model is None:
                await self._work(job_id, await asyncio.to_thread(lambda: [self._read(row) for row in batch]))
            elif not await self._ask(self._model, job_id, batch):
                return
        await self._finish(memory_id, job_id)

    async def _ask(self, model: ModelDerivation, job_id: str, batch: Sequence[Row]) -> bool:
        """Work on episodes with the model; False when the job has to wait."""
        memory_id = batch[0]["memory_id"]
        try:
            found = await model.find(memory_id, [record_of(row) for row in batch])
        except WaitError as wait:
            await self._wait(memory_id, job_id, batch, wait)
            return False
        except UnusableError as error:
            # They are taken again, each alone, until one has had its attempts.
            _log.warning("the model was of no use for %d episodes: %s", len(batch), error)
            return True
        await self._work(job_id, [_Episode(row["position"], row, found[row["record_id"]]) for row in batch])
        return True

    async def _wait(self, memory_id: str, job_id: str, batch: Sequence[Row], wait: WaitError) -> None:
        """Put the job off. Neither its run nor, unless they may be to blame, its episodes' attempt has counted."""
        async with self._database.begin() as tx:
            waits = await tx.execute(
                "update job set runs = greatest(runs - 1, 0), error = %s"
                " where memory_id = %s and job_id = %s and status = 'pending'",
                (wait.why, memory_id, job_id),
            )
            if not waits:
                return
            if not wait.counts:
                await tx.execute(
                    "update job_episode set attempts = greatest(attempts - 1, 0) where memory_id = %s"
                    " and job_id = %s and position = any(%s) and state = 'waiting'",
                    (memory_id, job_id, [row["position"] for row in batch]),
                )
            payload = {"memory_id": memory_id, "job_id": job_id}
            await self._jobs.defer(tx, DERIVE, payload, after_s=wait.seconds)

    async def _begin(self, memory_id: str, job_id: str) -> bool:
        """Count the run; False when there is nothing to do, or it was tried too often."""
        async with self._database.begin() as tx:
            runs = await tx.fetch_value(
                "update job set runs = runs + 1, error = '' where memory_id = %s and job_id = %s and status = 'pending'"
                " returning runs",
                (memory_id, job_id),
            )
            if runs is None:
                return False
            if runs > _MAX_RUNS:
                await _end(tx, memory_id, job_id, "The episodes could not be worked on.")
                return False
        return True

    async def _take(self, memory_id: str, job_id: str) -> Sequence[Row]:
        """The next episodes, their attempt counted before anything can go wrong. One that may have taken a
        run down is taken alone, and after the last attempt set aside.
        """
        async with self._database.begin() as tx:
            await tx.execute(
                "update job_episode set state = 'quarantined' where memory_id = %s and job_id = %s"
                " and state = 'waiting' and attempts >= %s",
                (memory_id, job_id, _MAX_ATTEMPTS),
            )
            rows = await tx.fetch_all(
                sql.SQL(
                    "select {columns}, {embedded}, e.position, e.attempts"
                    " from job_episode e join version v on v.memory_id = e.memory_id and v.record_id = e.record_id"
                    " and v.version = 1 where e.memory_id = %s and e.job_id = %s and e.state = 'waiting'"
                    " order by e.attempts, e.position limit %s"
                ).format(columns=sql.SQL(COLUMNS), embedded=sql.SQL(voice.COLUMNS)),
                (memory_id, job_id, _BATCH),
            )
            taken: Sequence[Row] = (
                rows[:1] if rows and rows[0]["attempts"] else [row for row in rows if not row["attempts"]]
            )
            if self._model is not None:
                taken = self._model.portion(taken)
            await tx.execute(
                "update job_episode set attempts = attempts + 1"
                " where memory_id = %s and job_id = %s and position = any(%s)",
                (memory_id, job_id, [row["position"] for row in taken]),
            )
        return taken

    def _read(self, row: Row) -> _Episode:
        """The facts an episode holds. Whatever its text makes the derivation do, only this episode fails."""
        episode = record_of(row)
        if self._derive is None or episode.status is not Status.ACTIVE:
            return _Episode(row["position"], row, [])
        try:
            facts = [_found(episode, fact, self._languages) for fact in self._derive(episode)]
        except Exception as error:  # noqa: BLE001 - the edge of one episode's work
            _log.error("an episode is set aside: deriving from it failed with %s", type(error).__name__)
            return _Episode(row["position"], row, None)
        return _Episode(row["position"], row, facts)

    async def _work(self, job_id: str, episodes: Sequence[_Episode]) -> None:
        memory_id = episodes[0].row["memory_id"]
        await self._drop_known(memory_id, episodes)
        texts = [voice.embedded(one.row) for one in episodes]
        texts += [fact.text.whole for one in episodes for fact in one.facts or []]
        vectors = await self._vectors.all_to_keep(texts)
        of_facts = iter([None] * len(texts) if vectors is None else vectors[len(episodes) :])
        for place, one in enumerate(episodes):
            facts = [(fact, next(of_facts)) for fact in one.facts or []]
            await self._write(job_id, one, facts, None if vectors is None else vectors[place])

    async def _drop_known(self, memory_id: str, episodes: Sequence[_Episode]) -> None:
        """Leave out what the memory holds as a fact already, or a fact says earlier in this batch."""
        digests = [fact.text.digest for one in episodes for fact in one.facts or []]
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select digest from version where memory_id = %s and digest = any(%s) and type = 'fact'"
                " and invalidated_at is null",
                (memory_id, digests),
            )
        known = {bytes(row["digest"]) for row in rows}
        for one in episodes:
            for fact in list(one.facts or []):
                if fact.text.digest in known and one.facts is not None:
                    one.facts.remove(fact)
                known.add(fact.text.digest)

    async def _write(
        self,
        job_id: str,
        episode: _Episode,
        facts: Sequence[tuple[Found, Vector | None]],
        vector: Vector | None,
    ) -> None:
        """An episode's vector, its facts, and the mark that it is done: together or not at all. Nothing is
        written for one that was erased or done meanwhile. One derivation of a memory writes at a time, so that
        two cannot both find the same sentence missing.
        """
        row = episode.row
        memory_id, record_id = row["memory_id"], row["record_id"]
        async with self._database.begin() as tx:
            await tx.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, memory_id))
            held = await self._hold(tx, row, [fact for fact, _ in facts])
            state = "quarantined" if episode.facts is None else "done"
            marked = record_id in held and await tx.execute(
                "update job_episode set state = %s"
                " where memory_id = %s and job_id = %s and position = %s and state = 'waiting'",
                (state, memory_id, job_id, episode.position),
            )
            if not marked:
                return
            if vector is not None:
                await store(tx, [row], [vector], self._vectors.generation)
            new = await self._new(tx, row, facts, held)
            await append(tx, [one for _, one in new], self._vectors.generation)
            await tx.execute_many(
                "insert into job_fact (memory_id, job_id, position, sentence, record_id)"
                " values (%s, %s, %s, %s, %s)",
                [(memory_id, job_id, episode.position, place, one.record_id) for place, one in new],
            )

    async def _hold(self, tx: Tx, episode: Row, facts: Sequence[Found]) -> frozenset[str]:
        """Lock an episode and the facts that others of it replace, in one order; those that are there."""
        replaced = {fact.replaces.record_id for fact in facts if fact.replaces is not None}
        mode = "no key update" if replaced else "key share"
        rows = await tx.fetch_all(
            sql.SQL(
                "select record_id from record where memory_id = %s and record_id = any(%s) order by record_id for {}"
            ).format(sql.SQL(mode)),
            (episode["memory_id"], [episode["record_id"], *replaced]),
        )
        return frozenset(row["record_id"] for row in rows)

    async def _new(
        self, tx: Tx, episode: Row, facts: Sequence[tuple[Found, Vector | None]], held: frozenset[str]
    ) -> list[tuple[int, NewVersion]]:
        """The facts the memory does not hold yet, with their place in the episode; what they replace is closed."""
        memory_id, episode_id = episode["memory_id"], episode["record_id"]
        ids = [_fact_id(memory_id, episode_id, fact.text.digest) for fact, _ in facts]
        rows = await tx.fetch_all(
            "select digest, record_id from version where memory_id = %s and type = 'fact'"
            " and ((digest = any(%s) and invalidated_at is null) or record_id = any(%s))",
            (memory_id, [fact.text.digest for fact, _ in facts], ids),
        )
        known = {bytes(row["digest"]) for row in rows} | {row["record_id"] for row in rows}
        await hold_sources(tx, [fact.draft for fact, _ in facts])
        open_now = await self._unchanged(tx, memory_id, [fact for fact, _ in facts], held)
        at = await now(tx, memory_id, *open_now.values())
        new = list[tuple[int, NewVersion]]()
        for place, (fact_id, (fact, vector)) in enumerate(zip(ids, facts, strict=True)):
            if fact_id in known or fact.text.digest in known:
                continue
            draft, written_at = fact.draft, at + timedelta(microseconds=place)
            replaced = fact.replaces.record_id if fact.replaces is not None else ""
            if open_now.pop(replaced, None) is not None:
                await close(tx, memory_id, replaced, Status.SUPERSEDED, written_at)
                draft = replace(draft, supersedes=replaced)
            new.append((place, _version(memory_id, fact_id, draft, (fact.text, vector), written_at)))
        return new

    async def _unchanged(
        self, tx: Tx, memory_id: str, facts: Sequence[Found], held: frozenset[str]
    ) -> dict[str, datetime]:
        """Of the facts to be replaced those that are current and as the model was shown them, and when they were
        written. Another is left as it is, and so is what was to replace it: both stand.
        """
        shown = {
            fact.replaces.record_id: fact.replaces.version for fact in facts if fact.replaces is not None
        }
        if not shown:
            return {}
        rows = await tx.fetch_all(
            "select record_id, version, written_at from version where memory_id = %s and record_id = any(%s)"
            " and invalidated_at is null",
            (memory_id, sorted(held & shown.keys())),
        )
        return {
            row["record_id"]: row["written_at"] for row in rows if row["version"] == shown[row["record_id"]]
        }

    async def _finish(self, memory_id: str, job_id: str) -> None:
        async with self._database.begin() as tx:
            row = await tx.fetch_one(
                "select count(*) as total, count(*) filter (where state = 'quarantined') as failed from job_episode"
                " where memory_id = %s and job_id = %s",
                (memory_id, job_id),
            )
            failed, total = (row["failed"], row["total"]) if row else (0, 0)
            error = f"{failed} of {total} episodes could not be worked on and are kept as they are."
            await _end(tx, memory_id, job_id, error if failed else "")


def _found(episode: Record, fact: Draft, languages: Languages) -> Found:
    """With what it is found by. Of two days, "I ran yesterday" is two facts."""
    text = indexed(fact, languages)
    if fact.valid_from is not None and fact.valid_from != (episode.valid_from or episode.written_at):
        who = words.speaker(fact.content, fact.attributes)
        dated = words.digest(who, f"{fact.valid_from.date().isoformat()}\0{text.said}")
        text = replace(text, digest=dated)
    return Found(fact, text)


async def _end(tx: Tx, memory_id: str, job_id: str, error: str) -> None:
    """The job's last word: failed when there is an error, completed otherwise."""
    await tx.execute(
        "update job set status = %s, error = %s, finished_at = clock_timestamp()"
        " where memory_id = %s and job_id = %s and status = 'pending'",
        ("failed" if error else "completed", error, memory_id, job_id),
    )


def _version(
    memory_id: str, fact_id: str, draft: Draft, found_by: tuple[Text, Vector | None], at: datetime
) -> NewVersion:
    text, vector = found_by
    return NewVersion(
        memory_id=memory_id,
        record_id=fact_id,
        version=1,
        draft=draft,
        text=text,
        vector=vector,
        created_at=at,
        written_at=at,
        writer=_WRITER,
        derived=True,
    )


def _fact_id(memory_id: str, episode_id: str, digest: bytes) -> str:
    """The same for the same sentence of the same episode, whichever run writes it."""
    made = hashlib.sha256(f"{memory_id}\0{episode_id}\0".encode() + digest)
    return f"hrec_{made.hexdigest()[:32]}"
