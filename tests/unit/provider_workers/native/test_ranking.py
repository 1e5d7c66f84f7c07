from dataclasses import replace
from datetime import UTC, datetime, timedelta

from provider_workers.adapters.native.ranking import Asked, Candidate, Ranked, evidence, rank

QUERY, TEXT, BOTH = Asked(True, False, False), Asked(False, True, False), Asked(True, True, False)
BASE = Candidate(
    key=("m", "r", 1),
    kind="fact",
    digest=b"",
    supersedes="",
    current=True,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def one(name: str, **more: object) -> Candidate:
    fields: dict[str, object] = {"key": ("m", name, 1), "digest": name.encode(), **more}
    return replace(BASE, **fields)


def order(ranked: list[Ranked]) -> list[str]:
    return [item.candidate.key[1] for item in ranked]


def test_meaning_and_words_of_a_query_weigh_half_each():
    ranked = rank(
        [one("a", cosine=0.9), one("b", cosine=0.1, words=8.0), one("c", cosine=0.5, words=8.0)], QUERY
    )
    assert order(ranked) == ["c", "a", "b"]
    assert [item.score for item in ranked] == [0.75, 0.5, 0.5]
    assert {item.why for item in ranked} == {("query",)}


def test_a_signal_that_found_nothing_takes_no_share():
    (first, second) = rank([one("a", cosine=0.9), one("b", cosine=0.1)], QUERY)
    assert (first.score, second.score) == (1.0, 0.0)
    (only,) = rank([one("a", words=3.0)], QUERY)
    assert only.score == 1.0


def test_query_and_text_weigh_half_each_and_why_says_which():
    ranked = rank(
        [one("a", cosine=0.9), one("b", cosine=0.1, text=4.0), one("c", cosine=0.9, text=2.0)], BOTH
    )
    assert order(ranked)[0] == "c"
    why = {item.candidate.key[1]: item.why for item in ranked}
    assert why == {"a": ("query",), "b": ("text",), "c": ("query", "text")}


def test_candidates_all_alike_are_ordered_by_age_the_newest_first():
    later = BASE.created_at + timedelta(days=1)
    assert order(rank([one("old", text=1.0), one("new", text=1.0, created_at=later)], TEXT)) == ["new", "old"]


def test_an_episode_gives_way_to_the_fact_that_says_the_same_and_leaves_it_its_score():
    episode = one("e", kind="episode", digest=b"same", cosine=0.9)
    ranked = rank([episode, one("f", digest=b"same", cosine=0.8), one("x", cosine=0.1)], QUERY)
    assert order(ranked) == ["f", "x"]
    assert ranked[0].score == 1.0
    assert order(rank([episode, one("x", cosine=0.1)], QUERY)) == ["e", "x"]
    elsewhere = replace(episode, key=("other", "e", 1))
    assert order(rank([elsewhere, one("f", digest=b"same", cosine=0.8)], QUERY)) == ["e", "f"]


def test_what_was_closed_is_capped_by_what_is_current():
    closed = one("r", current=False, cosine=0.99)
    current = replace(one("r", cosine=0.5), key=("m", "r", 2))
    assert [item.candidate.current for item in rank([closed, current], QUERY)] == [True, False]
    successor = one("s", supersedes="r", cosine=0.5)
    assert order(rank([closed, successor, one("x", cosine=0.1)], QUERY)) == ["s", "r", "x"]


def test_filters_alone_score_all_alike_and_hide_nothing():
    alone = Asked(False, False, True)
    ranked = rank([one("e", kind="episode", digest=b"same"), one("f", digest=b"same")], alone)
    assert {(item.score, item.why) for item in ranked} == {(1.0, ("filters",))}
    assert len(ranked) == 2


def test_evidence_is_half_cosine_and_half_the_share_of_the_words():
    hits = rank([one("a", cosine=0.6, words=5.0, words_total=10.0), one("b", cosine=0.2)], QUERY)
    assert evidence(hits, with_vectors=True) == 0.55
    assert evidence(hits, with_vectors=False) == 0.5
    assert evidence(rank([one("a", cosine=0.6)], QUERY), with_vectors=True) == 0.6
    assert evidence(rank([one("a", cosine=0.6, words_total=10.0)], QUERY), with_vectors=True) == 0.3
    assert evidence([], with_vectors=True) == 0.0
