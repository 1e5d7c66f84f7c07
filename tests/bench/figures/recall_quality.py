"""How good recall is on the example's conversations, and whether it knows what it does not know.

``data/support_desk_questions.jsonl`` was written for it. ``answered`` questions name the turns that answer them,
any of which counts, as does a fact derived from one. Of the others nothing was said: ``undiscussed`` ones would
suit the memory, ``off_topic`` ones would not, ``detail`` ones ask for an unsaid detail of what was said. The
abstain threshold was chosen with those not ``held_out``; figures of abstaining are of those that are.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec
from psycopg.conninfo import make_conninfo

from provider_workers.adapters.native.embedding.files import default_model_dir
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from provider_workers.adapters.native.recall import Recall
from provider_workers.adapters.native.vectors import Vectors
from provider_workers.domain.model import Found, Question, Selection
from provider_workers.settings import Settings
from service_kit.db.pool import Database
from tests.bench.bench import Bench
from tests.bench.figure import Figure, Floor, Target
from tests.bench.http1 import Http

__all__ = ["recall_quality"]

_ROOT: Final = Path(__file__).parents[3]
_CONVERSATIONS: Final = _ROOT / "examples/support_desk/conversations.jsonl"
_QUESTIONS: Final = Path(__file__).parents[1] / "data/support_desk_questions.jsonl"
_FIRST: Final = 5
_LIMIT: Final = 8
_LOOK_S: Final = 0.2
_EMBED_S: Final = 10.0

_Line = TypeVar("_Line")
Kind = Literal["answered", "undiscussed", "off_topic", "detail"]


class _Turn(msgspec.Struct):
    conversation: str
    memory: str
    speaker: str
    role: str
    at: str
    text: str


class _Asked(msgspec.Struct, frozen=True):
    memory: str
    kind: Kind
    held_out: bool
    question: str
    turns: frozenset[str]


class _Named(msgspec.Struct):
    record_id: str


class _Attributes(msgspec.Struct):
    turn: str = ""


class _Written(msgspec.Struct):
    id: str
    attributes: _Attributes
    references: list[_Named]


class _Job(msgspec.Struct):
    id: str
    status: str
    records: list[_Written] = msgspec.field(default_factory=list[_Written])


class _Observed(msgspec.Struct):
    job: _Job


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Ids of the branches' memories, and the turns that each record tells of."""

    memories: Mapping[str, str]
    turns: Mapping[str, frozenset[str]]


async def recall_quality(bench: Bench) -> AsyncIterator[Figure]:
    """The records are written by the product; the provider's own recall is asked, because what it decides
    abstaining by does not leave it.
    """
    asked = _lines(_QUESTIONS, _Asked)
    async with bench.http() as http:
        loaded = await _load(bench, http)
    embedder = LocalEmbedder(default_model_dir(), threads=1)
    dsn = make_conninfo(bench.product.database_url, options="-c search_path=provider,extensions")
    database = await Database.open(dsn, "bench")
    try:
        recall = Recall(
            database,
            Vectors(embedder, _EMBED_S),
            abstain_below=_default_threshold(),
            answer_bytes=8 * 1024 * 1024,
        )
        for figure in await _finding(recall, loaded, asked):
            yield figure
        for scope in ("branch", "tree"):
            for figure in await _abstaining(recall, loaded, asked, scope):
                yield figure
    finally:
        await database.close()
        await embedder.aclose()


def _lines(path: Path, kind: type[_Line]) -> list[_Line]:
    return [msgspec.json.decode(line, type=kind) for line in path.read_bytes().splitlines()]


def _default_threshold() -> float:
    return float(Settings.model_fields["native_abstain_below"].default)


async def _load(bench: Bench, http: Http) -> _Loaded:
    """Each branch of the example as a memory of its own, conversation by conversation."""
    memories: dict[str, str] = {}
    talks: dict[str, list[_Turn]] = {}
    for turn in _lines(_CONVERSATIONS, _Turn):
        talks.setdefault(turn.conversation, []).append(turn)
    jobs: list[str] = []
    for name, turns in talks.items():
        branch = turns[0].memory
        if branch not in memories:
            memories[branch] = await bench.memory(http, f"Quality: {branch}")
        episodes = [
            {
                "content": turn.text,
                "role": turn.role,
                "attributes": {"speaker": turn.speaker, "turn": f"{name}/{number}"},
                "time": {"valid_from": turn.at},
            }
            for number, turn in enumerate(turns)
        ]
        path = f"/v1/memories/{memories[branch]}"
        observed = (await http.post(f"{path}/observe", {"episodes": episodes})).ok()
        jobs.append(f"{path}/jobs/{msgspec.json.decode(observed, type=_Observed).job.id}")
    told: dict[str, frozenset[str]] = {}
    for job in jobs:
        for record in await _finished(http, job):
            sources = [told.get(source.record_id, frozenset[str]()) for source in record.references]
            own = {record.attributes.turn} - {""}
            told[record.id] = told.get(record.id, frozenset()).union(own, *sources)
    return _Loaded(memories, told)


async def _finished(http: Http, job: str) -> list[_Written]:
    """What the job wrote, episodes first, once it has ended."""
    while True:
        state = msgspec.json.decode((await http.get(job)).ok(), type=_Job)
        if state.status == "failed":
            raise RuntimeError("nothing was derived")
        if state.status == "completed":
            return sorted(state.records, key=lambda record: bool(record.references))
        await asyncio.sleep(_LOOK_S)


async def _finding(recall: Recall, loaded: _Loaded, asked: Sequence[_Asked]) -> list[Figure]:
    """All answered questions: nothing of ranking was chosen with any of them."""
    places: list[int | None] = []
    by_words: list[int | None] = []
    for one in asked:
        if one.kind == "answered":
            memory = [loaded.memories[one.memory]]
            places.append(_place(loaded, one, await recall.recall(memory, _question(query=one.question))))
            by_words.append(_place(loaded, one, await recall.recall(memory, _question(text=one.question))))
    note = f"{len(places)} questions, each of its own memory"
    return [
        Figure(
            "recall_quality.first_five",
            "answer among the first 5",
            "of 1",
            _first(places),
            floor=Floor("words alone", _first(by_words), ()),
            target=Target("value", ">=", 0.7),
            note=note,
        ),
        Figure(
            "recall_quality.mrr",
            "mean reciprocal rank of the answer",
            "of 1",
            _mrr(places),
            floor=Floor("words alone", _mrr(by_words), ()),
            target=Target("value", ">=", 0.6),
            note=note,
        ),
    ]


def _question(*, query: str = "", text: str = "") -> Question:
    return Question(Selection(), query=query, text=text, limit=_LIMIT)


def _place(loaded: _Loaded, one: _Asked, found: Found) -> int | None:
    for place, hit in enumerate(found.hits, start=1):
        if loaded.turns.get(hit.record.id, frozenset[str]()) & one.turns:
            return place
    return None


def _first(places: Sequence[int | None]) -> float:
    return sum(place is not None and place <= _FIRST for place in places) / len(places)


def _mrr(places: Sequence[int | None]) -> float:
    return sum(1 / place for place in places if place is not None) / len(places)


async def _abstaining(
    recall: Recall, loaded: _Loaded, asked: Sequence[_Asked], scope: Literal["branch", "tree"]
) -> list[Figure]:
    """Questions kept out of the choice, asked of their branch or of all branches together."""
    found: dict[Kind, list[Found]] = {}
    for one in asked:
        if one.held_out:
            memories = [loaded.memories[one.memory]] if scope == "branch" else list(loaded.memories.values())
            answer = await recall.recall(memories, _question(query=one.question))
            found.setdefault(one.kind, []).append(answer)
    answered = found["answered"]
    unanswered = found["undiscussed"] + found["off_topic"]
    where = "its branch" if scope == "branch" else "the whole tree"
    shares = ", ".join(
        f"{kind} {_answers(found[kind]):.2f}" for kind in ("undiscussed", "off_topic", "detail")
    )
    return [
        Figure(
            f"recall_quality.auroc.{scope}",
            f"evidence tells answered from not, {where}",
            "AUROC",
            _auroc(answered, unanswered),
            floor=Floor("chance", 0.5, ()),
            target=Target("value", ">=", 0.95),
            note=f"{len(answered)} answered, {len(unanswered)} not",
        ),
        Figure(
            f"recall_quality.false_abstentions.{scope}",
            f"answered questions abstained from, {where}",
            "of 1",
            1 - _answers(answered),
            target=Target("value", "<=", 0.1),
        ),
        Figure(
            f"recall_quality.false_answers.{scope}",
            f"unanswered questions not abstained from, {where}",
            "of 1",
            _answers(unanswered),
            target=Target("value", "<=", 0.1),
            note=f"{shares} (detail is not in the figure)",
        ),
    ]


def _answers(found: Sequence[Found]) -> float:
    """The share not abstained from."""
    return sum(not one.abstain for one in found) / len(found)


def _auroc(answered: Sequence[Found], unanswered: Sequence[Found]) -> float:
    """How often an answered question has more evidence than another; a tie counts half."""
    won = [
        (one.evidence > other.evidence) + 0.5 * (one.evidence == other.evidence)
        for one in answered
        for other in unanswered
    ]
    return sum(won) / len(won)
