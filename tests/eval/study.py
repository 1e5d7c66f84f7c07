"""The evaluation itself: every question of its own memory, then what its memory cannot answer."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np

from tests.e2e.caller import Caller
from tests.eval.asking import Answer, Derivation, Loaded, ask, load
from tests.eval.dataset import Conversation, Question
from tests.eval.measures import auroc, confidence, of_question, threshold
from tests.eval.off_topic import OFF_TOPIC

__all__ = ["METRICS", "Study"]

METRICS: Final = ("r5", "r10", "r50", "session_hit1", "session_ndcg5")
_UNANSWERABLE: Final = "adversarial"


@dataclass(slots=True)
class Study:
    """Answers by kind and conversation."""

    caller: Caller
    derivation: Derivation
    talks: Sequence[Conversation]
    scores: list[tuple[str, str, dict[str, float]]] = field(
        default_factory=list[tuple[str, str, dict[str, float]]]
    )
    answers: dict[str, dict[str, list[Answer]]] = field(default_factory=dict[str, dict[str, list[Answer]]])

    def run(self) -> dict[str, Any]:
        """Load and ask; the report, as JSON."""
        loaded = [load(self.caller, talk, self.derivation) for talk in self.talks]
        for at, (talk, memory) in enumerate(zip(self.talks, loaded, strict=True)):
            sys.stderr.write(f"asking of {talk.name}\n")
            self._own(talk, memory)
            strangers = self.talks[(at + 1) % len(self.talks)]
            if strangers is not talk:
                self._keep("elsewhere", talk, memory, (one.text for one in _answerable(strangers)))
            self._keep("wrong_person", talk, memory, _swapped(talk))
            self._keep("off_topic", talk, memory, OFF_TOPIC)
        return self._report()

    def _own(self, talk: Conversation, memory: Loaded) -> None:
        session = {turn.id: turn.session for turn in talk.turns}
        for one in talk.questions:
            answer = ask(self.caller, memory, one.text, self.derivation)
            kind = _UNANSWERABLE if one.kind == _UNANSWERABLE else "answered"
            self.answers.setdefault(kind, {}).setdefault(talk.name, []).append(answer)
            if one.turns:
                self.scores.append((one.kind, talk.name, of_question(answer.turns, one.turns, session)))

    def _keep(self, kind: str, talk: Conversation, memory: Loaded, questions: Iterable[str]) -> None:
        kept = self.answers.setdefault(kind, {}).setdefault(talk.name, [])
        kept.extend(ask(self.caller, memory, text, self.derivation) for text in questions)

    def _report(self) -> dict[str, Any]:
        kinds = ["all", *sorted({kind for kind, _, _ in self.scores})]
        every = [one for by in self.answers.values() for answers in by.values() for one in answers]
        ms = [one.ms for one in every]
        return {
            "derivation": self.derivation,
            "conversations": [talk.name for talk in self.talks],
            "turns": sum(len(talk.turns) for talk in self.talks),
            "evidence_ids_dropped": sum(talk.dropped for talk in self.talks),
            "found": {kind: self._found(kind) for kind in kinds},
            "abstain": {
                kind: _abstaining(self.answers["answered"], by)
                for kind, by in self.answers.items()
                if kind != "answered" and any(by.values())
            },
            "cost": {
                "questions": len(ms),
                "ms_p50": float(np.percentile(ms, 50)),
                "ms_p99": float(np.percentile(ms, 99)),
                "degraded": sum(one.degraded for one in every),
                "without_evidence_score": sum(not one.explained for one in every),
            },
        }

    def _found(self, kind: str) -> dict[str, Any]:
        mine = [(name, score) for of, name, score in self.scores if kind in ("all", of)]
        figures: dict[str, Any] = {"questions": len(mine)}
        for metric in METRICS:
            values = [score[metric] for _, score in mine]
            by_talk: dict[str, list[float]] = {}
            for name, score in mine:
                by_talk.setdefault(name, []).append(score[metric])
            means = [float(np.mean(one)) for one in by_talk.values()]
            figures[metric] = {
                "value": float(np.mean(values)),
                "ci95": confidence(values),
                "conversations": [min(means), max(means)],
            }
        return figures


def _answerable(talk: Conversation) -> Iterable[Question]:
    return (one for one in talk.questions if one.kind != _UNANSWERABLE and one.turns)


def _swapped(talk: Conversation) -> list[str]:
    """Answerable questions that name exactly one speaker, asked about the other."""
    if len(talk.speakers) != 2:
        return []
    made: list[str] = []
    for one in _answerable(talk):
        named = [name for name in talk.speakers if name in one.text]
        if len(named) == 1:
            other = talk.speakers[talk.speakers[0] == named[0]]
            made.append(one.text.replace(named[0], other))
    return made


def _abstaining(answered: Mapping[str, list[Answer]], others: Mapping[str, list[Answer]]) -> dict[str, Any]:
    """Held out: the threshold for a conversation is chosen with the others alone."""
    yes = {name: [one.evidence for one in answers] for name, answers in answered.items()}
    no = {name: [one.evidence for one in answers] for name, answers in others.items() if answers}
    each = [auroc(yes[name], values) for name, values in no.items()]
    wrongly: list[bool] = []
    rightly: list[bool] = []
    if len(no) > 1:
        for name, unanswerable in no.items():
            rest_yes = [value for other in no if other != name for value in yes[other]]
            rest_no = [value for other in no if other != name for value in no[other]]
            cut = threshold(rest_yes, rest_no)
            wrongly += [value < cut for value in yes[name]]
            rightly += [value < cut for value in unanswerable]
    return {
        "questions": sum(map(len, no.values())),
        "auroc_by_conversation": float(np.mean(each)),
        "auroc_conversations": [min(each), max(each)],
        "auroc_pooled": auroc(list(chain(*yes.values())), list(chain(*no.values()))),
        "held_out": _rates(wrongly, rightly) if wrongly else None,
        "as_shipped": _rates(
            [one.abstain for answers in answered.values() for one in answers],
            [one.abstain for answers in others.values() for one in answers],
        ),
    }


def _rates(wrongly: Sequence[bool], rightly: Sequence[bool]) -> dict[str, float]:
    return {"answered_abstained": float(np.mean(wrongly)), "unanswerable_abstained": float(np.mean(rightly))}
