"""Attributes are edited by path, and every other byte of them stays."""

from datetime import UTC, datetime

import pytest

from service_kit.attributes import changed, definition, path_of, projection
from service_kit.errors import GroveError

RAW = b'{ "z": 1.10, "big":123456789012345678901234567890, "a" : {"y":1e400,"x":[1, 2.50]}, "t":"\\u00e9" }'
NOW = datetime(2026, 10, 4, 12, tzinfo=UTC)


def test_what_is_not_changed_keeps_its_digits_order_and_escapes():
    after = changed(RAW, ["a", "new"], b'{"k": 1.00}')
    assert after == (
        b'{"z":1.10,"big":123456789012345678901234567890,'
        b'"a":{"y":1e400,"x":[1, 2.50],"new":{"k": 1.00}},"t":"\\u00e9"}'
    )
    assert changed(after, ["a", "new"], None) == changed(RAW, ["none"], None).replace(
        b"[1,2.50]", b"[1, 2.50]"
    )


def test_what_lies_deep_is_made_on_the_way_and_not_through_what_is_no_object():
    assert changed(b"", ["a", "b", "c"], b"1") == b'{"a":{"b":{"c":1}}}'
    assert changed(b'{"a":1}', ["b", "c"], None) == b'{"a":1}'
    with pytest.raises(GroveError) as refused:
        changed(b'{"a":{"b":[1]}}', ["a", "b", "c"], b"1")
    assert (refused.value.code, refused.value.param) == ("memory_invalid", "attributes.a.b")


def test_an_operation_sets_what_it_says():
    written = (
        b'{"set": {"attributes.status": {"const": "done"}, "attributes.at": {"now": true},'
        b' "attributes.price": {"input": "offer.price"}, "attributes.kept": {"input": "absent"},'
        b' "attributes.old": {"remove": true}, "attributes.none": {"const": null}}}'
    )
    after = definition(written, "definition").apply(b'{"old":1,"kept":2.0}', b'{"offer":{"price":1.10}}', NOW)
    assert after == b'{"kept":2.0,"status":"done","at":"2026-10-04T12:00:00Z","price":1.10,"none":null}'


@pytest.mark.parametrize(
    "written",
    [
        b"[]",
        b"{}",
        b'{"set": {}}',
        b'{"set": {"status": {"const": 1}}}',
        b'{"set": {"attributes.": {"const": 1}}}',
        b'{"set": {"attributes.a": {}}}',
        b'{"set": {"attributes.a": {"const": 1, "now": true}}}',
        b'{"set": {"attributes.a": {"now": false}}}',
        b'{"set": {"attributes.a": {"input": ""}}}',
        b'{"set": {"attributes.a": {"delete": true}}}',
        b'{"set": {"attributes.a": {"const": 1}}, "when": {}}',
        b'{"set": {"attributes.a": 1}}',
    ],
)
def test_what_is_no_definition_is_refused(written: bytes):
    with pytest.raises(GroveError) as refused:
        definition(written, "definition")
    assert (refused.value.code, (refused.value.param or "").startswith("definition")) == (
        "memory_invalid",
        True,
    )


def test_a_projection_is_one_line_of_what_lies_at_its_paths():
    raw = (
        b'{"title":"Sync\\n with  Ruth","who":["Ann",{"n":1},"Bo"],"big":12345678901234567890.10,'
        b'"flag":true,"none":null,"a":{"b":"deep"}}'
    )
    paths = [f"attributes.{one}" for one in ("title", "who", "big", "flag", "none", "a", "a.b", "absent.x")]
    assert projection(raw, paths) == "Sync with Ruth, Ann, Bo, 12345678901234567890.10, yes, deep"
    assert projection(b"", paths) == ""


def test_a_path_names_attributes():
    assert path_of("attributes.a.b", "p") == ("a", "b")
    for odd in ("a", "attributes", "attributes..a", "attributes." + ".".join("a" * 17)):
        with pytest.raises(GroveError):
            path_of(odd, "p")
