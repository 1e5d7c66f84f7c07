"""Writing conversations into a product and asking it, over HTTP as any client does."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from tests.e2e.caller import Caller, Json
from tests.eval.dataset import Conversation

__all__ = ["Answer", "Derivation", "Loaded", "ask", "load"]

_LIMIT: Final = 50
_JOB_S: Final = 600.0
_LOOK_S: Final = 0.1

Derivation = Literal["none", "rules", "observations"]
"""``none`` leaves facts out of the answer, ``observations`` remembers the data set's own as facts."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A conversation's memory, and the turns each of its records tells of."""

    memory: str
    turns: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Answer:
    """Turns in order of first appearance; ``evidence`` is 0 or 1 where the product gives no number."""

    turns: tuple[str, ...]
    evidence: float
    explained: bool
    abstain: bool
    degraded: bool
    ms: float


def load(caller: Caller, talk: Conversation, derivation: Derivation) -> Loaded:
    """One memory; one observe for each session; waits until all that follows from it is written."""
    memory = str(caller.post("/v1/memories", {"name": f"Evaluation: {talk.name}"})["id"])
    path = f"/v1/memories/{memory}"
    told: dict[str, tuple[str, ...]] = {}
    by_turn: dict[str, str] = {}
    for _, session in groupby(talk.turns, key=lambda turn: turn.session):
        episodes = [
            {
                "content": turn.text,
                "role": "user",
                "attributes": {"speaker": turn.speaker, "session": turn.session, "turn": turn.id},
                "time": {"valid_from": turn.at},
            }
            for turn in session
        ]
        answer = caller.post(f"{path}/observe", {"episodes": episodes})
        records: list[Json] = (
            _finished(caller, f"{path}/jobs/{answer['job']['id']}") if "job" in answer else answer["records"]
        )
        for record in sorted(records, key=lambda one: bool(one["references"])):
            turn = record["attributes"].get("turn")
            sources = [known for one in record["references"] for known in told.get(one["record_id"], ())]
            told[record["id"]] = (turn,) if turn else tuple(dict.fromkeys(sources))
            if record["type"] == "episode":
                by_turn[turn] = record["id"]
    if derivation == "observations":
        for seen in talk.observations:
            body: Json = {
                "type": "fact",
                "content": seen.text,
                "attributes": {"speaker": seen.speaker},
                "references": [
                    {"rel": "derived_from", "memory_id": memory, "record_id": by_turn[turn]}
                    for turn in seen.turns
                ],
            }
            told[str(caller.post(f"{path}/records", body)["id"])] = seen.turns
    _note(caller, path, talk, told)
    return Loaded(memory, told)


def _note(caller: Caller, path: str, talk: Conversation, told: dict[str, tuple[str, ...]]) -> None:
    """A revised record tells of its revision alone: its older version has no place in an answer."""
    written: dict[str, str] = {}
    for note in talk.notes:
        body: Json = {"content": note.text, "time": {"valid_from": note.at}}
        if note.revises:
            record = written[note.revises]
            caller.call("PATCH", f"{path}/records/{record}", body)
        else:
            body |= {"type": "fact", "attributes": {"speaker": note.speaker}}
            if note.supersedes:
                body["supersedes"] = written[note.supersedes]
            record = str(caller.post(f"{path}/records", body)["id"])
        written[note.id] = record
        told[record] = (note.id,)


def _finished(caller: Caller, job: str) -> list[Json]:
    until = time.monotonic() + _JOB_S
    while time.monotonic() < until:
        state = caller.get(job)
        if state["status"] == "completed":
            return list(state["records"])
        if state["status"] == "failed":
            raise RuntimeError(f"a derivation failed: {state}")
        time.sleep(_LOOK_S)
    raise TimeoutError(job)


def ask(caller: Caller, loaded: Loaded, question: str, derivation: Derivation) -> Answer:
    """One recall, timed from its sending to its last byte."""
    body: Json = {"query": question, "limit": _LIMIT, "explain": True}
    if derivation == "none":
        body["types"] = ["episode"]
    began = time.perf_counter()
    answer = caller.post(f"/v1/memories/{loaded.memory}/recall", body)
    ms = (time.perf_counter() - began) * 1000
    found = (turn for one in answer["results"] for turn in loaded.turns.get(one["record"]["id"], ()))
    evidence = answer.get("evidence")
    abstain = bool(answer.get("abstain", False))
    return Answer(
        turns=tuple(dict.fromkeys(found)),
        evidence=float(evidence["score"]) if evidence else float(not abstain),
        explained=bool(evidence),
        abstain=abstain,
        degraded=bool(answer.get("degraded")),
        ms=ms,
    )
