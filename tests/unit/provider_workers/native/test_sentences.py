# ruff: noqa: RUF001 - the signs of other scripts are meant

import pytest

from provider_workers.adapters.native.sentences import MAX_FACTS, split, spoken, statements
from provider_workers.domain.model import Part


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is here. Two is there! Three?", ["One is here.", "Two is there!", "Three?"]),
        ("Dr. Smith met J. Doe at 9 a.m. on Monday.", ["Dr. Smith met J. Doe at 9 a.m. on Monday."]),
        ("He paid 3.5 EUR at acme.com. Fine.", ["He paid 3.5 EUR at acme.com.", "Fine."]),
        ('I said "It is done." Then I left.', ['I said "It is done."', "Then I left."]),
        ("Well… maybe. So be it", ["Well…", "maybe.", "So be it"]),
        ("我们在三月续约。谢谢！你好吗？", ["我们在三月续约。", "谢谢！", "你好吗？"]),
        ("- first point\n2) second point\n# heading", ["first point", "second point", "heading"]),
        ("before\n```\ncode. More code.\n```\nafter", ["before", "after"]),
        ("```never closed\ncode. More.", []),
        ("> quoted. Twice.\nown words", ["own words"]),
        ("a\r\nb", ["a", "b"]),
        ("", []),
        ("...", ["..."]),
        ("\0\0", []),
    ],
)
def test_a_text_is_split_into_its_sentences_as_they_stand(text: str, sentences: list[str]):
    assert list(split(text)) == sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "The hub is plugged in at Mill Street.",
        "Yes, the hub is plugged in at Mill Street as of today.",
        "Will joined the team in March.",
        "May 5th is our renewal date.",
        "Do not call Greta before four.",
        "我们在三月续约。",
    ],
)
def test_a_statement_is_kept_as_it_was_said(sentence: str):
    assert statements(sentence) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Is the hub plugged in at Mill Street?",
        "The hub is plugged in, isn't it?!",
        "Good morning to all of you!",
        "Thanks for the quick help.",
        "Please send the invoice to Anna today.",
        "Could you look at the settings.",
        "Let me know how it goes tomorrow.",
        "All good now.",
        "Run `make run` to start everything up.",
        "Here is what we agreed on today:",
        "你好吗？",
        "🎉 🎉 🎉 🎉 🎉",
        "word " * 300,
    ],
)
def test_what_states_nothing_is_left_to_the_episode(sentence: str):
    assert statements(sentence) == []


def test_a_sentence_said_twice_is_one_statement_and_their_number_is_bounded():
    assert statements("The hub is on now. The hub is on now.") == ["The hub is on now."]
    assert len(statements(" ".join(f"Sensor number {n} is fine." for n in range(500)))) == MAX_FACTS


def test_a_text_of_only_marks_takes_no_time():
    for text in (
        "." * 200_000,
        "- " * 100_000,
        "`" * 100_000,
        ("a.b" * 100_000),
        "> " * 50_000,
        '."' * 100_000,
    ):
        assert statements(text) == []


def test_only_what_somebody_says_first_hand_is_heard():
    parts = [Part("text", role, role) for role in ("user", "assistant", "tool", "system")]
    parts += [Part("text", "nobody"), Part("x.chart", "chart")]
    assert list(spoken(parts, named=False)) == ["user", "nobody"]
    assert list(spoken(parts, named=True)) == ["user", "assistant", "nobody"]
