"""The writes: observe, remember, revise, forget. Each is one transaction with its key and its jobs."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from psycopg import sql

from provider_workers.adapters.native import words
from provider_workers.adapters.native.files import Files
from provider_workers.adapters.native.keys import Claim, claim, settle
from provider_workers.adapters.native.languages import Languages
from provider_workers.adapters.native.moments import TICK, now
from provider_workers.adapters.native.rows import (
    COLUMNS,
    NewVersion,
    Text,
    append,
    at_first,
    close,
    hold_sources,
    indexed,
    record_of,
    stated,
)
from provider_workers.adapters.native.vectors import Vector, Vectors
from provider_workers.domain import checks, errors
from provider_workers.domain.model import Changes, Draft, Job, Observed, Record, Stamp, Status
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.errors import GroveError
from service_kit.ids import new_id
from service_kit.jobs import Jobs

__all__ = ["DERIVE", "Writing", "index"]

DERIVE: Final = "derive"
"""The job that works on the episodes of an observe."""

_LARGE: Final = 50_000


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a draft is found by, made before the transaction begins."""

    draft: Draft
    text: Text
    vector: Vector | None


class Writing:
    """``jobs`` must know the task :data:`DERIVE`."""

    def __init__(
        self, database: Database, vectors: Vectors, jobs: Jobs, files: Files, languages: Languages
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._jobs = jobs
        self._files = files
        self._languages = languages

    async def observe(self, memory_id: str, episodes: Sequence[Draft], stamp: Stamp) -> Observed:
        episodes = [await self._files.stated(memory_id, one) for one in episodes]
        texts = [await index(one, self._languages, datetime.now(UTC)) for one in episodes]
        claimed = Claim(stamp, "observe", memory_id)
        async with self._database.begin() as tx:
            done = await claim(tx, claimed)
            if done is not None:
                return await self._observed_before(tx, memory_id, done)
            await hold_sources(tx, episodes)
            job_id, at = new_id("hjob"), await now(tx, memory_id)
            new = [
                NewVersion(
                    memory_id=memory_id,
                    record_id=new_id("hrec"),
                    version=1,
                    draft=episode,
                    text=text,
                    vector=None,
                    created_at=at + place * TICK,
                    written_at=at + place * TICK,
                    writer=stamp.writer,
                    session=words.session(episode.attributes) or job_id,
                )
                for place, (episode, text) in enumerate(zip(episodes, texts, strict=True))
            ]
            await append(tx, new, self._vectors.generation)
            await self._enqueue(tx, memory_id, job_id, at, [one.record_id for one in new])
            await settle(tx, claimed, job_id=job_id)
        return Observed(Job(job_id, "pending", (), at))

    async def remember(self, memory_id: str, draft: Draft, stamp: Stamp) -> Record:
        made = await self._prepare(await self._files.stated(memory_id, draft))
        claimed = Claim(stamp, "remember", memory_id)
        async with self._database.begin() as tx:
            done = await claim(tx, claimed)
            if done is not None:
                return at_first(await _version(tx, memory_id, done["record_id"], done["version"]))
            await hold_sources(tx, [draft])
            at = await self._moment(tx, memory_id, draft.supersedes)
            new = NewVersion(
                memory_id=memory_id,
                record_id=new_id("hrec"),
                version=1,
                draft=made.draft,
                text=made.text,
                vector=made.vector,
                created_at=at,
                written_at=at,
                writer=stamp.writer,
                session=words.session(draft.attributes) if draft.type == "episode" else "",
            )
            await append(tx, [new], self._vectors.generation)
            await settle(tx, claimed, record_id=new.record_id, version=1)
        return new.record

    async def revise(
        self, memory_id: str, record_id: str, changes: Changes, expected_version: int, stamp: Stamp
    ) -> Record:
        if changes.content is not None:
            changes = replace(changes, content=await self._files.completed(memory_id, changes.content))
        claimed = Claim(stamp, "revise", memory_id, record_id)
        return await self.change(claimed, record_id, expected_version, lambda row: _revised(row, changes))

    async def change(
        self, claimed: Claim, record_id: str, expected_version: int, how: Callable[[Row], Draft]
    ) -> Record:
        """Append the version that ``how`` makes of the latest one, under the record's lock.

        The vector is made of the record as it reads before the lock; should it be changed in between, the new
        version waits for its vector instead of getting a wrong one.
        """
        memory_id = claimed.memory_id
        made = await self._prepare_change(memory_id, record_id, how)
        async with self._database.begin() as tx:
            done = await claim(tx, claimed)
            if done is not None:
                return at_first(await _version(tx, memory_id, record_id, done["version"]))
            latest = await _lock(tx, memory_id, record_id)
            _check_open(latest, expected_version)
            draft = how(latest)
            if made is None or draft != made.draft:
                made = _Prepared(draft, await index(draft, self._languages), None)
            await hold_sources(tx, [draft])
            at = await now(tx, memory_id, latest["written_at"])
            await close(tx, memory_id, record_id, Status.SUPERSEDED, at)
            new = NewVersion(
                memory_id=memory_id,
                record_id=record_id,
                version=latest["version"] + 1,
                draft=made.draft,
                text=made.text,
                vector=made.vector,
                created_at=latest["created_at"],
                written_at=at,
                writer=claimed.stamp.writer,
            )
            await append(tx, [new], self._vectors.generation)
            await settle(tx, claimed, record_id=record_id, version=new.version)
        return new.record

    async def forget(self, memory_id: str, record_id: str, expected_version: int, stamp: Stamp) -> Record:
        claimed = Claim(stamp, "forget", memory_id, record_id)
        async with self._database.begin() as tx:
            done = await claim(tx, claimed)
            if done is not None:
                return record_of(await _version(tx, memory_id, record_id, done["version"]))
            latest = await _lock(tx, memory_id, record_id)
            version, status = latest["version"], Status(latest["status"])
            if expected_version and expected_version != version:
                raise errors.wrong_version(version)
            if status is Status.ACTIVE:
                at = await now(tx, memory_id, latest["written_at"])
                await close(tx, memory_id, record_id, Status.FORGOTTEN, at)
            elif status is Status.SUPERSEDED:
                at = await now(tx, memory_id, latest["invalidated_at"])
                await tx.execute(
                    "update version set status = 'forgotten', forgotten_at = %s"
                    " where memory_id = %s and record_id = %s and version = %s",
                    (at, memory_id, record_id, version),
                )
            await settle(tx, claimed, record_id=record_id, version=version)
            return record_of(await _version(tx, memory_id, record_id, version))

    async def _observed_before(self, tx: Tx, memory_id: str, done: Row) -> Observed:
        """The first answer: the job as it was when it had just begun."""
        row = await tx.fetch_one(
            "select job_id, created_at from job where memory_id = %s and job_id = %s",
            (memory_id, done["job_id"]),
        )
        if row is None:
            raise errors.job_not_found()
        return Observed(Job(row["job_id"], "pending", (), row["created_at"].astimezone(UTC)))

    async def _enqueue(
        self, tx: Tx, memory_id: str, job_id: str, at: datetime, record_ids: Sequence[str]
    ) -> None:
        await tx.execute(
            "insert into job (memory_id, job_id, status, created_at) values (%s, %s, 'pending', %s)",
            (memory_id, job_id, at),
        )
        await tx.execute_many(
            "insert into job_episode (memory_id, job_id, position, record_id) values (%s, %s, %s, %s)",
            [(memory_id, job_id, place, record_id) for place, record_id in enumerate(record_ids)],
        )
        await self._jobs.defer(tx, DERIVE, {"memory_id": memory_id, "job_id": job_id})

    async def _moment(self, tx: Tx, memory_id: str, supersedes: str) -> datetime:
        """When a record is written, which is when the one it replaces is closed."""
        return await (self._supersede(tx, memory_id, supersedes) if supersedes else now(tx, memory_id))

    async def _supersede(self, tx: Tx, memory_id: str, record_id: str) -> datetime:
        """Close the record a new one replaces; answers the moment, which is the new one's too."""
        latest = await _lock(tx, memory_id, record_id, "supersedes")
        status = Status(latest["status"])
        if status is Status.SUPERSEDED or (
            status is Status.FORGOTTEN and await _has_successor(tx, memory_id, record_id)
        ):
            raise errors.closed(status, "supersedes")
        at = await now(tx, memory_id, latest["written_at"], latest["invalidated_at"])
        if status is Status.ACTIVE:
            await close(tx, memory_id, record_id, Status.SUPERSEDED, at)
        return at

    async def _prepare(self, draft: Draft) -> _Prepared:
        observed_at = datetime.now(UTC) if draft.type == "episode" else None
        text = await index(draft, self._languages, observed_at)
        return _Prepared(draft, text, await self._vectors.to_keep(text.whole))

    async def _prepare_change(
        self, memory_id: str, record_id: str, how: Callable[[Row], Draft]
    ) -> _Prepared | None:
        """What the new version will be found by; None where it is refused as the record reads now: whether it
        really is, or was done before under its key, is said under the lock.
        """
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                sql.SQL(
                    "select {columns} from version v where memory_id = %s and record_id = %s"
                    " order by version desc limit 1"
                ).format(columns=sql.SQL(COLUMNS)),
                (memory_id, record_id),
            )
        if row is None:
            raise errors.record_not_found()
        if row["type"] == "episode":
            raise errors.unsupported("revising an episode: episodes are only appended")
        try:
            draft = how(row)
        except GroveError:
            return None
        return await self._prepare(draft)


async def index(draft: Draft, languages: Languages, observed_at: datetime | None = None) -> Text:
    """What a draft is found by; cutting a long one into words leaves the event loop alone."""
    if sum(len(part.text) for part in draft.content) < _LARGE:
        return indexed(draft, languages, observed_at)
    return await asyncio.to_thread(indexed, draft, languages, observed_at)


async def _lock(tx: Tx, memory_id: str, record_id: str, param: str | None = None) -> Row:
    """The latest version of a record, locked by its head until the transaction ends."""
    await tx.execute(
        "select 1 from record where memory_id = %s and record_id = %s for no key update",
        (memory_id, record_id),
    )
    row = await tx.fetch_one(
        sql.SQL(
            "select {columns} from version v where memory_id = %s and record_id = %s"
            " order by version desc limit 1"
        ).format(columns=sql.SQL(COLUMNS)),
        (memory_id, record_id),
    )
    if row is None:
        raise errors.record_not_found(param)
    return row


async def _has_successor(tx: Tx, memory_id: str, record_id: str) -> bool:
    return await tx.fetch_value(
        "select exists (select from version where memory_id = %s and supersedes = %s)", (memory_id, record_id)
    )


async def _version(tx: Tx, memory_id: str, record_id: str, version: int) -> Row:
    row = await tx.fetch_one(
        sql.SQL(
            "select {columns} from version v where memory_id = %s and record_id = %s and version = %s"
        ).format(columns=sql.SQL(COLUMNS)),
        (memory_id, record_id, version),
    )
    if row is None:
        raise errors.record_not_found()
    return row


def _check_open(latest: Row, expected_version: int) -> None:
    if expected_version and expected_version != latest["version"]:
        raise errors.wrong_version(latest["version"])
    if latest["status"] != Status.ACTIVE:
        raise errors.closed(latest["status"])


def _revised(row: Row, changes: Changes) -> Draft:
    before = stated(row)
    after = replace(
        before,
        content=before.content if changes.content is None else changes.content,
        attributes=before.attributes if changes.attributes is None else changes.attributes,
        references=before.references if changes.references is None else changes.references,
        projection=before.projection if changes.projection is None else changes.projection,
        valid_from=_bound(before.valid_from, changes.valid_from, cleared="valid_from" in changes.clear),
        valid_to=_bound(before.valid_to, changes.valid_to, cleared="valid_to" in changes.clear),
    )
    checks.revised(after)
    return after


def _bound(before: datetime | None, stated_now: datetime | None, *, cleared: bool) -> datetime | None:
    if stated_now is not None:
        return stated_now
    return None if cleared else before
