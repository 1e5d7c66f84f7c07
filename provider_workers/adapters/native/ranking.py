"""From the scores of each signal to one ranking; nothing here knows of a database.

Every candidate has its true score on every signal that was asked. Scores are made comparable within one question by
their distance from the mean in standard deviations, and summed: that measured better than adding up ranks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from provider_workers.adapters.native.signals import Candidate, Scores, Signals, normalised, with_keys

__all__ = ["SIGNALS", "Asked", "Ranked", "rank"]

SIGNALS: Final = ("words", "meaning", "neighbours", "session", "subject", "time", "keys")
"""What may be left out of a ranking, to see what it is worth."""

_WEIGHTS: Final = {"words": 1.0, "meaning": 1.0, "session": 0.5}
_SUBJECT: Final = 0.3
_TIME: Final = 0.5
_TEXT: Final = 2.0
"""As much as words and meaning together."""
_KEYS: Final = 0.75
"""How much of its keys' meaning an episode takes: a sentence that fits best may be of another talk."""
_BELOW: Final = 0.999


@dataclass(frozen=True, slots=True)
class Asked:
    """Which signals a question has. ``without`` are those of :data:`SIGNALS` that do not count."""

    query: bool
    text: bool
    filters: bool
    without: frozenset[str] = frozenset()

    def weight(self, name: str, weight: float) -> float:
        """0 for what is left out."""
        return 0.0 if name in self.without else weight


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place. ``score`` is 0 to 1; ``signals`` are what it was made of, by their names."""

    candidate: Candidate
    score: float
    why: tuple[str, ...]
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


def rank(signals: Signals, asked: Asked) -> list[Ranked]:
    """The best first; of equal ones what is current, then the newest. What no signal found is left out.

    A fact is a key to the episode it was derived from: the episode is found by what the fact says too, and of both
    one takes the place and the other comes after everything else, or nowhere when it only repeats it. A version that was closed stays below the one
    that replaced it.
    """
    candidates = signals.pool.candidates
    if not candidates:
        return []
    if not (asked.query or asked.text):
        ranked = [Ranked(one, 1.0, ("filters",)) for one in candidates]
        return sorted(ranked, key=lambda one: one.candidate.created_at, reverse=True)
    own = _parts(signals, asked, keyed=False)
    keyed = _parts(signals, asked, keyed=True)
    scores = _capped(candidates, _scores(keyed))
    ranked = [
        Ranked(one, float(scores[at]), _why(signals, asked, keyed, at), _told(signals, asked, at))
        for at, one in enumerate(candidates)
    ]
    return _ordered(signals, ranked, np.sum(list(own.values()), axis=0))


def _parts(signals: Signals, asked: Asked, *, keyed: bool) -> dict[str, Scores]:
    """What is summed, by signal. ``keyed``: an episode has what its keys lend it."""
    parts = dict[str, Scores]()
    if asked.query:
        raw = {
            "words": signals.words_by_keys if keyed else signals.words,
            "meaning": _meant(signals) if keyed else signals.meaning,
            "session": signals.session,
        }
        for name, weight in _WEIGHTS.items():
            parts[name] = asked.weight(name, weight) * normalised(raw[name], signals.no_keys)
        parts["subject"] = asked.weight("subject", _SUBJECT) * signals.subject
        time = with_keys(signals.time, signals.pool.keys) if keyed else signals.time
        parts["time"] = asked.weight("time", _TIME) * time
    if asked.text:
        text = with_keys(signals.text, signals.pool.keys) if keyed else signals.text
        parts["text"] = _TEXT * normalised(text, signals.no_keys)
    return parts


def _meant(signals: Signals) -> Scores:
    """The better of an episode's own meaning and its keys', drawn a little to its own."""
    best = with_keys(signals.meaning, signals.pool.keys)
    own = np.where(np.isnan(signals.meaning), best, signals.meaning)
    return own + _KEYS * (best - own)


def _scores(parts: Mapping[str, Scores]) -> Scores:
    """The sums, on a scale from what would be lowest on every signal to what would be highest."""
    total = np.sum(list(parts.values()), axis=0)
    low = sum(float(part.min()) for part in parts.values())
    high = sum(float(part.max()) for part in parts.values())
    return np.ones(len(total)) if high - low < 1e-9 else (total - low) / (high - low)


def _capped(candidates: Sequence[Candidate], scores: Scores) -> Scores:
    """Cap what was closed by what is current of the same record, or of the record that took its place."""
    best = dict[tuple[str, str], float]()
    for one, score in zip(candidates, scores, strict=True):
        memory_id, record_id, _ = one.key
        if one.current:
            for replaced in {record_id, one.supersedes} - {""}:
                best[memory_id, replaced] = min(float(score), best.get((memory_id, replaced), 1.0))
    return np.array(
        [
            score if one.current else min(score, best.get(one.key[:2], 1.0) * _BELOW)
            for one, score in zip(candidates, scores, strict=True)
        ]
    )


def _why(signals: Signals, asked: Asked, parts: Mapping[str, Scores], at: int) -> tuple[str, ...]:
    one = signals.pool.candidates[at]
    by_text = asked.text and any(one.text)
    by_meaning = one.cosine is not None and (not by_text or parts["meaning"][at] > 0)
    found = {
        "query": asked.query and (any(one.words) or by_meaning),
        "text": by_text,
    }
    why = tuple(name for name, holds in found.items() if holds)
    return (*why, "filters") if why and asked.filters else why


def _told(signals: Signals, asked: Asked, at: int) -> dict[str, float]:
    """The scores themselves, before they are made comparable."""
    names = ([*_WEIGHTS, "subject", "time"] if asked.query else []) + (["text"] if asked.text else [])
    told = {name: float(getattr(signals, name)[at]) for name in names}
    return {name: round(value, 6) for name, value in told.items() if not np.isnan(value)}


def _ordered(signals: Signals, ranked: Sequence[Ranked], own: Scores) -> list[Ranked]:
    """In order, an episode and its keys in one place; those it was taken from come last."""
    groups = dict[int, list[int]]()
    for fact, source in sorted(signals.pool.keys, key=lambda pair: -own[pair[1]]):
        if ranked[fact].why and ranked[source].why and not any(fact in facts for facts in groups.values()):
            groups.setdefault(source, []).append(fact)
    place, later, twins = dict[int, int](), set[int](), set[int]()
    for source, facts in groups.items():
        stated = [fact for fact in facts if not ranked[fact].candidate.derived and own[fact] > own[source]]
        shown = max(stated, key=lambda fact: own[fact], default=source)
        place[shown] = source
        later |= {at for at in (source, *facts) if at != shown}
        twins |= {at for at in facts if at != shown and _repeats(ranked[at], ranked[source])}
    first = [
        replace(one, score=ranked[place.get(at, at)].score)
        for at, one in enumerate(ranked)
        if one.why and at not in later
    ]
    first.sort(key=_key, reverse=True)
    lowest = first[-1].score if first else 1.0
    rest = [replace(ranked[at], score=min(ranked[at].score, lowest)) for at in later - twins]
    return first + sorted(rest, key=_key, reverse=True)


def _repeats(fact: Ranked, source: Ranked) -> bool:
    """Whether a derived fact is its episode over again: a sentence as long as the whole is it."""
    one, other = fact.candidate, source.candidate
    return one.derived and (one.digest == other.digest or one.size == other.size > 0)


def _key(one: Ranked) -> tuple[object, ...]:
    return one.score, one.candidate.current, one.candidate.created_at
