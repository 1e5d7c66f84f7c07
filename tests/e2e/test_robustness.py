"""Whatever is sent, the answer is in the envelope and never a failure of the server."""

import json
import random
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest

from tests.e2e.people import Person, envelope
from tests.e2e.routes import (
    HARNESS_ROUTES,
    MEMORY_ROUTES,
    RESPONSE_ROUTES,
    Route,
    ended_response,
    filled,
    harness,
    memory_with_everything,
)

SEED = 20261004
ROUNDS = 40

ODD: tuple[bytes, ...] = (
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1.5",
    b"1e400",
    b"-0.0",
    b"99999999999999999999999999",
    b"2147483648",
    b'""',
    b'"x"',
    b'"\\u0000"',
    b'"a\\u0000b"',
    b'"\\ud800"',
    '"\N{PILE OF POO}\u202e\u0301"'.encode(),
    b'"\xff"',
    b'"' + b"y" * 70_000 + b'"',
    b"[]",
    b"{}",
    b"[[]]",
    b"[null]",
    b'{"":{}}',
    b'{"a":{"b":[1,{"c":null}]}}',
    b"[" * 60 + b"]" * 60,
    b'{"type":"text","text":"a"}',
    b'[{"type":"text","text":"a"}]',
    b'{"file":{"id":"file_1"}}',
    b'{"field":"type","op":"eq","value":"fact"}',
    b'{"field":"attributes.a.b.c","op":"gt","value":{"x":[1e400]}}',
    b'{"not":{"and":[{"field":"time.valid_from","op":"lt","value":"nonsense"}]}}',
    b'"0001-01-01T00:00:00Z"',
    b'"9999-12-31T23:59:59.999999Z"',
    b'"2026-10-01T00:00:00+23:59"',
)

BODIES: dict[str, tuple[dict[str, Any], ...]] = {
    "/v1/memories/{memory_id}/recall": (
        {
            "query": "q",
            "text": "t",
            "filters": {"and": [{"field": "attributes.a", "op": "in", "value": [1]}]},
            "types": ["fact"],
            "as_of": "2026-10-01T00:00:00Z",
            "include": "all",
            "limit": 3,
            "depth": 1,
        },
    ),
    "/v1/memories/{memory_id}/records": (
        {
            "type": "fact",
            "content": [{"type": "text", "text": "a", "role": "user"}],
            "attributes": {"a": {"b": [1, None]}},
            "time": {"valid_from": "2026-10-01T00:00:00Z", "valid_to": None},
            "references": [{"memory_id": "m", "record_id": "r", "rel": "x"}],
            "supersedes": "hrec_1",
        },
    ),
    "/v1/memories/{memory_id}/observe": (
        {
            "episodes": [
                {
                    "content": "a",
                    "role": "user",
                    "attributes": {"a": 1},
                    "time": {"valid_from": "2026-10-01T00:00:00Z"},
                }
            ]
        },
    ),
    "/v1/responses": (
        {
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi."}]}],
            "model": "scripted-1",
            "metadata": {"harness_id": "h", "memory": "m", "x": 1},
            "instructions": "i",
            "previous_response_id": "p",
            "max_step": 1,
            "max_output_tokens": 1,
            "timeout_seconds": 1,
            "background": True,
        },
    ),
    "/v1/harnesses/{harness_id}": (
        {
            "name": "n",
            "base": "scripted",
            "default_model": "scripted-1",
            "system_prompt": "s",
            "disabled_tools": ["t"],
            "max_step": 1,
            "timeout_seconds": 1,
            "mcp_servers": [],
        },
    ),
}
"""Fuller bodies than the table of routes needs, so that every field has its turn."""

WRITING = [route for route in (*MEMORY_ROUTES, *HARNESS_ROUTES, *RESPONSE_ROUTES) if route.body is not None]


def mutations(body: object, rng: random.Random) -> Iterator[bytes]:
    """JSON texts that differ from ``body`` in one or two places, and some that are no JSON at all."""
    whole = json.dumps(body).encode()
    yield from (b"", b"{", whole[:-1], whole + b"x", b"\xef\xbb\xbf" + whole, b"[" * 100_000)
    yield from ODD
    for _ in range(ROUNDS):
        marked = json.loads(whole)
        for number in range(rng.choice((1, 1, 2))):
            _mark(marked, f"@@{number}@@", rng)
        text = json.dumps(marked).encode()
        for number in range(2):
            text = text.replace(b'"@@%d@@"' % number, rng.choice(ODD))
        yield text


def _mark(value: object, mark: str, rng: random.Random) -> None:
    """Put ``mark`` in a random place of ``value``, in place."""
    while True:
        places: list[object]
        if isinstance(value, dict):
            known = cast("dict[str, object]", value)
            places = [*known, f"new{rng.randrange(9)}"]
            key = cast("str", rng.choice(places))
            inner = known.get(key)
            if isinstance(inner, dict | list) and inner and rng.random() < 0.6:
                value = cast("object", inner)
                continue
            known[key] = mark
        elif isinstance(value, list):
            several = cast("list[object]", value)
            index = rng.randrange(len(several) + 1)
            if index < len(several) and isinstance(several[index], dict | list) and rng.random() < 0.6:
                value = several[index]
                continue
            several[index : index + 1] = [mark]
        return


def world(caller: Person) -> dict[str, str]:
    return {**memory_with_everything(caller), **harness(caller), **ended_response(caller)}


def check(answer: httpx.Response, sent: bytes) -> None:
    assert answer.status_code < 500, (sent[:300], answer.text)
    if not answer.is_success:
        envelope(answer)


@pytest.mark.parametrize(
    "route", WRITING, ids=lambda route: f"{route.method} {route.path} {list(route.body)}"
)
def test_no_body_breaks_the_server(alice: Person, route: Route):
    rng = random.Random(SEED)  # noqa: S311 - the same every time
    names = world(alice)
    whole = filled(route.body, names) or {}
    # What is accepted need not be waited for.
    whole |= {"background": True} if route.path == "/v1/responses" else {}
    for body in (whole, *BODIES.get(route.path, ())):
        for sent in mutations(body, rng):
            answer = alice.http.request(route.method, route.at(names), content=sent)
            check(answer, sent)
            if answer.status_code == 404 and "memory_not_found" in answer.text:
                names |= memory_with_everything(alice)


QUERIES = (
    "limit=0&cursor=",
    "limit=-1",
    "limit=99999999999999999999",
    "limit=1e3",
    "cursor=x",
    "cursor=" + "y" * 3000,
    "cursor=WyJhIl0",
    "cursor=W10",
    "cursor=WzEsMiwzXQ",
    "cursor=WyIyMDI2LTEwLTAxIiwiaHJlY18xIl0",
    "cursor=WyJcdTAwMDAiLCJhIl0",
    "types=&types=,,,&types=fact",
    "types=%00",
    "include=",
    "include=none",
    "as_of=now",
    "as_of=0001-01-01T00:00:00Z",
    "as_of=9999-12-31T23:59:59Z",
    "filters=",
    "filters=x",
    "filters={}",
    "filters=%7B%22field%22:%22time.valid_from%22,%22op%22:%22gt%22,%22value%22:%22x%22%7D",
    "filters=%7B%22field%22:%22attributes.a%22,%22op%22:%22eq%22,%22value%22:1e400%7D",
    "filters=%7B%22field%22:%22attributes.%22,%22op%22:%22exists%22%7D",
    "filters=%7B%22field%22:%22nothing%22,%22op%22:%22eq%22,%22value%22:1%7D",
    "parent=&ancestor=",
    "parent=%F0%28%8C%BC",
    "stream=maybe",
    "stream=true&starting_after=-5",
    "a=1&a=2&%00=%00",
    "expected_version=0",
    "expected_version=abc",
)


def test_no_query_breaks_the_server(alice: Person):
    names = world(alice) | {"own_index": "0"}
    for route in (*MEMORY_ROUTES, *HARNESS_ROUTES, *RESPONSE_ROUTES):
        if route.method == "GET" and not route.query:
            for query in QUERIES:
                check(alice.http.get(f"{route.at(names)}?{query}"), query.encode())
    for query in QUERIES:
        check(alice.http.get(f"/v1/memories?{query}"), query.encode())


@pytest.mark.parametrize(
    "headers",
    [
        {"Idempotency-Key": ""},
        {"Idempotency-Key": "x" * 256},
        {"Idempotency-Key": "\xff"},
        {"If-Match": "nonsense"},
        {"If-Match": '"99999999999999999999"'},
        {"UHP-Version": "x"},
        {"UHP-Memories-Revision": "\xff"},
        {"traceparent": "x" * 1000, "tracestate": "\xff=\xff"},
        {"baggage": "x=\xff"},
        {"Content-Type": "text/plain; charset=latin-1"},
        {"Content-Encoding": "gzip"},
        {"Last-Event-ID": "\xff"},
        {"Accept": "text/html"},
        {"Range": "bytes=0-1"},
    ],
    ids=str,
)
def test_no_header_breaks_the_server(alice: Person, headers: dict[str, str]):
    memory = alice.plant("m")
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    for method, path, body in (
        ("POST", f"/v1/memories/{memory}/records", {"type": "fact", "content": "a"}),
        ("PATCH", f"/v1/memories/{memory}/records/x", {"content": "a"}),
        ("GET", "/v1/responses/x?stream=true", None),
    ):
        check(alice.http.request(method, path, json=body, headers=raw), repr(headers).encode())
