from datetime import UTC, datetime

import pytest

from provider_workers.adapters.native.dates import spoken_of

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
    assert spoken_of(question, AT) == (day(start), day(end))


def test_after_and_since_are_open():
    later = datetime.max.replace(tzinfo=UTC)
    assert spoken_of("after 2021", AT) == (day("2022-01-01"), later)
    assert spoken_of("since yesterday", AT) == (day("2026-12-01"), later)


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
