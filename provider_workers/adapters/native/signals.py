"""What each candidate of a recall scores on each signal; nothing here knows of a database.

Words are counted as BM25 does, over a record and its neighbours in the conversation, the nearer the more: an
answer often lies beside the words of the question. What that and the weights are worth is in
``docs/decisions/0011-recall.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Candidate",
    "Counted",
    "Key",
    "Pool",
    "Scores",
    "Signals",
    "bits",
    "key_pairs",
    "normalised",
    "with_keys",
]

Key = tuple[str, str, int]
"""Memory id, record id, version."""
Scores = NDArray[np.float64]
"""One number for each candidate."""

_K1: Final = 0.5
_B: Final = 0.3
_SESSION_K1: Final = 0.9
_NEAR: Final = (0.5, 0.25)
"""How much the words of the next and of the second next neighbour count."""
_PER_MASK: Final = 60
_MAX_SOURCES: Final = 3
_LONG: Final = 2_000
_ALIKE: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A version that may be answered. ``cosine`` None: it has no vector yet. ``words`` and ``text`` are the words
    of the query and of the text that it has, a bit for each, 60 to a number.

    ``said_by`` is its speaker or subject, ``session`` the conversation it is of ("": none), ``length`` the number of
    its different words, ``size`` that of its text's bytes, ``sources`` what it was derived from, as memory and record.
    """

    key: Key
    kind: str
    digest: bytes = b""
    supersedes: str = ""
    current: bool = True
    derived: bool = False
    created_at: datetime
    happened_at: datetime
    session: str = ""
    said_by: str = ""
    length: int = 1
    size: int = 0
    words: Sequence[int] = ()
    text: Sequence[int] = ()
    cosine: float | None = None
    sources: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """How many versions the question may see, and how many of them have each of its words."""

    total: int = 0
    holding: Sequence[float] = ()

    @property
    def rarity(self) -> Scores:
        """The inverse document frequency of each word, above 0."""
        holding = np.asarray(self.holding, dtype=np.float64)
        return np.log(1 + (max(self.total, 1) - holding + 0.5).clip(0.5) / (holding + 0.5))


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of a question. ``links`` are pairs of neighbours in a conversation and how far they are apart
    (1 or 2), by their places; ``query`` and ``text`` count its words over everything it may see; ``keys`` are what
    :func:`key_pairs` says.
    """

    candidates: Sequence[Candidate]
    links: Sequence[tuple[int, int, int]]
    query: Counted
    text: Counted
    keys: Sequence[tuple[int, int]] = ()


class Signals:
    """The scores of a pool's candidates, each an array in their order; computed when first asked for.

    ``subjects`` are those the question names, ``window`` the time it speaks of.
    """

    def __init__(
        self,
        pool: Pool,
        subjects: frozenset[str] = frozenset(),
        window: tuple[datetime, datetime] | None = None,
    ) -> None:
        self.pool: Pool = pool
        self._subjects = subjects
        self._window = window

    @property
    def has_window(self) -> bool:
        """Whether the question speaks of a time."""
        return self._window is not None

    @cached_property
    def holds(self) -> NDArray[np.float64]:
        """Which candidate (row) has which word of the query (column)."""
        return bits([one.words for one in self.pool.candidates], len(self.pool.query.holding))

    @cached_property
    def no_keys(self) -> NDArray[np.bool_]:
        """Which candidates are no keys: what is said is one in the spread of a signal, however many facts repeat it."""
        own = np.ones(len(self.pool.candidates), dtype=np.bool_)
        own[[fact for fact, _ in self.pool.keys]] = False
        return own

    @cached_property
    def words(self) -> Scores:
        """BM25 of the query's words over a record and its neighbours."""
        return self._bm25(self.holds)

    @cached_property
    def words_by_keys(self) -> Scores:
        """The same, an episode having the words of its keys too."""
        return self._bm25(with_keys(self.holds, self.pool.keys))

    @cached_property
    def meaning(self) -> Scores:
        """Cosines, -1 to 1; not a number where there is no vector."""
        return np.array([np.nan if one.cosine is None else one.cosine for one in self.pool.candidates])

    @cached_property
    def session(self) -> Scores:
        """The query's words in the whole conversation, each counted less the more often it is said. What is of no
        conversation is one by itself; a key is of its episode's.
        """
        if not self.pool.candidates:
            return np.zeros(0)
        source, places = dict(self.pool.keys), dict[tuple[str, str], int]()
        of = np.array(
            [
                places.setdefault((one.key[0], one.session or f"\0{one.key[1]}"), len(places))
                for one in (
                    self.pool.candidates[source.get(at, at)] for at in range(len(self.pool.candidates))
                )
            ]
        )
        found = np.zeros((len(places), self.holds.shape[1]))
        np.add.at(found, of[self.no_keys], self.holds[self.no_keys])
        rarity = Counted(len(places), list((found > 0).sum(0))).rarity
        score = found * (_SESSION_K1 + 1) / (found + _SESSION_K1) @ rarity
        return score[of]

    @cached_property
    def subject(self) -> Scores:
        """1 for what was said by, or of, somebody the question names."""
        return np.array([float(one.said_by in self._subjects) for one in self.pool.candidates])

    @cached_property
    def time(self) -> Scores:
        """1 for what happened when the question says."""
        if self._window is None:
            return np.zeros(len(self.pool.candidates))
        start, end = self._window
        return np.array([float(start <= one.happened_at < end) for one in self.pool.candidates])

    @cached_property
    def text(self) -> Scores:
        """The sum of rarities of the text's words that a record has itself."""
        held = bits([one.text for one in self.pool.candidates], len(self.pool.text.holding))
        return held @ self.pool.text.rarity

    @cached_property
    def near(self) -> NDArray[np.float64]:
        """Which words of the query are said by a candidate or by a neighbour of it."""
        near = self.holds.copy()
        for one, other, _ in self.pool.links:
            near[one] = np.maximum(near[one], self.holds[other])
            near[other] = np.maximum(near[other], self.holds[one])
        return near

    def _bm25(self, holds: NDArray[np.float64]) -> Scores:
        found = self._with_neighbours(holds)
        lengths = self._with_neighbours(np.array([[one.length] for one in self.pool.candidates], np.float64))
        norm = 1 - _B + _B * lengths / max(float(lengths[self.no_keys].mean()), 1.0)
        return found * (_K1 + 1) / (found + _K1 * norm) @ self.pool.query.rarity

    def _with_neighbours(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        summed = own.copy()
        if self.pool.links:
            one, other, apart = np.array(self.pool.links, dtype=np.int64).T
            weight = np.array(_NEAR)[apart - 1][:, None]
            np.add.at(summed, one, weight * own[other])
            np.add.at(summed, other, weight * own[one])
        return summed


def key_pairs(candidates: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Facts that are keys to the short episode they were derived from, or that says the same: pairs of places."""
    episodes = {
        (one.key[0], one.key[1]): place
        for place, one in enumerate(candidates)
        if one.kind == "episode" and one.size <= _LONG
    }
    said = {(candidates[at].key[0], candidates[at].digest): at for at in episodes.values()}
    found = list[tuple[int, int]]()
    for place, one in enumerate(candidates):
        if one.kind == "fact" and len(one.sources) <= _MAX_SOURCES:
            same = said.get((one.key[0], one.digest)) if one.digest else None
            of = {episodes[source] for source in one.sources if source in episodes} | {same} - {None}
            found += [(place, source) for source in of if source is not None]
    return found


def with_keys(held: NDArray[np.float64], keys: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """What an episode has, or a key of it does."""
    lent = held.copy()
    for fact, source in keys:
        lent[source] = np.fmax(lent[source], held[fact])
    return lent


def bits(masks: Sequence[Sequence[int]], count: int) -> NDArray[np.float64]:
    """A row of 0 and 1 for each mask, ``count`` long."""
    if not masks or not count:
        return np.zeros((len(masks), count))
    whole = np.array([list(mask) for mask in masks], dtype=np.int64)
    place = np.arange(count)
    return ((whole[:, place // _PER_MASK] >> (place % _PER_MASK)) & 1).astype(np.float64)


def normalised(scores: Scores, among: NDArray[np.bool_] | None = None) -> Scores:
    """By how many standard deviations each is above the mean, of those ``among`` while these differ, else of all; 0
    for what is missing, or all alike.
    """
    known = ~np.isnan(scores)
    for some in (known & among, known) if among is not None else (known,):
        if some.any() and (spread := float(scores[some].std())) >= _ALIKE:
            return np.where(known, (scores - scores[some].mean()) / spread, 0.0)
    return np.zeros(len(scores))
