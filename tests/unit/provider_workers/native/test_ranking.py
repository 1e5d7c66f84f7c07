from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from provider_workers.adapters.native.judging import About, judge, named
from provider_workers.adapters.native.ranking import Asked, Ranked, rank
from provider_workers.adapters.native.signals import Candidate, Counted, Pool, Signals, key_pairs

QUERY, TEXT, BOTH = Asked(True, False, False), Asked(False, True, False), Asked(True, True, False)
AT = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = (("hub",), ("street",), ("mill",), ("anna",))
BASE = Candidate(key=("m", "r", 1), kind="fact", created_at=AT, happened_at=AT, length=10)


def one(name: str, words: Sequence[int] = (), text: Sequence[int] = (), **more: object) -> Candidate:
    """A candidate that has these of the query's words and of the text's, by their places."""
    masks = {"words": [sum(1 << at for at in words)], "text": [sum(1 << at for at in text)]}
    return replace(BASE, **{"key": ("m", name, 1), "digest": name.encode(), **masks, **more})


def signals(
    *candidates: Candidate,
    words: int = 4,
    links: Sequence[tuple[int, int, int]] = (),
    subjects: Sequence[str] = (),
    window: tuple[datetime, datetime] | None = None,
) -> Signals:
    """Of a pool that is all there is."""

    def counted(masks: Sequence[Sequence[int]]) -> Counted:
        return Counted(len(masks), [sum(mask[0] >> at & 1 for mask in masks) for at in range(words)])

    pool = Pool(
        candidates,
        links,
        counted([it.words for it in candidates]),
        counted([it.text for it in candidates]),
        key_pairs(candidates),
    )
    return Signals(pool, frozenset(subjects), window)


def order(ranked: list[Ranked]) -> list[str]:
    return [item.candidate.key[1] for item in ranked]


def test_meaning_and_words_are_weighed_together_on_one_scale():
    ranked = rank(
        signals(
            one("a", cosine=0.9), one("b", [0], cosine=0.1), one("c", [0], cosine=0.6), one("d", cosine=0.1)
        ),
        QUERY,
    )
    assert order(ranked)[0] == "c"
    assert order(ranked)[-1] == "d"
    assert all(0 <= item.score <= 1 for item in ranked)
    assert {item.why for item in ranked} == {("query",)}


@pytest.mark.parametrize(("without", "first"), [("words", "near"), ("meaning", "said"), ("subject", "said")])
def test_a_signal_that_is_left_out_does_not_count(without: str, first: str):
    asked = replace(QUERY, without=frozenset({without}))
    pool = [
        one("said", [0, 1, 2], cosine=0.1),
        one("near", cosine=0.4, said_by="Bo"),
        one("x", [0], cosine=0.2),
    ]
    assert order(rank(signals(*pool, subjects=["Bo"]), asked))[0] == first
    assert order(rank(signals(*pool), QUERY))[0] == "said"


def test_a_rare_word_counts_for_more_than_a_common_one():
    common = [one(f"x{at}", [0], cosine=0.5) for at in range(8)]
    assert order(rank(signals(*common, one("rare", [1], cosine=0.5)), QUERY))[0] == "rare"


def test_query_and_text_are_told_apart_in_why():
    ranked = rank(
        signals(one("a", cosine=0.9), one("b", cosine=0.1, text=[0]), one("c", cosine=0.9, text=[0])), BOTH
    )
    assert order(ranked)[0] == "c"
    why = {item.candidate.key[1]: item.why for item in ranked}
    assert why == {"a": ("query",), "b": ("text",), "c": ("query", "text")}


def test_what_no_signal_found_is_left_out():
    assert order(rank(signals(one("a", [0]), one("b")), QUERY)) == ["a"]
    assert order(rank(signals(one("a", text=[0]), one("b", cosine=0.9)), TEXT)) == ["a"]
    assert rank(signals(), QUERY) == []


def test_a_version_without_a_vector_is_found_by_its_words():
    ranked = rank(signals(one("late", [0, 1]), one("a", cosine=0.4), one("b", cosine=0.1)), QUERY)
    assert order(ranked)[0] == "late"
    assert "meaning" not in ranked[0].signals


def test_candidates_all_alike_are_ordered_by_age_the_newest_first():
    later = AT + timedelta(days=1)
    ranked = rank(signals(one("old", text=[0]), one("new", text=[0], created_at=later)), TEXT)
    assert (order(ranked), [item.score for item in ranked]) == (["new", "old"], [1.0, 1.0])


def test_an_answer_beside_the_words_of_the_question_is_found_by_them():
    def said(name: str, words: Sequence[int] = ()) -> Candidate:
        return one(name, words, kind="episode", session="s", cosine=0.3)

    talk = [said("asked", [0, 1]), said("answer"), said("next"), said("far")]
    beside = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 2, 2), (1, 3, 2)]
    others = [one(f"x{at}", [2], cosine=0.3) for at in range(4)]
    assert order(rank(signals(*talk, *others, links=beside), QUERY))[:4] == ["asked", "answer", "next", "far"]


def test_those_the_question_names_come_before_others():
    ranked = rank(
        signals(
            one("a", [0], said_by="Ann", cosine=0.5), one("b", [0], said_by="Bo", cosine=0.5), subjects=["Bo"]
        ),
        QUERY,
    )
    assert order(ranked) == ["b", "a"]


def test_what_happened_when_the_question_says_comes_first():
    march = datetime(2026, 3, 5, tzinfo=UTC)
    window = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    ranked = rank(
        signals(one("a", [0], cosine=0.5), one("b", [0], cosine=0.5, happened_at=march), window=window), QUERY
    )
    assert order(ranked) == ["b", "a"]
    assert [item.signals["time"] for item in ranked] == [1.0, 0.0]


def test_an_episode_happened_when_a_fact_derived_from_it_did_too():
    """ "I moved yesterday", said on the first: what happened the day before is told by the episode."""
    before, window = AT - timedelta(days=1), (AT - timedelta(days=1), AT)
    episode = one("e", [0], kind="episode", cosine=0.5)
    derived = one("f", [0], cosine=0.5, derived=True, sources=[("m", "e")], happened_at=before)
    other = one("x", [0], kind="episode", cosine=0.5)
    ranked = rank(signals(other, episode, derived, window=window), QUERY)
    assert order(ranked) == ["e", "x", "f"]
    assert ranked[0].score > ranked[1].score


def test_a_fact_is_a_key_to_its_episode_which_takes_the_place():
    episode = one("e", kind="episode", cosine=0.1)
    derived = one("f", [0, 1], cosine=0.9, derived=True, sources=[("m", "e")])
    other = one("x", [0], cosine=0.5)
    assert order(rank(signals(episode, derived, other), QUERY)) == ["e", "x", "f"]
    assert order(rank(signals(episode, replace(derived, derived=False), other), QUERY)) == ["f", "x", "e"]
    assert order(rank(signals(derived, other), QUERY)) == ["f", "x"]
    long = replace(episode, size=10_000)
    assert order(rank(signals(long, derived, other), QUERY)) == ["f", "x", "e"]


def test_facts_that_say_nothing_new_change_no_score_of_what_was_said():
    said = [
        one("a", [0, 1], kind="episode", session="s", cosine=0.5),
        one("b", [1], kind="episode", session="s", cosine=0.4),
        one("c", [2], kind="episode", session="t", cosine=0.3),
        one("d", [0], cosine=0.1),
    ]
    cut = [one(f"f{at}", [at], derived=True, cosine=0.2, length=2, sources=[("m", "a")]) for at in range(2)]
    counted = signals(*said).pool

    def scores(*candidates: Candidate) -> dict[str, float]:
        made = signals(*candidates)
        made.pool = replace(made.pool, query=counted.query)
        return {it.candidate.key[1]: it.score for it in rank(made, QUERY) if not it.candidate.derived}

    assert scores(*said, *cut) == pytest.approx(scores(*said))


def test_an_episode_is_found_by_the_words_and_the_meaning_of_its_keys():
    said = [one(name, kind="episode", cosine=0.2) for name in "ab"]
    learnt = one("f", [0, 1], cosine=0.9, derived=True, sources=[("m", "b")])
    assert order(rank(signals(*said, learnt, one("x", [0], cosine=0.3)), QUERY))[0] == "b"


def test_a_derived_fact_that_only_repeats_its_episode_is_left_out():
    episode = one("e", [0], kind="episode", digest=b"same", cosine=0.9)
    fact = one("f", [0], digest=b"same", derived=True, cosine=0.9)
    assert order(rank(signals(episode, fact, one("x", cosine=0.1)), QUERY)) == ["e", "x"]
    elsewhere = replace(episode, key=("other", "e", 1))
    assert set(order(rank(signals(elsewhere, fact), QUERY))) == {"e", "f"}


def test_what_was_closed_is_capped_by_what_is_current():
    closed = one("r", [0, 1], current=False, cosine=0.99)
    current = replace(one("r", [0], cosine=0.5), key=("m", "r", 2))
    low = one("y", cosine=0.0)
    assert [it.candidate.current for it in rank(signals(closed, current, low), QUERY)] == [True, False, True]
    successor = one("s", [0], supersedes="r", cosine=0.5)
    assert order(rank(signals(closed, successor, low), QUERY))[:2] == ["s", "r"]


def test_filters_alone_score_all_alike_and_hide_nothing():
    alone = Asked(False, False, True)
    ranked = rank(signals(one("e", kind="episode", digest=b"same"), one("f", digest=b"same")), alone)
    assert {(item.score, item.why) for item in ranked} == {(1.0, ("filters",))}
    assert len(ranked) == 2


def evidence(made: Signals, subjects: Sequence[str] = (), dates: Sequence[str] = ()) -> float:
    return judge(made, About(WORDS, frozenset(subjects), frozenset(dates))).evidence


def test_evidence_grows_with_words_and_meaning_and_falls_with_what_is_nowhere():
    others = [one(f"x{at}", cosine=0.05) for at in range(5)]
    best = evidence(signals(one("a", [0, 1, 2, 3], cosine=0.7), *others))
    fewer = evidence(signals(one("a", [0], cosine=0.7), *others))
    farther = evidence(signals(one("a", [0], cosine=0.1), *others))
    assert 0 <= farther < fewer < best <= 1
    assert evidence(signals()) == 0.0


def test_what_happened_at_the_time_asked_for_has_the_words_of_that_time():
    march = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    held, beside = one("a", [0, 1], cosine=0.4, happened_at=march[0]), one("b", cosine=0.05)
    undated = evidence(signals(held, beside, window=march))
    dated = evidence(signals(held, beside, window=march), dates=["mill"])
    outside = evidence(signals(replace(held, happened_at=AT), beside, window=march), dates=["mill"])
    assert dated > undated == outside


def test_without_vectors_words_decide_alone():
    others = [one(f"x{at}") for at in range(5)]
    assert (
        evidence(signals(one("a", [0, 1, 2, 3]), *others)) > 0.5 > evidence(signals(one("a", [0]), *others))
    )


def test_evidence_is_low_when_only_somebody_else_said_it():
    said = [one(f"b{at}", [3], said_by="Anna", cosine=0.2) for at in range(5)]
    other = one("a", [0, 1, 2], said_by="Bo", cosine=0.6)
    hers = one("a", [0, 1, 2, 3], said_by="Anna", cosine=0.6)
    made = [
        signals(first, *said, one("c", said_by="Bo", cosine=0.1), subjects=["Anna"])
        for first in (other, hers)
    ]
    low, high = (judge(it, About(WORDS, frozenset({"Anna"}))) for it in made)
    assert low.evidence < high.evidence
    assert (low.reason, high.reason) == ("subject_mismatch", "below_confidence")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("What did Anna say?", {"Anna Weiß"}),
        ("What did ANNA WEISS say?", {"Anna Weiß"}),
        ("Did Anna see Bo?", set[str]()),
        ("What was said?", set[str]()),
    ],
)
def test_who_a_question_names(query: str, found: set[str]):
    pool = signals(one("a", said_by="Anna Weiß"), one("b", said_by="Bo"), one("c")).pool
    assert named(pool, query) == found
