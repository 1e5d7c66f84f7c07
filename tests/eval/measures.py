"""What the figures are computed by. Everything is a share of 1."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log2
from statistics import mean

import numpy as np

__all__ = ["auroc", "confidence", "of_question", "threshold"]

_RESAMPLES = 2000


def of_question(found: Sequence[str], wanted: frozenset[str], session: Mapping[str, str]) -> dict[str, float]:
    """Figures of one question: turns found, in order and once each, against the turns that answer it."""
    sessions = list(dict.fromkeys(session[turn] for turn in found))
    right = {session[turn] for turn in wanted}
    gain = sum(1 / log2(place + 2) for place, one in enumerate(sessions[:5]) if one in right)
    best = sum(1 / log2(place + 2) for place in range(min(5, len(right))))
    return {
        **{f"r{k}": len(wanted.intersection(found[:k])) / len(wanted) for k in (5, 10, 50)},
        "session_hit1": float(bool(sessions) and sessions[0] in right),
        "session_ndcg5": gain / best,
    }


def confidence(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean, by resampling the values, always the same way."""
    drawn = np.random.default_rng(0).choice(np.asarray(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def auroc(answered: Sequence[float], others: Sequence[float]) -> float:
    """How often an answered question has more evidence than another; a tie counts half."""
    ordered = np.sort(np.asarray(others))
    below = np.searchsorted(ordered, np.asarray(answered), "left")
    to = np.searchsorted(ordered, np.asarray(answered), "right")
    return float(((below + to) / 2).mean() / len(others))


def threshold(answered: Iterable[float], others: Iterable[float]) -> float:
    """Where the mean of both errors is least; evidence below it abstains."""
    yes, no = np.sort(np.asarray(list(answered))), np.sort(np.asarray(list(others)))
    values = sorted({*yes.tolist(), *no.tolist()})
    cuts = [values[0], *(mean(pair) for pair in pairwise(values)), values[-1] + 1e-9]
    wrong = np.searchsorted(yes, cuts) / len(yes) + 1 - np.searchsorted(no, cuts) / len(no)
    return float(cuts[int(np.argmin(wrong))])
