"""Whether what was found answers the question; nothing here knows of a database.

Two questions, each a small calibrated model (``docs/decisions/0011-recall.md``): was this talked about at all, and was it said
by or of the one the question names? The answer's evidence is the lesser of both.
"""

from dataclasses import dataclass
from math import exp
from typing import Final

import numpy as np
from numpy.typing import NDArray

from provider_workers.adapters.native import words
from provider_workers.adapters.native.signals import Pool, Scores, Signals, normalised

__all__ = ["About", "Judged", "judge", "named"]

_TOP: Final = 5
_ENDINGS: Final = 3
_EVEN: Final = 0.5


@dataclass(frozen=True, slots=True)
class About:
    """What a question asks for: its words, each as its lexemes, in the order they are counted in; the subjects it
    names; the words of the time it names.
    """

    words: tuple[tuple[str, ...], ...]
    subjects: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()

    def are(self, said: frozenset[str]) -> NDArray[np.bool_]:
        """Which of its words are among these."""
        return np.array(
            [any(_stem_of(form, one) for form in forms for one in said) for forms in self.words], np.bool_
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """``evidence`` is 0 to 1; ``reason`` says what it lacks most, should it be too little."""

    evidence: float
    reason: str = "below_confidence"


def named(pool: Pool, query: str) -> frozenset[str]:
    """Speakers and subjects of the candidates that a query names; none when it names all there are."""
    asked = words.names(query)
    known = frozenset(one.said_by for one in pool.candidates if one.said_by)
    found = frozenset(one for one in known if words.names(one) & asked)
    return frozenset() if found == known else found


def judge(signals: Signals, asked: About) -> Judged:
    """Of a query's signals."""
    if not signals.pool.candidates:
        return Judged(0.0)
    talked = _talked_about(signals, asked)
    about = _about_subject(signals, asked) if asked.subjects else 1.0
    if about < min(talked, _EVEN):
        return Judged(about, "subject_mismatch")
    outside = signals.has_window and not signals.time.any()
    return Judged(min(talked, about), "outside_time" if outside else "below_confidence")


def _talked_about(signals: Signals, asked: About) -> float:
    """From the best cosine, the shares of the query's rarity in one record and in it with its neighbours, and the
    share that is nowhere. What happened at the time asked for has the words of that time.
    """
    rarity, cosine = signals.pool.query.rarity, _best(signals.meaning)
    if not len(rarity):
        return 0.0 if cosine is None else _logistic(8.7 * cosine - 3.3)
    whole = float(rarity.sum())
    dated = np.outer(signals.time, asked.are(asked.dates))
    covered = float((np.maximum(signals.holds, dated) @ rarity).max()) / whole
    near = float((np.maximum(signals.near, dated) @ rarity).max()) / whole
    nowhere = (np.asarray(signals.pool.query.holding) == 0) & ~dated.any(0)
    unseen = float(rarity[nowhere].sum()) / whole
    if cosine is None:
        return _logistic(3.3 * covered + 3.6 * near - 2.4 * unseen - 1.9)
    return _logistic(8.7 * cosine + 2.0 * covered + 3.9 * near - 1.7 * unseen - 6.25)


def _about_subject(signals: Signals, asked: About) -> float:
    """From how much better those named do than others, by meaning and by what is asked of them, and their share of
    the best. 1 where nobody else is there to compare with.
    """
    theirs = signals.subject > 0
    if theirs.all() or not theirs.any():
        return 1.0
    rest = _rest(signals, asked)
    meaning = np.nan_to_num(signals.meaning)
    top = np.argsort(-(normalised(rest) + normalised(meaning)), kind="stable")[:_TOP]
    return _logistic(
        -5.5 * float(meaning[theirs].max() - meaning[~theirs].max())
        + 3.7 * float(rest[theirs].max() - rest[~theirs].max())
        + 3.1 * float(theirs[top].mean())
        - 1.5
    )


def _rest(signals: Signals, asked: About) -> Scores:
    """The share each candidate has of the query's words without those that are names."""
    names = frozenset(name for one in asked.subjects for name in words.names(one))
    rarity = signals.pool.query.rarity * ~asked.are(names)
    return signals.holds @ rarity / max(float(rarity.sum()), 1e-9)


def _stem_of(lexeme: str, name: str) -> bool:
    """A stemmer cuts an end off, or makes an ``i`` of a ``y``."""
    begun = name.startswith(lexeme) and len(name) - len(lexeme) <= _ENDINGS
    return begun or (lexeme.endswith("i") and name == lexeme[:-1] + "y")


def _best(scores: Scores) -> float | None:
    known = scores[~np.isnan(scores)]
    return float(known.max()) if len(known) else None


def _logistic(value: float) -> float:
    return 1 / (1 + exp(-value))
