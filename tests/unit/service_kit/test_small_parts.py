"""Ids, clocks, cursors, limits."""

import base64
import contextlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from service_kit.clock import FixedClock, SystemClock
from service_kit.errors import GroveError
from service_kit.ids import is_id, new_id
from service_kit.paging import MAX_CURSOR, clamp_limit, decode_cursor, encode_cursor

KEYS = some.lists(
    some.one_of(
        some.integers(-(2**63), 2**63 - 1),
        some.text(some.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=40),
    ),
    min_size=1,
    max_size=4,
)


def test_ids_sort_in_the_order_they_were_made():
    made = [new_id("hmem") for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "hmem",
        "hmem_",
        "hmem_xyz",
        "hrec_" + "0" * 32,
        "hmem_" + "0" * 31,
        "hmem_" + "A" * 32,
        "hmem_" + "0" * 33,
    ],
)
def test_what_is_not_shaped_like_an_id_is_none(value: str):
    assert not is_id("hmem", value)


def test_an_id_has_the_shape_of_its_kind():
    assert is_id("hmem", new_id("hmem"))


def test_the_clock_tells_utc_and_a_held_one_moves_only_when_told():
    assert SystemClock().now().tzinfo is UTC
    clock = FixedClock(datetime(2026, 10, 1, tzinfo=UTC))
    assert clock.now() == clock.now()
    assert clock.advance(timedelta(seconds=5)) == datetime(2026, 10, 1, 0, 0, 5, tzinfo=UTC)


@given(KEYS)
def test_a_cursor_comes_back_as_it_was(keys: list[str | int]):
    cursor = encode_cursor(*keys)
    if len(cursor) <= MAX_CURSOR:
        assert decode_cursor(cursor, len(keys)) == tuple(keys)


def _cursor(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "!",
        "a",
        "x" * (MAX_CURSOR + 1),
        _cursor({"a": 1}),
        _cursor(["one"]),
        _cursor(["one", 2, 3]),
        _cursor(["one", True]),
        _cursor(["one", 1.5]),
        _cursor(["one", None]),
        _cursor(["one", 2**63]),
        _cursor(["nul\x00", 1]),
        _cursor(["\ud800", 1]),
        base64.urlsafe_b64encode(b"[" * 1000).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        "é",
    ],
)
def test_a_cursor_that_is_not_ours_is_refused_as_such(cursor: str):
    with pytest.raises(GroveError) as refused:
        decode_cursor(cursor, 2)
    assert (refused.value.code, refused.value.param) == ("invalid_input", "cursor")


@given(some.text(max_size=200))
def test_no_text_breaks_the_reader_of_cursors(cursor: str):
    with contextlib.suppress(GroveError):
        decode_cursor(cursor, 2)


@pytest.mark.parametrize(("limit", "size"), [(None, 50), (0, 50), (1, 1), (200, 200), (10_000, 200)])
def test_a_limit_is_clamped(limit: int | None, size: int):
    assert clamp_limit(limit) == size


def test_a_negative_limit_is_refused():
    with pytest.raises(GroveError, match="limit"):
        clamp_limit(-1)
