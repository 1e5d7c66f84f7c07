"""Conversations and the questions asked of them, whichever set they come from."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import msgspec

__all__ = ["Conversation", "Note", "Observation", "Question", "Turn", "locomo", "own", "support_desk"]

_TURN_ID: Final = re.compile(r"D(\d+):(\d+)")
_DATE: Final = "%I:%M %p on %d %B, %Y"
_KINDS: Final = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance. ``at`` is an RFC 3339 instant."""

    id: str
    session: str
    speaker: str
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What the data set itself says was learnt about ``speaker`` from ``turns``."""

    speaker: str
    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A fact somebody wrote down: anew, as a revision of the record of a note, or superseding that record."""

    id: str
    speaker: str
    at: str
    text: str
    revises: str | None = None
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """``turns`` (of turns or notes) are those that answer it, ``stale`` those that no longer do."""

    kind: str
    text: str
    turns: frozenset[str]
    stale: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one memory holds, in order, and what it is asked. ``dropped`` counts ids that name no turn."""

    name: str
    speakers: tuple[str, ...]
    turns: tuple[Turn, ...]
    observations: tuple[Observation, ...]
    questions: tuple[Question, ...]
    dropped: int = 0
    notes: tuple[Note, ...] = ()


def locomo(path: Path, *, captions: bool = True) -> list[Conversation]:
    """LoCoMo-10 from its file, in its order. ``captions`` appends what a shared photo shows."""
    raw = cast("list[dict[str, Any]]", msgspec.json.decode(path.read_bytes()))
    return [_conversation(one, captions) for one in raw]


class _Line(msgspec.Struct):
    """A line of the project's own set: a turn or a note, else a question."""

    talk: str
    id: str = ""
    speaker: str = ""
    at: str = ""
    text: str = ""
    note: bool = False
    revises: str | None = None
    supersedes: str | None = None
    kind: str = ""
    question: str = ""
    turns: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()


class _DeskTurn(msgspec.Struct):
    conversation: str
    memory: str
    speaker: str
    at: str
    text: str


class _DeskQuestion(msgspec.Struct):
    memory: str
    kind: str
    question: str
    turns: frozenset[str]


def own(path: Path) -> list[Conversation]:
    """The project's own set, where any of a question's ``turns`` answers it."""
    talks: dict[str, list[_Line]] = {}
    for raw in path.read_bytes().splitlines():
        line = msgspec.json.decode(raw, type=_Line)
        talks.setdefault(line.talk, []).append(line)
    return [_own(name, lines) for name, lines in talks.items()]


def _own(name: str, lines: list[_Line]) -> Conversation:
    turns = tuple(
        Turn(one.id, one.at, one.speaker, one.at, one.text) for one in lines if one.id and not one.note
    )
    notes = tuple(
        Note(one.id, one.speaker, one.at, one.text, one.revises, one.supersedes) for one in lines if one.note
    )
    asked = tuple(Question(one.kind, one.question, one.turns, one.stale) for one in lines if one.kind)
    return Conversation(name, tuple({one.speaker for one in turns}), turns, (), asked, notes=notes)


def support_desk(conversations: Path, questions: Path) -> list[Conversation]:
    """The example's conversations, those of one memory together, and the questions written for them."""
    turns: dict[str, list[Turn]] = {}
    told: dict[str, int] = {}
    for raw in conversations.read_bytes().splitlines():
        one = msgspec.json.decode(raw, type=_DeskTurn)
        place = told[one.conversation] = told.get(one.conversation, -1) + 1
        turn = Turn(f"{one.conversation}/{place}", one.conversation, one.speaker, one.at, one.text)
        turns.setdefault(one.memory, []).append(turn)
    asked: dict[str, list[Question]] = {}
    for raw in questions.read_bytes().splitlines():
        line = msgspec.json.decode(raw, type=_DeskQuestion)
        asked.setdefault(line.memory, []).append(Question(f"desk_{line.kind}", line.question, line.turns))
    return [
        Conversation(name, tuple({one.speaker for one in said}), tuple(said), (), tuple(asked.get(name, ())))
        for name, said in turns.items()
    ]


def _conversation(raw: dict[str, Any], captions: bool) -> Conversation:
    talk = cast("dict[str, Any]", raw["conversation"])
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    turns = tuple(turn for number in numbers for turn in _session(talk, number, captions))
    known = frozenset(turn.id for turn in turns)
    questions: list[Question] = []
    dropped = 0
    for asked in cast("list[dict[str, Any]]", raw["qa"]):
        ids, unknown = _ids(cast("list[str]", asked.get("evidence", [])), known)
        dropped += unknown
        questions.append(Question(_KINDS[int(asked["category"])], str(asked["question"]), ids))
    return Conversation(
        name=str(raw["sample_id"]),
        speakers=(str(talk["speaker_a"]), str(talk["speaker_b"])),
        turns=turns,
        observations=tuple(_observations(cast("dict[str, Any]", raw["observation"]), known)),
        questions=tuple(questions),
        dropped=dropped,
    )


def _session(talk: dict[str, Any], number: int, captions: bool) -> list[Turn]:
    at = datetime.strptime(str(talk[f"session_{number}_date_time"]), _DATE).replace(tzinfo=UTC).isoformat()
    made: list[Turn] = []
    for raw in cast("list[dict[str, str]]", talk[f"session_{number}"]):
        text = raw["text"]
        if captions and raw.get("blip_caption"):
            text = f"{text} [shares a photo: {raw['blip_caption']}]".strip()
        made.append(Turn(raw["dia_id"], f"session_{number}", raw["speaker"], at, text or "(no words)"))
    return made


def _ids(written: list[str], known: frozenset[str]) -> tuple[frozenset[str], int]:
    """Several ids in one string are taken apart and leading zeros go; what names no turn is counted."""
    found: set[str] = set()
    unknown = 0
    for text in written:
        ids = {f"D{int(session)}:{int(turn)}" for session, turn in _TURN_ID.findall(text)}
        found |= ids & known
        unknown += len(ids - known) + (not ids)
    return frozenset(found), unknown


def _observations(raw: dict[str, Any], known: frozenset[str]) -> list[Observation]:
    made: list[Observation] = []
    for by_speaker in cast("dict[str, dict[str, list[list[Any]]]]", raw).values():
        for speaker, learnt in by_speaker.items():
            for text, source in learnt:
                written = cast("list[str]", source) if isinstance(source, list) else [str(source)]
                ids, _ = _ids(written, known)
                made.append(Observation(speaker, str(text), tuple(sorted(ids))))
    return made
