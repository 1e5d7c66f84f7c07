from datetime import UTC, datetime

import pytest

from gateway.http import expected_version, query
from gateway.schemas.memories import ListMemories
from gateway.schemas.records import ListRecords, ReadAt
from gateway.schemas.responses import ReadResponse
from service_kit.errors import GroveError
from tests.unit.gateway.requests import made


def test_types_are_repeated_or_separated_by_commas():
    request = made("GET", "/", {}, "types=fact,note&types=x.a&limit=5&include=all&unknown=1")
    asked = query(request, ListRecords)
    assert asked.types == ["fact", "note", "x.a"]
    assert (asked.limit, asked.include) == (5, "all")


def test_an_empty_value_counts_as_absent():
    asked = query(made("GET", "/", {}, "parent=&limit=&cursor=&types="), ListMemories)
    assert asked == ListMemories()


@pytest.mark.parametrize(
    "written", ["2026-10-01T02:00:00+02:00", "2026-10-01T02:00:00%2B02:00", "2026-10-01T00:00:00Z"]
)
def test_an_offset_survives_a_plus_sign_that_was_not_escaped(written: str):
    asked = query(made("GET", "/", {}, f"as_of={written}"), ReadAt)
    assert asked.as_of == datetime(2026, 10, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("limit=99999999999", "limit"),
        ("include=everything", "include"),
        ("as_of=2026-10-01", "as_of"),
        ("as_of=2026-10-01T00:00:00", "as_of"),
        ("cursor=%00", "cursor"),
    ],
)
def test_a_query_at_fault_is_named(text: str, param: str):
    with pytest.raises(GroveError) as refused:
        query(made("GET", "/", {}, text), ListRecords)
    assert (refused.value.code, refused.value.param) == ("invalid_input", param)


def test_a_stream_is_asked_for_by_a_boolean():
    asked = query(made("GET", "/", {}, "stream=true&starting_after=4"), ReadResponse)
    assert (asked.stream, asked.starting_after) == (True, 4)


@pytest.mark.parametrize(
    ("header", "stated", "expected"),
    [(None, None, 0), (None, 3, 3), ('"3"', None, 3), ("3", 3, 3), ("*", None, 0), ("*", 4, 4)],
)
def test_the_version_a_change_expects_comes_from_either_place(
    header: str | None, stated: int | None, expected: int
):
    headers = {} if header is None else {"If-Match": header}
    assert expected_version(made("PATCH", "/", headers), stated) == expected


@pytest.mark.parametrize(
    ("header", "stated"),
    [('W/"3"', None), ('"3", "4"', None), ('"0"', None), ("9999999999", None), ('"3"', 4), ("abc", None)],
)
def test_a_version_that_is_none_or_two_is_refused(header: str, stated: int | None):
    with pytest.raises(GroveError) as refused:
        expected_version(made("PATCH", "/", {"If-Match": header}), stated)
    assert refused.value.code == "invalid_input"
