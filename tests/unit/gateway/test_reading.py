import json
from contextlib import nullcontext, suppress
from typing import Annotated

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from gateway.http import MAX_DEPTH, decode
from gateway.schemas.base import Ask, Instant, Raw
from gateway.schemas.filters import MAX_DEPTH as FILTER_DEPTH
from gateway.schemas.filters import MAX_NODES, Condition, Filter, Not, Tree, tree_of
from gateway.schemas.memories import CreateMemory, NewGrant
from gateway.schemas.records import Erase, Observe, Recall, Remember
from gateway.schemas.responses import CreateResponse, ignored_fields
from service_kit.errors import GroveError


class Carrying(Ask, kw_only=True, frozen=True):
    attributes: Raw


class Dated(Ask, kw_only=True, frozen=True):
    at: Instant


class Bounded(Ask, kw_only=True, frozen=True):
    count: Annotated[int, Meta(ge=1)] = 1


EXACT = [
    b'{"big":123456789012345678901234567890}',
    b'{"price":1.10}',
    b'{"huge":1e400,"tiny":1E-999}',
    b'{"minus":-0,"minus_float":-0.0}',
    b'{"b":1,"a":2,"b":3}',
    b'{ "spaced" :\n\t[ 1 , 2 ] }',
    '{"é":"é\\u00e9","emoji":"😀\\ud83d\\ude00"}'.encode(),
    b'{"nul":"\\u0000"}',
    b"{}",
    b'{"slash":"\\/","deep":[[[[[{"x":null}]]]]]}',
]


@pytest.mark.parametrize("raw", EXACT)
def test_free_form_json_is_kept_byte_for_byte(raw: bytes):
    read = decode(b'{"before": 1, "attributes": ' + raw + b' , "after": {}}', Carrying)
    assert bytes(read.attributes) == raw
    assert msgspec.json.encode({"attributes": read.attributes}) == b'{"attributes":' + raw + b"}"


@settings(deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ),
    st.booleans(),
)
def test_any_json_survives_a_journey_through_the_schemas(value: object, escaped: bool):
    try:
        raw = json.dumps(value, ensure_ascii=escaped, indent=1).encode()
    except UnicodeEncodeError:
        return
    body = b'{"attributes":' + raw + b"}"
    read = None
    # Half a surrogate pair is the one thing JSON's grammar lets through and we do not.
    with suppress(GroveError) if rb"\ud" in raw.lower() else nullcontext():
        read = decode(body, Carrying)
    assert read is None or bytes(read.attributes) == raw


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not valid JSON"),
        (b'{"attributes": [1,]}', "not valid JSON"),
        (b'{"attributes": 01}', "not valid JSON"),
        (b'{"attributes": "\x01"}', "not valid JSON"),
        (b'{"attributes": "\\q"}', "not valid JSON"),
        (b'{"attributes": "\\ud800"}', "surrogate"),
        (b'{"attributes": 1} more', "not valid JSON"),
        (b'{"attributes": "\xff"}', "UTF-8"),
        (b'{"ignored": "\xff", "attributes": 1}', "UTF-8"),
        (b'\xef\xbb\xbf{"attributes": 1}', "not valid JSON"),
        (b'{"attributes": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
        (b'{"attributes": ' + b'{"a":' * 101 + b"1" + b"}" * 101 + b"}", "nested"),
        (b"[]", "must be an object, not a list"),
        (b'"text"', "must be an object, not a text"),
        (b"null", "must be an object, not null"),
    ],
)
def test_what_is_no_json_object_is_refused_with_a_sentence(body: bytes, said: str):
    with pytest.raises(GroveError) as refused:
        decode(body, Carrying)
    assert refused.value.code == "invalid_input"
    assert said in refused.value.message


def test_nesting_is_counted_outside_strings_only():
    brackets = b'"' + b"[{" * 500 + b'\\"' + b'"'
    assert bytes(decode(b'{"attributes":' + brackets + b"}", Carrying).attributes) == brackets
    deep = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    assert bytes(decode(b'{"attributes":' + deep + b"}", Carrying).attributes) == deep


@pytest.mark.parametrize(
    ("kind", "body", "param", "said"),
    [
        (CreateMemory, b"{}", "name", "name is required."),
        (CreateMemory, b'{"name": 1}', "name", "name must be a text, not a whole number."),
        (CreateMemory, b'{"name": null}', "name", "name must be a text, not null."),
        (CreateMemory, b'{"name": "a", "restricted": "yes"}', "restricted", "true or false or null"),
        (NewGrant, b'{"principal": "", "privileges": ["read"]}', "principal", "length >= 1"),
        (NewGrant, b'{"principal": "p", "privileges": []}', "privileges", "length >= 1"),
        (NewGrant, b'{"principal": "p", "privileges": ["own"]}', "privileges.0", "is one of create,"),
        (Observe, b'{"episodes": [{}]}', "episodes.0.content", "is required"),
        (
            Observe,
            b'{"episodes": [{"content": "a", "references": [{"memory_id": "m", "record_id": 7}]}]}',
            "episodes.0.references.0.record_id",
            "must be a text, not a whole number",
        ),
        (Erase, b'{"record_ids": "all"}', "record_ids", "must be a list, not a text"),
        (Recall, b'{"query": "a", "limit": -1}', "limit", "a whole number >= 0"),
        (Recall, b'{"query": "a", "limit": 1.5}', "limit", "must be a whole number"),
        (Recall, b'{"query": "a", "depth": 99999999999}', "depth", "a whole number <= 2147483647"),
        (Recall, b'{"filters": [1]}', "filters", "must be an object"),
        (Recall, b'{"query": "a", "as_of": "yesterday"}', "as_of", "RFC 3339"),
        (Dated, b'{"at": "2026-10-01T00:00:00"}', "at", "RFC 3339"),
        (Remember, b'{"type": "fact", "time": {"valid_from": 5}}', "time.valid_from", "RFC 3339"),
        (Bounded, b'{"count": true}', "count", "must be a whole number"),
    ],
)
def test_a_field_at_fault_is_named_and_explained(kind: type[Ask], body: bytes, param: str, said: str):
    with pytest.raises(GroveError) as refused:
        decode(body, kind)
    assert (refused.value.code, refused.value.param) == ("invalid_input", param)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("filter_", "param", "said"),
    [
        (
            '{"field": "type", "op": "like", "value": 1}',
            "filters.op",
            "The condition on type needs one of eq, ne,",
        ),
        ('{"field": "type", "value": 1}', "filters.op", "The condition on type needs one of eq, ne, in,"),
        ('{"field": "type", "op": "gt"}', "filters.value", "The condition gt on type needs a value."),
        (
            '{"not": {"field": "type", "op": "in", "value": 1}}',
            "filters.not.value",
            "in on type takes a list.",
        ),
        ('{"and": [{"op": "eq", "value": 1}]}', "filters.and.0", "exactly one"),
        ('{"or": []}', "filters.or", "at least one filter"),
    ],
)
def test_a_condition_at_fault_is_named_with_its_field_and_op(filter_: str, param: str, said: str):
    with pytest.raises(GroveError) as refused:
        tree_of(decode(filter_.encode(), Filter))
    assert (refused.value.code, refused.value.param) == ("invalid_input", param)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (Recall, b'{"include": "x"}', "include is one of active, all, forgotten, superseded."),
        (
            NewGrant,
            b'{"principal": "p", "privileges": ["x"]}',
            "privileges.0 is one of create, delete, read, write.",
        ),
        (
            Observe,
            b'{"episodes": [{"content": "a", "role": "x"}]}',
            "episodes.0.role is one of assistant, system,",
        ),
    ],
)
def test_where_a_few_values_are_taken_they_are_named(kind: type[Ask], body: bytes, said: str):
    with pytest.raises(GroveError, match=said):
        decode(body, kind)


def test_an_explanation_repeats_nothing_that_was_sent():
    secret = "s3cret-value"
    with pytest.raises(GroveError) as refused:
        decode(json.dumps({"principal": "p", "privileges": [secret]}).encode(), NewGrant)
    assert secret not in refused.value.message


@pytest.mark.requirement("SU-requests-06")
def test_fields_nobody_declared_are_ignored():
    assert decode(b'{"name": "a", "written_by": {"kind": "person"}, "x": [1]}', CreateMemory).name == "a"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"name": "a\\u0000b"}', "name"),
        (b'{"name": "a", "description": "\\u0000"}', "description"),
    ],
)
def test_no_text_holds_nul(body: bytes, param: str):
    with pytest.raises(GroveError) as refused:
        decode(body, CreateMemory)
    assert refused.value.param == param


def test_a_nul_deep_inside_is_found_by_its_place():
    body = b'{"episodes": [{"content": "a", "references": [{"memory_id": "m\\u0000", "record_id": "r"}]}]}'
    with pytest.raises(GroveError) as refused:
        decode(body, Observe)
    assert refused.value.param == "episodes.0.references.0.memory_id"


def test_an_escaped_backslash_before_u0000_is_no_nul():
    assert decode(rb'{"name": "\\u0000"}', CreateMemory).name == r"\u0000"


def test_ignored_fields_are_named_in_the_order_sent():
    body = b"""{"tools": [], "input": "hi", "temperature": 0.1, "include": null,
        "metadata": {"harness_id": "h", "memory": "m", "ticket": 7}, "stream": true}"""
    assert ignored_fields(body) == ["tools", "temperature", "include", "metadata.ticket"]


def test_nothing_is_ignored_when_nothing_is_unknown():
    every = dict.fromkeys(CreateResponse.__struct_fields__)
    assert ignored_fields(json.dumps(every).encode()) == []


def _filter(raw: str) -> Filter:
    return decode(raw.encode(), Filter)


@pytest.mark.requirement("SU-memories-09")
def test_a_filter_is_a_condition_or_a_tree_of_them():
    asked = _filter(
        '{"and": [{"field": "attributes.price", "op": "eq", "value": 1.10},'
        ' {"or": [{"field": "type", "op": "in", "value": ["fact"]}]},'
        ' {"not": {"field": "attributes.gone", "op": "exists"}}]}'
    )
    assert tree_of(asked) == Tree(
        every=True,
        nodes=[
            Condition(field="attributes.price", op="eq", value=b"1.10"),
            Tree(every=False, nodes=[Condition(field="type", op="in", value=b'["fact"]')]),
            Not(node=Condition(field="attributes.gone", op="exists", value=b"true")),
        ],
    )


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        ("{}", "filters"),
        ('{"op": "eq", "value": 1}', "filters"),
        ('{"field": "type", "op": "eq", "value": 1, "and": []}', "filters"),
        ('{"field": "type", "value": 1}', "filters.op"),
        ('{"field": "type", "op": "eq"}', "filters.value"),
        ('{"field": "type", "op": "in", "value": "fact"}', "filters.value"),
        ('{"and": []}', "filters.and"),
        ('{"and": [{"not": {"or": [{}]}}]}', "filters.and.0.not.or.0"),
    ],
)
def test_a_filter_of_no_known_shape_is_refused_by_its_place(raw: str, param: str):
    with pytest.raises(GroveError) as refused:
        tree_of(_filter(raw))
    assert (refused.value.code, refused.value.param) == ("invalid_input", param)


def test_a_filter_is_bounded_in_size_and_depth():
    one = '{"field": "type", "op": "exists"}'
    wide = '{"or": [' + ",".join([one] * (MAX_NODES - 1)) + "]}"
    assert tree_of(_filter(wide))
    with pytest.raises(GroveError):
        tree_of(_filter('{"or": [' + ",".join([one] * MAX_NODES) + "]}"))
    with pytest.raises(GroveError):
        tree_of(_filter('{"not": ' * (FILTER_DEPTH + 1) + one + "}" * (FILTER_DEPTH + 1)))


@pytest.mark.parametrize(
    ("raw", "param", "message"),
    [
        (b"[]", "filters", "filters must be an object"),
        (b"{", "filters", "filters is not valid JSON"),
        (b'{"and": {}}', "filters.and", "filters.and must be a list"),
        (b'{"field": "a\\u0000"}', "filters.field", "filters.field cannot contain the NUL"),
        (b'{"value": ' + b"[" * 200 + b"]" * 200 + b"}", "filters", "filters is nested more than"),
    ],
)
def test_a_field_that_is_json_of_its_own_is_told_of_by_its_name(raw: bytes, param: str, message: str):
    with pytest.raises(GroveError) as refused:
        decode(raw, Filter, "filters")
    assert (refused.value.code, refused.value.param) == ("invalid_input", param)
    assert refused.value.message.startswith(message)
