"""Notes that sum up a session or a day: its most central sentences, word for word, each with its episode.

Only what was said first hand is taken, as for facts: never a tool's result, an unnamed assistant's words, which may
repeat what was recalled, or another note. A sentence is central when it is near to all the others.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import numpy as np
from psycopg import sql

from provider_workers.adapters.native import sentences, words
from provider_workers.adapters.native.consolidation.pen import Pen
from provider_workers.adapters.native.consolidation.runs import WRITER
from provider_workers.adapters.native.languages import Languages
from provider_workers.adapters.native.moments import now
from provider_workers.adapters.native.rows import COLUMNS, DERIVED_FROM, NewVersion, indexed, record_of
from provider_workers.adapters.native.vectors import Vector, Vectors
from provider_workers.domain.model import Draft, Part, Record, Reference
from service_kit.db.tx import Row, Tx

__all__ = ["Summaries", "group_of"]

SENTENCES: Final = 5
"""Sentences of one note at most."""
MOST_EPISODES: Final = 500
"""Episodes of one session or day that are looked at; the newest."""

_MOST_SENTENCES: Final = 400
_TOO_NEAR: Final = 0.85


def group_of(episode: Record, created_at: datetime) -> str:
    """The session an episode names in its attributes, else the day on which it happened."""
    if named := words.session(episode.attributes):
        return f"session {hashlib.sha256(named.encode()).hexdigest()[:32]}"
    return f"day {(episode.valid_from or created_at).astimezone(UTC).date().isoformat()}"


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence, with who said it in which episode."""

    text: str
    who: str
    episode: Record


class Summaries:
    """``least`` episodes make a note; 0: none is made."""

    def __init__(self, vectors: Vectors, least: int, languages: Languages) -> None:
        self._vectors = vectors
        self._languages = languages
        self._least = least

    @property
    def on(self) -> bool:
        return self._least > 0

    async def note(self, tx: Tx, memory_id: str, episodes: Sequence[Row]) -> None:
        """Remember which sessions and days these episodes are of, so that they are summed up."""
        found = [(group_of(record_of(row), row["created_at"]), row["created_at"]) for row in episodes]
        await tx.execute_many(
            "insert into summary_group (memory_id, group_key, first_at, last_at) values (%s, %s, %s, %s)"
            " on conflict (memory_id, group_key) do update set pending = true,"
            " first_at = least(summary_group.first_at, excluded.first_at),"
            " last_at = greatest(summary_group.last_at, excluded.last_at)",
            [(memory_id, key, at, at) for key, at in found],
        )

    async def next(self, pen: Pen, tried: Sequence[str]) -> Row | None:
        """A session or day that grew and is none of ``tried``: what has failed least first, then the oldest."""
        async with pen.database.read() as tx:
            return await tx.fetch_one(
                "select * from summary_group where memory_id = %s and pending and group_key <> all(%s)"
                " order by attempts, last_at, group_key limit 1",
                (pen.memory_id, list(tried)),
            )

    async def write(self, pen: Pen, group: Row) -> bool:
        """Its note, if there is enough to sum up. False when no vectors can be had: it stays as it is for a later run."""
        episodes = await self._episodes(pen, group)
        said = await asyncio.to_thread(_spoken, episodes) if len(episodes) >= self._least else []
        vectors = await self._vectors.of_all([one.text for one in said])
        if vectors is None:
            await self._failed(pen, group)
            return False
        chosen = _central(said, vectors) if said else []
        draft = _draft(group["group_key"], chosen) if chosen else None
        async with pen.database.begin() as tx:
            await pen.hold(tx)
            if draft is not None:
                await self._put(tx, pen, group, draft, _note_id(pen.memory_id, group["group_key"], episodes))
            await tx.execute(
                "update summary_group set pending = false, attempts = 0 where memory_id = %s and group_key = %s and last_at = %s",
                (pen.memory_id, group["group_key"], group["last_at"]),
            )
        return True

    async def _failed(self, pen: Pen, group: Row) -> None:
        async with pen.database.begin() as tx:
            await pen.hold(tx)
            await tx.execute(
                "update summary_group set attempts = attempts + 1 where memory_id = %s and group_key = %s",
                (pen.memory_id, group["group_key"]),
            )

    async def _episodes(self, pen: Pen, group: Row) -> list[Record]:
        async with pen.database.read() as tx:
            rows = await tx.fetch_all(
                sql.SQL(
                    "select {columns} from version v where memory_id = %s and invalidated_at is null"
                    " and created_at between %s and %s and type = 'episode'"
                    " order by created_at desc, record_id desc limit %s"
                ).format(columns=sql.SQL(COLUMNS)),
                (pen.memory_id, group["first_at"], group["last_at"], MOST_EPISODES),
            )
        found = [(record_of(row), row["created_at"]) for row in reversed(rows)]
        return [record for record, at in found if group_of(record, at) == group["group_key"]]

    async def _put(self, tx: Tx, pen: Pen, group: Row, draft: Draft, note_id: str) -> None:
        """Write the note in the place of the one before, unless that is somebody else's by now or was undone."""
        before = None
        if group["note_id"] is not None:
            await tx.execute(
                "select 1 from record where memory_id = %s and record_id = %s for no key update",
                (pen.memory_id, group["note_id"]),
            )
            before = await tx.fetch_one(
                "select record_id, version, written_at from version where memory_id = %s and record_id = %s"
                " and invalidated_at is null and derived and writer_kind = %s and version = 1",
                (pen.memory_id, group["note_id"], WRITER.kind),
            )
            if before is None:
                return
        text = indexed(draft, self._languages)
        known = await tx.fetch_value(
            "select exists (select from record where memory_id = %(memory)s and record_id = %(note)s) or exists"
            " (select from version where memory_id = %(memory)s and digest = %(digest)s and derived"
            " and invalidated_at is null)",
            {"memory": pen.memory_id, "note": note_id, "digest": text.digest},
        )
        if known:
            return
        at = await now(tx, pen.memory_id, None if before is None else before["written_at"])
        new = NewVersion(
            memory_id=pen.memory_id,
            record_id=note_id,
            version=1,
            draft=draft,
            text=text,
            vector=None,
            created_at=at,
            written_at=at,
            writer=WRITER,
            derived=True,
        )
        await pen.create(tx, new, before)
        await tx.execute(
            "update summary_group set note_id = %s where memory_id = %s and group_key = %s",
            (note_id, pen.memory_id, group["group_key"]),
        )


def _spoken(episodes: Sequence[Record]) -> list[_Said]:
    found = dict[tuple[str, str], _Said]()
    for episode in episodes:
        who = words.speaker(episode.content, episode.attributes)
        named = episode.written_by.kind != "harness" and who not in words.ROLES
        for text in sentences.spoken(episode.content, named=named):
            for sentence in sentences.statements(text):
                found.setdefault((who, sentence), _Said(sentence, who, episode))
    return list(found.values())[-_MOST_SENTENCES:]


def _central(said: Sequence[_Said], vectors: Sequence[Vector]) -> list[_Said]:
    """The sentences nearest to all, none too near to another that was taken; in the order they were said."""
    matrix = np.stack(vectors)
    likeness = matrix @ matrix.T
    order = np.argsort(-likeness.mean(axis=1), kind="stable")
    taken = list[int]()
    for place in order.tolist():
        if len(taken) < SENTENCES and all(likeness[place, other] < _TOO_NEAR for other in taken):
            taken.append(place)
    return [said[place] for place in sorted(taken)]


def _draft(group: str, chosen: Sequence[_Said]) -> Draft:
    lines = [
        f"{one.who}: {one.text}" if one.who and one.who not in words.ROLES else one.text for one in chosen
    ]
    sources = dict.fromkeys(one.episode.id for one in chosen)
    first = chosen[0].episode
    return Draft(
        "note",
        (Part("text", "\n".join(lines)),),
        msgspec.json.encode({"summary_of": group.partition(" ")[0]}),
        first.valid_from or first.written_at,
        None,
        tuple(Reference(DERIVED_FROM, first.memory_id, one) for one in sources),
    )


def _note_id(memory_id: str, group: str, episodes: Sequence[Record]) -> str:
    """The same for the same episodes, whichever run writes it."""
    made = hashlib.sha256("\0".join([memory_id, group, *(one.id for one in episodes)]).encode())
    return f"hrec_{made.hexdigest()[:32]}"
