from datetime import UTC, datetime

import pytest

from provider_workers.adapters.native.dates import Spoken, day_of, spoken_of

AT = datetime(2026, 12, 2, 15, tzinfo=UTC)  # a Wednesday


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What did she say last March?", "2026-03-01", "2026-04-01"),
        ("What happened on 5 May 2023?", "2023-05-05", "2023-05-06"),
        ("the 3rd of June", "2026-06-03", "2026-06-04"),
        ("Who came on December 24?", "2025-12-24", "2025-12-25"),
        ("Dec. 24, 2024", "2024-12-24", "2024-12-25"),
        ("in May", "2026-05-01", "2026-06-01"),
        ("March 2024", "2024-03-01", "2024-04-01"),
        ("two weeks ago", "2026-11-16", "2026-11-23"),
        ("a month ago", "2026-11-01", "2026-12-01"),
        ("3 days ago", "2026-11-29", "2026-11-30"),
        ("last Friday", "2026-11-27", "2026-11-28"),
        ("last week", "2026-11-23", "2026-11-30"),
        ("this year", "2026-01-01", "2027-01-01"),
        ("yesterday", "2026-12-01", "2026-12-02"),
        ("in 2023", "2023-01-01", "2024-01-01"),
        ("on 2026-02-03", "2026-02-03", "2026-02-04"),
        ("before June 2023", "0001-01-01", "2023-06-01"),
    ],
)
def test_a_time_is_read_from_a_question(question: str, start: str, end: str):
    spoken = spoken_of(question, AT)
    assert spoken is not None
    assert spoken.window == (day(start), day(end))


def test_after_and_since_are_open():
    later = datetime.max.replace(tzinfo=UTC)
    assert spoken_of("after 2021", AT) == Spoken((day("2022-01-01"), later), "after 2021")
    assert spoken_of("What since yesterday?", AT) == Spoken((day("2026-12-01"), later), "yesterday")


@pytest.mark.parametrize(
    "question",
    [
        "May I go on?",
        "They march every year.",
        "Room 2023 is closed.",
        "31 June",
        "5000 years ago",
        "",
        "2026-13-45",
    ],
)
def test_nothing_is_guessed(question: str):
    assert spoken_of(question, AT) is None


@pytest.mark.parametrize(
    ("statement", "start"),
    [
        ("I ran yesterday.", "2026-12-01"),
        ("She left two days ago.", "2026-11-30"),
        ("We met last Friday.", "2026-11-27"),
        ("I was born on 3 May 1990.", "1990-05-03"),
        ("They signed it on March 1, 2026.", "2026-03-01"),
        ("Paid on 2026-12-01.", "2026-12-01"),
    ],
)
def test_a_past_day_is_read_from_a_statement(statement: str, start: str):
    assert day_of(statement, AT) == day(start)


@pytest.mark.parametrize(
    "statement",
    [
        "The concert is on 5 April.",
        "I leave on Friday.",
        "My passport expires on 3 May 2031.",
        "I was ill from 3 May 2026 to 5 May 2026.",
        "I have been ill since yesterday.",
        "It was last week.",
        "Born on 31 June 1990.",
        "In May we moved.",
    ],
)
def test_what_may_be_another_day_is_not_read_from_a_statement(statement: str):
    assert day_of(statement, AT) is None


@pytest.mark.parametrize("said", ["5 \u017feptember 2026", "\u017fep 5, 2026", "5 \u017fEP. 2026"])
def test_a_long_s_is_an_s(said: str):
    assert day_of(said, AT) == day("2026-09-05")
    spoken = spoken_of(said, AT)
    assert spoken is not None
    assert spoken.window[0] == day("2026-09-05")


@pytest.mark.parametrize("at", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
@pytest.mark.parametrize(
    "said",
    ["yesterday", "3 days ago", "last monday", "two weeks ago", "this year", "a month ago", "in May",
     "5 May", "1000 years ago", "9999-12-31", "0001-01-01", "\u017fix days ago", "la\u017ft Sunday", "th\u0131s week"],
)  # fmt: skip
def test_no_words_and_no_time_make_it_fail(said: str, at: datetime):
    for start in (spoken.window[0] for spoken in (spoken_of(said, at),) if spoken is not None):
        assert start.tzinfo is UTC
    named = day_of(said, at)
    assert named is None or named <= at
