from datetime import UTC, datetime

import pytest

from provider_workers.domain import limits
from provider_workers.domain.filters import All, Condition, Filter, Json, Not, Op, check, condition
from service_kit.errors import GroveError

ANY = Condition("type", (), Op.EXISTS, (True,))


def test_a_condition_is_typed_by_its_field():
    assert condition("type", "eq", b'"fact"') == Condition("type", (), Op.EQ, ("fact",))
    price = condition("attributes.deal.price", "gt", b" 12345678901234567890.1234567890 ")
    assert price.path == ("deal", "price")
    assert price.values == (Json("number", "12345678901234567890.1234567890"),)
    since = condition("time.valid_from", "gte", b'"2026-10-01"')
    assert since.values == (datetime(2026, 10, 1, tzinfo=UTC),)
    assert condition("time.valid_from", "eq", b'"2026-10-01T02:00:00+02:00"').values == since.values
    among = condition("attributes.a", "in", b'[1, "x", null, {"k": [true]}]')
    assert [value.kind for value in among.values if isinstance(value, Json)] == [
        "number",
        "string",
        "null",
        "object",
    ]


@pytest.mark.parametrize(
    ("field", "op", "value", "says"),
    [
        ("content", "eq", b'"x"', "cannot look at the field 'content'"),
        ("time.created", "eq", b'"x"', "cannot look at the field"),
        ("type.x", "eq", b'"x"', "cannot look at the field"),
        ("attributes", "eq", b'"x"', "cannot look at the field"),
        ("attributes.", "eq", b'"x"', "cannot look at the field"),
        ("attributes.a..b", "eq", b'"x"', "cannot look at the field"),
        ("attributes." + ".".join("a" * 20), "eq", b"1", "cannot look at the field"),
        ("attributes.a\0", "eq", b"1", "cannot look at the field"),
        ("type", "like", b'"x"', "The filter on type takes one of eq"),
        ("attributes.a", "eq", b"{", "is not JSON"),
        ("attributes.a", "eq", b"", "is not JSON"),
        ("attributes.a", "eq", b'"\xff"', "is not JSON"),
        ("attributes.a", "gt", b"true", "takes a number or a string, not a boolean"),
        ("attributes.a", "lte", b"null", "takes a number or a string, not null"),
        ("attributes.a", "gt", b"[1]", "takes a number or a string, not a list"),
        ("attributes.a", "in", b'"x"', "takes a list"),
        ("attributes.a", "exists", b"1", "takes true or false"),
        ("attributes.a", "eq", b"1e999999", "too large to compare"),
        ("attributes.a", "eq", b"1" * 2_000, "too large to compare"),
        ("type", "eq", b"1", "takes a string, not a number"),
        ("type", "gt", b"null", "takes a string, not null"),
        ("time.valid_to", "lt", b'"soon"', "takes a time such as"),
        ("time.valid_to", "lt", b'"2026-10-01T10:00:00"', "takes a time such as"),
        ("time.valid_to", "lt", b'"2026-13-01"', "takes a time such as"),
        ("time.valid_to", "lt", b"1790000000", "takes a string, not a number"),
        ("attributes.a", "in", b"[" + b",".join([b"1"] * 1_001) + b"]", "at most 1000 values"),
        ("attributes.a", "eq", b"[" * 50_000 + b"]" * 50_000, "is not JSON"),
    ],
)
def test_a_condition_that_makes_no_sense_says_why(field: str, op: str, value: bytes, says: str):
    with pytest.raises(GroveError) as refused:
        condition(field, op, value)
    assert (refused.value.code, refused.value.param) == ("invalid_input", "filters")
    assert says in refused.value.message


def test_a_tree_is_bounded_in_size_and_depth():
    wide = All((ANY,) * (limits.MAX_FILTER_NODES - 1))
    assert check(wide) is wide
    with pytest.raises(GroveError, match="at most 200 nodes"):
        check(All((ANY,) * limits.MAX_FILTER_NODES))
    deep: Filter = ANY
    for _ in range(limits.MAX_FILTER_DEPTH - 1):
        deep = Not(deep)
    assert check(deep) is deep
    with pytest.raises(GroveError, match="at most 16 levels"):
        check(Not(deep))
