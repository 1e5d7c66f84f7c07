"""Facts with a model: what it is shown, what that may cost a memory in a day, and when it is left alone.

No lock and no transaction is held while the model works. A call is paid in advance, as estimated, in one row that all
processes share, and settled when it ended.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

import msgspec
from psycopg import sql

from provider_workers.adapters.native import grounding, sentences
from provider_workers.adapters.native.chat import ChatModel, Reply, UnusableError
from provider_workers.adapters.native.endpoint import AwayError
from provider_workers.adapters.native.grounding import Asked, Known, Stated
from provider_workers.adapters.native.languages import Languages
from provider_workers.adapters.native.rows import DERIVED_FROM, Text, indexed
from provider_workers.adapters.native.vectors import Vectors, literal
from provider_workers.domain.model import Draft, Part, Record, Reference, Status
from service_kit import semconv, telemetry
from service_kit.db.pool import Database
from service_kit.db.tx import Row

__all__ = ["Found", "ModelDerivation", "WaitError"]

_MAX_AT_ONCE: Final = 8
_MAX_CHARACTERS: Final = 24_000
"""Of the episodes of one call together, and of one that is worked on at all."""
_MAX_ANSWER_TOKENS: Final = 4_000
_CHARACTERS_A_TOKEN: Final = 3
_MAX_KNOWN: Final = 24
_MAX_NAMES: Final = 3_000
_WORDS_OF_A_NAME: Final = 3
_WORD: Final = re.compile(r"\w[\w'\u2019.-]*")
_REST_S: Final = (5.0, 300.0)
_MAX_ASKED_REST_S: Final = 3_600.0
_AFTER_MIDNIGHT_S: Final = 60.0

_facts: Final = telemetry.meter(__name__).create_counter(
    semconv.GROVE_DERIVATION_FACTS, unit="{fact}", description="Facts a model stated."
)


class WaitError(Exception):
    """Nothing can be derived now: again in ``seconds``. ``counts``: the episodes may be to blame."""

    def __init__(self, why: str, seconds: float, *, counts: bool = False) -> None:
        super().__init__(why)
        self.why: str = why
        self.seconds: float = seconds
        self.counts: bool = counts


@dataclass(frozen=True, slots=True)
class Found:
    """A fact to be written, and the one it replaces if that is still as it was read."""

    draft: Draft
    text: Text
    replaces: Known | None = None


class ModelDerivation:
    """``tokens_per_day`` is what one memory may spend on one UTC day; 0: no limit."""

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        model: ChatModel,
        tokens_per_day: int,
        languages: Languages,
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._model = model
        self._tokens_per_day = tokens_per_day
        self._languages = languages
        self._unanswered = 0
        self._rests_until = 0.0

    def portion(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those of the rows that go into one call; always one, if there is one. They are of one writer and one speaker:
        what somebody says can bend how a model reads what stands beside it, which shall be their own words.
        """
        total, taken = 0, list[Row]()
        for row in (one for one in rows if _voice(one) == _voice(rows[0])):
            total += len(row["text"])
            if taken and (total > _MAX_CHARACTERS or len(taken) == _MAX_AT_ONCE):
                break
            taken.append(row)
        return taken

    async def find(self, memory_id: str, episodes: Sequence[Record]) -> Mapping[str, list[Found] | None]:
        """The facts by the episodes' ids, None for one that is too long to be worked on.

        Raises :class:`WaitError` when the budget is spent or the service is away, :class:`UnusableError` when
        the model's answer is of no use.
        """
        found: dict[str, list[Found] | None] = {one.id: [] for one in episodes}
        shown = dict[str, tuple[Record, Asked]]()
        for place, episode in enumerate(episodes, 1):
            asked = _asked(episode)
            if len(asked.text) > _MAX_CHARACTERS:
                found[episode.id] = None
            elif asked.text.strip() and episode.status is Status.ACTIVE:
                shown[f"e{place}"] = episode, asked
        if shown:
            stated = await self._ask(memory_id, {name: asked for name, (_, asked) in shown.items()})
            for name, (episode, asked) in shown.items():
                found[episode.id] = [_found(episode, asked, one, self._languages) for one in stated[name]]
        return found

    async def _ask(self, memory_id: str, episodes: Mapping[str, Asked]) -> Mapping[str, list[Stated]]:
        if (rest := self._rests_until - monotonic()) > 0:
            raise WaitError("The derivation service does not answer.", _spread(rest))
        known = await self._known(memory_id, list(episodes.values()))
        message = grounding.message(episodes, known)
        estimate = (len(grounding.SYSTEM) + len(message)) // _CHARACTERS_A_TOKEN + _MAX_ANSWER_TOKENS
        day = await self._reserve(memory_id, estimate)
        reply: Reply | None = None
        try:
            reply = await self._model.ask(grounding.SYSTEM, message, grounding.SCHEMA, _MAX_ANSWER_TOKENS)
            self._unanswered = 0
            stated, dropped = grounding.read(reply.text, episodes, known)
        except AwayError as error:
            await self._settle(memory_id, day, estimate, (0, 0))
            raise self._unheard(error) from None
        except UnusableError as error:
            self._unanswered = 0
            await self._settle(memory_id, day, estimate, error.tokens if reply is None else reply.tokens)
            raise
        kept = sum(map(len, stated.values()))
        await self._settle(memory_id, day, estimate, reply.tokens, (kept, dropped))
        return stated

    def _unheard(self, error: AwayError) -> WaitError:
        """Leave the service alone for longer each time. A failure is laid to the episodes only where the call before
        was answered and nobody asked to wait: else it says nothing about them.
        """
        counts = self._unanswered == 0 and error.wait_s is None
        own = min(_REST_S[0] * 2.0**self._unanswered, _REST_S[1])
        rest = max(own, min(error.wait_s or 0.0, _MAX_ASKED_REST_S))
        self._unanswered = min(self._unanswered + 1, 10)
        self._rests_until = monotonic() + rest
        return WaitError(error.message, _spread(rest), counts=counts)

    async def _reserve(self, memory_id: str, estimate: int) -> str:
        """Pay in advance; answers the day it was paid on. What is larger than a whole day's budget has a day to
        itself, so that nothing waits for ever.
        """
        async with self._database.begin() as tx:
            day = await tx.fetch_value(
                "insert into derivation_usage as u (memory_id, day, tokens)"
                " values (%(memory)s, (clock_timestamp() at time zone 'utc')::date, %(estimate)s)"
                " on conflict (memory_id, day) do update set tokens = u.tokens + excluded.tokens"
                " where %(budget)s = 0 or u.tokens = 0 or u.tokens + excluded.tokens <= %(budget)s"
                " returning day::text",
                {"memory": memory_id, "estimate": estimate, "budget": self._tokens_per_day},
            )
        if day is None:
            now = datetime.now(UTC)
            midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
            wait = (midnight - now).total_seconds() + random.uniform(0, _AFTER_MIDNIGHT_S)  # noqa: S311
            raise WaitError("The memory's tokens of the day are spent.", wait)
        return day

    async def _settle(
        self,
        memory_id: str,
        day: str,
        estimate: int,
        tokens: tuple[int, int],
        facts: tuple[int, int] | None = None,
    ) -> None:
        """Replace the estimate by what it was; ``facts`` kept and dropped, None when there is no answer of use."""
        kept, dropped = facts or (0, 0)
        _facts.add(kept, {semconv.GROVE_DERIVATION_OUTCOME: "grounded"})
        _facts.add(dropped, {semconv.GROVE_DERIVATION_OUTCOME: "dropped"})
        async with self._database.begin() as tx:
            await tx.execute(
                "update derivation_usage set tokens = greatest(0, tokens - %(estimate)s + %(input)s + %(output)s),"
                " calls = calls + 1, input_tokens = input_tokens + %(input)s, output_tokens = output_tokens + %(output)s,"
                " facts = facts + %(kept)s, ungrounded = ungrounded + %(dropped)s"
                " where memory_id = %(memory)s and day = %(day)s::date",
                {
                    "memory": memory_id,
                    "day": day,
                    "estimate": estimate,
                    "input": tokens[0],
                    "output": tokens[1],
                    "kept": kept,
                    "dropped": dropped,
                },
            )

    async def _known(self, memory_id: str, episodes: Sequence[Asked]) -> Mapping[str, Known]:
        """The derived facts of whom the episodes name, the nearest in meaning first, under short names."""
        vector = await self._vectors.of("\n".join(one.text for one in episodes))
        generation = self._vectors.generation.name
        near = (
            sql.SQL("e.vector <=> {}::halfvec nulls last, ").format(literal(vector))
            if vector is not None
            else None
        )
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                sql.SQL(
                    "select v.record_id, v.version, v.attributes_json ->> 'subject' as subject, v.text, v.valid_from"
                    " from version v left join embedding e on e.memory_id = v.memory_id"
                    " and e.record_id = v.record_id and e.version = v.version and e.generation = %s"
                    " where v.memory_id = %s and v.derived and v.type = 'fact' and v.invalidated_at is null"
                    " and v.attributes_json ? 'subject'"
                    " and left(lower(v.attributes_json ->> 'subject'), 200) = any(%s)"
                    " order by {}v.written_at desc, v.record_id limit %s"
                ).format(near or sql.SQL("")),
                (generation, memory_id, _names(episodes), _MAX_KNOWN),
            )
        return {
            f"f{place}": Known(
                row["record_id"], row["version"], row["subject"], row["text"], row["valid_from"]
            )
            for place, row in enumerate(rows, 1)
        }


def _voice(row: Row) -> tuple[str, str, str]:
    return row["writer_kind"], row["writer_id"], row["speaker"] or ""


def _asked(episode: Record) -> Asked:
    """What of an episode the model is shown: only what somebody says first hand."""
    who, texts = sentences.heard(episode)
    return Asked(who, episode.valid_from or episode.written_at, "\n\n".join(texts))


def _names(episodes: Sequence[Asked]) -> list[str]:
    """Whoever speaks, and whatever the texts may name: up to three words in a row, in small letters."""
    names = dict.fromkeys(one.speaker.lower() for one in episodes if one.speaker)
    for episode in episodes:
        words = _WORD.findall(episode.text.lower())
        for count in range(1, _WORDS_OF_A_NAME + 1):
            for at in range(len(words) - count + 1):
                names[" ".join(words[at : at + count]).rstrip(".")] = None
    return list(names)[:_MAX_NAMES]


def _found(episode: Record, asked: Asked, stated: Stated, languages: Languages) -> Found:
    said_by = {"speaker": asked.speaker} if asked.speaker else {}
    attributes = {**said_by, "subject": stated.subject, "kind": stated.kind, "quote": stated.quote}
    draft = Draft(
        "fact",
        (Part("text", stated.text),),
        msgspec.json.encode(attributes),
        stated.valid_from,
        stated.valid_to,
        (Reference(DERIVED_FROM, episode.memory_id, episode.id),),
    )
    return Found(draft, indexed(draft, languages), stated.replaces)


def _spread(seconds: float) -> float:
    """With jitter, so that not all who wait come back at once."""
    return seconds * random.uniform(1.0, 1.3)  # noqa: S311
