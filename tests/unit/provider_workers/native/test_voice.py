# ruff: noqa: RUF001 - the typographic apostrophe is meant

import pytest

from provider_workers.adapters.native.voice import embedded, first_person, meant


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I moved to Oslo.", "Anna moved to Oslo."),
        ("I'm glad my son called me.", "Anna is glad Anna's son called Anna."),
        ("I’ve seen it, and I’ll go.", "Anna has seen it, and Anna will go."),
        ("My dog likes Ice.", "Anna's dog likes Ice."),
        ("The hub is in Mill Street.", "The hub is in Mill Street."),
        ("See I. Newton.", "See I. Newton."),
    ],
)
def test_a_fact_is_meant_of_who_says_it(said: str, told: str):
    assert meant("fact", said, "Anna") == told


@pytest.mark.parametrize("speaker", ["Me", "I My", "{}", "{0.__class__}", r"\1", r"\g<0>"])
def test_a_name_is_put_in_as_it_is_written(speaker: str):
    assert meant("fact", "I'm here with my dog.", speaker) == f"{speaker} is here with {speaker}'s dog."


def test_a_name_full_of_words_of_the_first_person_does_not_blow_a_fact_up():
    speaker = "I've I'll I'd I my " * 10
    assert len(meant("fact", "I'm " * 500, speaker)) <= 2_000 + 20 * len(speaker + " is")


@pytest.mark.parametrize(
    ("kind", "speaker", "text"),
    [
        ("episode", "Anna", "I moved."),
        ("fact", "", "I moved."),
        ("fact", "user", "I moved."),
        ("fact", "Anna", "I moved. " * 400),
    ],
    ids=["an episode", "nobody", "a role", "a long text"],
)
def test_anything_else_is_meant_as_it_stands(kind: str, speaker: str, text: str):
    assert meant(kind, text, speaker) == text


def test_what_is_no_english_is_embedded_as_it_stands():
    row = {"prefix": "Ana: ", "text": "Me gusta.", "type": "fact", "language": "spanish", "speaker": "Ana"}
    assert embedded(row) == "Ana: Me gusta."
    assert embedded(row | {"text": "Tell me.", "language": "english"}) == "Ana: Tell Ana."


@pytest.mark.parametrize(
    ("sentence", "own"),
    [
        ("I moved.", True),
        ("Nobody called me.", True),
        ("We moved in May.", True),
        ("It is used in the US.", False),
        ("Ming is mining.", False),
    ],
)
def test_whether_a_sentence_is_about_who_says_it(sentence: str, own: bool):
    assert first_person(sentence) is own
