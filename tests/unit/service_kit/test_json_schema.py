"""Schemas that callers write: bounded, closed to the outside, exact."""

import json
import time

import pytest

from service_kit.errors import GroveError
from service_kit.json_schema import MAX_BYTES, json_schema


def _refusal(schema: str) -> GroveError:
    with pytest.raises(GroveError) as caught:
        json_schema(schema.encode(), "params")
    assert caught.value.code == "memory_invalid"
    assert caught.value.param == "params"
    return caught.value


def test_an_instance_that_fits_passes_and_one_that_does_not_is_told_where() -> None:
    schema = json_schema(b'{"type":"object","properties":{"a":{"type":"integer","maximum":9}}}', "params")
    schema.check(b'{"a": 9}', "params")
    with pytest.raises(GroveError) as caught:
        schema.check(b'{"a": 10}', "params")
    assert caught.value.code == "memory_invalid"
    assert caught.value.param == "params.a"
    with pytest.raises(GroveError, match="not valid JSON"):
        schema.check(b"{", "params")


def test_numbers_beyond_a_double_are_compared_exactly() -> None:
    schema = json_schema(b'{"const": 123456789012345678901234567890}', "params")
    schema.check(b"123456789012345678901234567890", "params")
    with pytest.raises(GroveError):
        schema.check(b"123456789012345678901234567891", "params")
    json_schema(b'{"type": "number"}', "params").check(b"1e400", "params")
    for above in (b"1e400", b"1.00000000000000000000000001"):
        with pytest.raises(GroveError, match="greater than"):
            json_schema(b'{"maximum": 1}', "params").check(above, "params")


def test_a_number_too_long_to_be_compared_is_called_that() -> None:
    with pytest.raises(GroveError, match="a number too long"):
        json_schema(b'{"type": "integer"}', "params").check(b"9" * 5000, "params")


@pytest.mark.parametrize(
    "schema",
    [
        "5",
        "true",
        "{",
        "\xff",
        '{"type": "nope"}',
        '{"$ref": "http://127.0.0.1:9/x"}',
        '{"$ref": "file:///etc/passwd"}',
        '{"$ref": "#"}',
        '{"$ref": "#/$defs/none"}',
        '{"$schema": "http://example.com/mine"}',
        '{"properties": {"a": {"$id": "http://a/", "type": "string"}}}',
        '{"$dynamicRef": "#x"}',
        '{"pattern": "(?=a)b"}',
        '{"$defs": {"a": {"properties": {"x": {"$ref": "#/$defs/a"}}}}, "$ref": "#/$defs/a"}',
        '{"title": "%s"}' % ("x" * MAX_BYTES),
        '{"not":' * 70 + "{}" + "}" * 70,
    ],
)
def test_what_reaches_out_goes_in_circles_or_is_no_schema_is_refused(schema: str) -> None:
    assert _refusal(schema).message.startswith("The schema ")


def test_references_that_double_at_every_step_are_refused_before_they_are_run() -> None:
    levels = ",".join(
        f'"d{i}": {{"allOf": [{{"$ref": "#/$defs/d{i + 1}"}}, {{"$ref": "#/$defs/d{i + 1}"}}]}}'
        for i in range(15)
    )
    schema = f'{{"$defs": {{{levels}, "d15": {{}}}}, "$ref": "#/$defs/d0"}}'
    assert "too large" in _refusal(schema).message


def test_a_pattern_that_backtracks_elsewhere_takes_no_time_here() -> None:
    schema = json_schema(b'{"pattern": "^(a+)+$"}', "params")
    began = time.perf_counter()
    with pytest.raises(GroveError):
        schema.check(b'"' + b"a" * 30_000 + b'!"', "params")
    assert time.perf_counter() - began < 5


def _doubling(spelled: str, levels: int) -> dict[str, object]:
    """Each level asks the next one twice; ``spelled`` is how a reference writes the letter n."""
    made: dict[str, object] = {
        f"n{at}": {"allOf": [{"$ref": f"#/{spelled}{at + 1}"}] * 2} for at in range(levels)
    }
    return {**made, f"n{levels}": {}}


def test_a_reference_spelled_in_percent_hides_no_size() -> None:
    hidden = {**_doubling("%6e", 40), "$ref": "#/%6e0"}
    with pytest.raises(GroveError, match="without %"):
        json_schema(json.dumps(hidden).encode(), "params")


def test_an_id_of_draft_4_moves_no_reference_out_of_sight() -> None:
    hidden = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "n0": {},
        "definitions": {"r": {"id": "http://elsewhere/x", **_doubling("n", 40), "allOf": [{"$ref": "#/n0"}]}},
        "allOf": [{"$ref": "#/definitions/r"}],
    }
    with pytest.raises(GroveError, match="uses id"):
        json_schema(json.dumps(hidden).encode(), "params")


def test_a_large_instance_is_not_run_through_a_large_schema() -> None:
    many = {"properties": {"a": {"allOf": [{"contains": {"minimum": at}} for at in range(1_500)]}}}
    schema = json_schema(json.dumps(many).encode(), "params")
    with pytest.raises(GroveError, match="holds too much"):
        schema.check(b'{"a":[' + b",".join([b"1"] * 30_000) + b"]}", "params")
    plain = json_schema(b'{"properties":{"a":{"items":{"type":"integer"}}}}', "params")
    plain.check(b'{"a":[' + b",".join([b"1"] * 30_000) + b"]}", "params")
