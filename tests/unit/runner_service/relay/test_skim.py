"""Finding values in JSON and in events that come in pieces, wherever they are cut."""

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_service.domain.model import Usage
from runner_service.relay.apis import APIS
from runner_service.relay.reading import Reading
from runner_service.relay.skim import EACH, Skim
from runner_service.relay.sse import Events

NAMES = st.sampled_from(["usage", "message", "model", "x", 'us"age', "usage\\", "é", "", "a" * 80])
TEXTS = st.sampled_from(['{"usage": 1}', '\\"usage":', "usage", "}{][,:", "\\", '"', "\n\t\x01", "é\u2028😀"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
PLACES = {
    (b"usage",): ["usage"],
    (b"message", b"usage"): ["message", "usage"],
    (b"message", EACH, b"model"): ["message", 0, "model"],
}


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    ends = sorted({one % (len(data) + 1) for one in at} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def look(value: Any, path: Sequence[str | int]) -> Any:
    """What stands at a path; in lists the last element that has it, as the skim finds it."""
    if not path:
        return value
    if isinstance(path[0], int):
        elements = cast("list[Any]", value) if isinstance(value, list) else []
        found = [look(one, path[1:]) for one in elements]
        return next((one for one in reversed(found) if one is not LookupError), LookupError)
    return look(value[path[0]], path[1:]) if isinstance(value, dict) and path[0] in value else LookupError


@given(
    value=JSON, at=st.lists(st.integers(0, 400), max_size=6), spaced=st.booleans(), ascii_only=st.booleans()
)
def test_what_stands_at_a_place_is_found_however_the_text_is_cut(
    value: Any, at: list[int], spaced: bool, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=1 if spaced else None, ensure_ascii=ascii_only).encode()
    skim = Skim(PLACES)
    for piece in cut(text, at):
        skim.feed(piece)
    found = {place: json.loads(spelled) for place, spelled in skim.found.items()}
    wanted = {place: look(value, path) for place, path in PLACES.items()}
    assert found == {place: one for place, one in wanted.items() if one is not LookupError}


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_what_is_no_json_harms_nobody(data: bytes, at: list[int]) -> None:
    skim = Skim(PLACES)
    for piece in cut(data, at):
        skim.feed(piece)


def test_what_is_too_long_or_too_deep_is_not_kept() -> None:
    skim = Skim(PLACES)
    for _ in range(1000):
        skim.feed(b'{"usage":"' if not skim.found and skim._kept is None else b"a" * 1000)
    assert skim._kept is not None
    assert len(skim._kept) < 6000
    skim.feed(b'"}')
    assert skim.found == {}
    skim.reset()
    skim.feed(b'{"a":' * 100_000)
    assert len(skim._open) < 100
    skim.reset()
    skim.feed(b'{"%b":1,"usage":2}' % (b"n" * 1_000_000))
    assert skim.found == {(b"usage",): b"2"}


STREAM = (
    b': a comment with "usage"\r\n\r\nevent: message_start\r\ndata: {"message":{"model":"m","usage":{"input_tokens":5,'
    b'"cache_read_input_tokens":2,"output_tokens":1}}}\r\n\r\ndata:{"delta":{"text":"\\"usage\\":{\\"output_tokens\\":99}"}}\n\n'
    b'data: {"usage": {"output_tokens":\ndata:  7},"delta":{"stop_reason":"end_turn"}}\r\rdata: [DONE]\n\n'
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_are_read_however_they_are_cut(at: list[int]) -> None:
    reading = Reading(APIS["anthropic"], streamed=True)
    for piece in cut(STREAM, at):
        reading.feed(piece)
    assert reading.usage() == Usage(7, 7)
    assert (reading.model, reading.finish, reading.error) == ("m", "end_turn", "")


def test_an_event_is_forgotten_when_it_is_over() -> None:
    told: list[object] = []
    events = Events(Skim([(b"usage",)]), told.append)
    events.feed(b'data: {"usage":1}\n\ndata: {"x":1}\n\ndata: {"usage":')
    assert told == [{(b"usage",): b"1"}]
    events.feed(b"2}\n")
    assert len(told) == 1
    events.feed(b"\n")
    assert told[1] == {(b"usage",): b"2"}


@pytest.mark.parametrize(
    ("kind", "body", "usage"),
    [
        ("chat", b'{"usage":null}', None),
        ("chat", b'{"usage":{"prompt_tokens":"many","completion_tokens":2}}', None),
        ("chat", b'{"usage":{"prompt_tokens":1,"completion_tokens":-2}}', None),
        ("chat", b'{"usage":{"prompt_tokens":1}}', None),
        ("chat", b'{"usage":[1,2]}', None),
        ("chat", b'{"usage":{"prompt_tokens":1,"completion_tokens":true}}', None),
        ("chat", b'{"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":2}}]}', None),
        ("responses", b'{"usage":{"input_tokens":1,"output_tokens":2}}', Usage(1, 2)),
        ("responses", b'{"metadata":{"usage":{"input_tokens":1,"output_tokens":2}}}', None),
    ],
)
def test_only_what_is_a_count_is_one(kind: str, body: bytes, usage: Usage | None) -> None:
    reading = Reading(APIS[kind], streamed=False)
    reading.feed(body)
    reading.end()
    assert reading.usage() == usage
