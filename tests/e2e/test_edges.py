"""The edges of what can be sent, on every route there is: sizes, nesting, encodings, and names in paths and queries."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.caller import Caller
from tests.e2e.people import Person, envelope
from tests.e2e.routes import ADMIN_ROUTES, CLASSES, Route
from tests.fixtures.stack import Stack

BODY_LIMIT = 8 * 1024 * 1024
DEEPEST = 100
EVERY = [route for table in CLASSES.values() for route in table]
ONCE = list({(route.method, route.template): route for route in EVERY}.values())
WITH_BODY = list({(one.method, one.template): one for one in EVERY if one.body is not None}.values())
WITH_NAMES = [route for route in ONCE if "{" in route.path]

NO_OBJECT = (
    b"",
    b"   ",
    b"null",
    b"true",
    b"5",
    b'"x"',
    b"[]",
    b"[{}]",
    b"{",
    b"{}}",
    b"\xff\xfe",
    b'{"a":"\xff"}',
)
NAMES = (
    "x" * 300,
    "x" * 10_000,
    "%00",
    "a%00b",
    "%2f",
    "..%2f..",
    "%2e%2e",
    "%ff",
    "%0d%0a",
    "\u202e\u0301",
    "%25",
    "*",
)
QUERIES = (
    "limit=1&limit=2",
    "limit=1" + "0" * 300,
    "cursor=" + "y" * 10_000,
    "cursor=%ff",
    "as_of=" + "9" * 5_000,
    "as_of=2026-10-01T00:00:00Z&as_of=x",
    "filters=" + "[" * 5_000,
    "types=" + "fact," * 2_000,
    "parent=" + "x" * 5_000,
    "principal=" + "x" * 5_000,
    "=&&&=",
    "%00=1",
)


def check(answer: httpx.Response, *statuses: int) -> None:
    """An answer that is no failure of the server, in the envelope; one of ``statuses`` where there are any."""
    said = (
        f"{answer.request.method} {str(answer.request.url)[:120]}: {answer.status_code} {answer.text[:200]}"
    )
    assert answer.status_code < 500, said
    assert not statuses or answer.status_code in statuses, said
    if not answer.is_success:
        envelope(answer)


def path_of(route: Route, name: str = "nothing") -> str:
    """The address with that in place of everything it names."""
    return re.sub(r"{\w+}", lambda _: name, route.path)


@pytest.fixture
def everybody(stack: Stack, alice: Person) -> Iterator[dict[bool, Caller]]:
    """An administrator for what needs one, and somebody."""
    with Caller(stack.url, stack.admin_token) as admin:
        yield {True: admin, False: alice}


@pytest.mark.parametrize("route", WITH_BODY, ids=str)
def test_a_body_that_is_no_object_is_400(everybody: dict[bool, Caller], route: Route):
    http = everybody[route in ADMIN_ROUTES].http
    # A run may be started without a body.
    optional = route.path.endswith("/consolidations")
    for body in [one for one in NO_OBJECT if one.strip() or not optional]:
        check(http.request(route.method, path_of(route), content=body), 400)
    nested = b'{"a":' * DEEPEST + b"1" + b"}" * DEEPEST
    check(http.request(route.method, path_of(route), content=nested))
    deeper = check_depth(http.request(route.method, path_of(route), content=b'{"b":' + nested + b"}"))
    assert "nested" in deeper


def check_depth(answer: httpx.Response) -> str:
    check(answer, 400)
    return str(answer.json()["error"]["message"])


@pytest.mark.parametrize("route", WITH_BODY, ids=str)
def test_a_key_twice_and_numbers_without_end_break_nothing(everybody: dict[bool, Caller], route: Route):
    http = everybody[route in ADMIN_ROUTES].http
    for name in route.body or {}:
        for value in (
            b"1e999999",
            b"-" + b"9" * 5_000,
            b"0." + b"1" * 5_000,
            b'"\\u0000"',
            b'"' + b"z" * 100_000 + b'"',
        ):
            twice = b'{"%s":1,"%s":%s}' % (name.encode(), name.encode(), value)
            check(http.request(route.method, path_of(route), content=twice))


@pytest.mark.parametrize("route", WITH_BODY, ids=str)
def test_a_body_is_read_up_to_the_limit_and_refused_one_byte_beyond(
    everybody: dict[bool, Caller], route: Route
):
    http = everybody[route in ADMIN_ROUTES].http
    full = b'{"nobody_knows":"' + b"y" * (BODY_LIMIT - 19) + b'"}'
    assert len(full) == BODY_LIMIT
    check(http.request(route.method, path_of(route), content=full), 400, 403, 404, 422)
    over = http.request(route.method, path_of(route), content=full + b" ")
    check(over, 413)
    assert over.json()["error"]["detail"]["max_bytes"] == BODY_LIMIT


@pytest.mark.parametrize("route", WITH_NAMES, ids=str)
def test_any_name_in_a_path_is_an_unknown_one(everybody: dict[bool, Caller], route: Route):
    http = everybody[route in ADMIN_ROUTES].http
    for name in NAMES:
        check(http.request(route.method, path_of(route, name), json=route.body), 400, 404, 405, 422)
    check(
        http.request(route.method, path_of(route, "x" * (40_000 // route.path.count("{"))), json=route.body),
        413,
    )


def test_any_query_is_read_or_refused(everybody: dict[bool, Caller]):
    for route in ONCE:
        if route.method == "GET":
            for query in QUERIES:
                http = everybody[route in ADMIN_ROUTES].http
                check(http.get(f"{path_of(route)}?{query}"))
