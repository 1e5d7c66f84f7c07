# ruff: noqa: RUF001 - the signs of other scripts are meant

from datetime import UTC, datetime

import pytest

from provider_workers.adapters.native import words
from provider_workers.domain.model import Part


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The CAFÉ's Überraschung", "the cafe s uberraschung"),
        ("foo_bar foo-bar a.b@c.de/x?y", "foo bar a b c de x y"),
        ("again and again", "again and"),
        ("Straße", "strasse"),
        ("ﬁne ２０２６", "fine 2026"),
        ("12345678901234567890", "12345678901234567890"),
        ("🎉!", "u1f389"),
        ("!?&|<->", ""),
    ],
)
def test_a_text_becomes_its_different_words_without_case_and_accents(text: str, found: str):
    assert words.record_words(text) == " ".join(one.folded for one in words.question(text)) == found


def test_a_script_without_spaces_becomes_pairs_and_single_characters():
    assert words.record_words("三月续约") == "三月 月续 续约 三 月 续 约"
    assert [one.folded for one in words.question("续约")] == ["续约"]
    assert [one.folded for one in words.question("约")] == ["约"]


def test_a_word_of_a_question_is_told_as_it_is_written_and_bare():
    assert words.question("KIRMIZI ışık, Häuser") == [
        ("kirmizi", "kirmizi", "kirmizi"),
        ("ısık", "ışık", "isik"),
        ("hauser", "häuser", "hauser"),
    ]


def test_what_has_no_width_cuts_no_word():
    assert words.record_words("Kat\u200bze \u202bשלום\u202c \ufeffmit\u00adkommen") == "katze שלום mitkommen"


def test_the_rules_of_a_language_get_words_with_their_accents_and_bare_ones():
    assert words.written_words("Die Häuser, 三月") == "die häuser hauser"
    assert words.written_words(" ".join(f"word{n:09d}" for n in range(40_000))) == ""


def test_a_text_without_end_becomes_a_bounded_number_of_words():
    endless = " ".join(f"word{n:09d}" for n in range(100_000))
    assert len(words.record_words(endless).encode()) < 720_000
    assert len(words.record_words("x" * 100_000)) == 500


def test_a_record_says_its_texts_and_an_extension_its_own():
    parts = (
        Part("text", "One."),
        Part("text", "Two\0."),
        Part("x.chart", raw=b'{"type":"x.chart","text":"Three."}'),
        Part("x.blob", raw=b'{"type":"x.blob","text":3}'),
        Part("x.bad", raw=b"{"),
    )
    assert words.text_of("fact", parts, b"") == "One.\n\nTwo.\n\nThree."
    assert words.text_of("link", (), b'{"url":"https://a","n":1,"description":"D"}') == "https://a\nD"
    assert words.text_of("fact", (), b'{"url":"https://a"}') == ""


def test_the_speaker_is_the_one_named_or_the_only_role():
    user, tool = Part("text", "a", "user"), Part("text", "b", "tool")
    assert words.speaker((user, tool), b'{"speaker":" Sam "}') == "Sam"
    assert words.speaker((user, user), b'{"speaker":7}') == "user"
    assert words.speaker((user, tool), b"") == ""
    assert words.speaker((), b"[1]") == ""
    assert words.speaker((), b"not json") == ""


def test_date_and_speaker_stand_before_the_text_and_a_bare_role_does_not():
    at = datetime(2026, 10, 1, tzinfo=UTC)
    assert words.prefix("Anna", at) == "1 October 2026, Anna: "
    assert words.prefix("", at) == "1 October 2026: "
    assert words.prefix("Anna", None) == "Anna: "
    assert words.prefix("user", None) == ""


def test_the_same_said_by_two_is_not_the_same():
    assert words.digest("Sam", "I live here.") == words.digest("Sam", "I live here.")
    assert words.digest("Sam", "I live here.") != words.digest("Ann", "I live here.")
    assert words.digest("Sam", "I live here.") != words.digest("", "SamI live here.")
    assert len(words.digest("", "")) == 16
