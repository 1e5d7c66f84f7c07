"""The running product's own description against the table of routes: nothing is left out of the tests of access."""

import re
from collections.abc import Iterator
from typing import cast

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person
from tests.e2e.routes import ADMIN_ROUTES, CLASSES, NAMES_NOTHING, Route

SOUNDS_LIKE_A_NAME = re.compile(
    r"(^|_)(id|ids|memory|memories|parent|ancestor|record|grant|job|harness|response|session|token|group|groups|member"
    r"|principal|person|credential|actor|supersedes)(_|$)"
)


@pytest.fixture
def document(alice: Person) -> Json:
    return alice.get("/openapi.json")


def test_every_route_there_is_stands_in_a_table(document: Json):
    there_is = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    known = {(route.method, route.template) for table in CLASSES.values() for route in table}
    for method, path in sorted(there_is - known):
        pytest.fail(
            f"{method} {path} is not classified: put it into the table of tests/e2e/routes.py that says what it names"
            f" ({', '.join(CLASSES)}), and the tests of access will show that it gives nothing away."
        )
    assert not known - there_is, "tests/e2e/routes.py has routes that are gone"


def test_whatever_a_request_can_name_is_named_in_a_table(document: Json):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            routes = [
                route
                for table in CLASSES.values()
                for route in table
                if (route.method, route.template) == (method.upper(), path) and route not in ADMIN_ROUTES
            ]
            used = {name for route in routes for name in fields_naming(route)}
            for name in fields(operation, document) if routes else ():
                if (
                    SOUNDS_LIKE_A_NAME.search(name.rpartition(".")[2])
                    and not _endings(name) & NAMES_NOTHING.keys()
                ):
                    assert name in used, (
                        f"{method.upper()} {path} takes {name!r}, and no route of tests/e2e/routes.py names anything"
                        " with it: add one that does, or say in NAMES_NOTHING why there is nothing to show."
                    )


def test_nothing_is_excused_that_is_not_there(document: Json):
    there_is = {
        ending
        for methods in document["paths"].values()
        for operation in methods.values()
        for name in fields(operation, document)
        for ending in _endings(name)
    }
    assert there_is >= NAMES_NOTHING.keys()


def fields(operation: Json, document: Json) -> Iterator[str]:
    """The parameters of an operation and the fields of its body, dotted."""
    yield from (parameter["name"] for parameter in operation.get("parameters", []))
    if "requestBody" in operation:
        (media,) = operation["requestBody"]["content"].values()
        body = media["schema"]
        yield from _properties(body, document["components"]["schemas"], (), frozenset())


def _properties(schema: Json, schemas: Json, above: tuple[str, ...], seen: frozenset[str]) -> Iterator[str]:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        if name not in seen:
            yield from _properties(schemas[name], schemas, above, seen | {name})
    inner = [
        *schema.get("anyOf", ()),
        *schema.get("oneOf", ()),
        *([schema["items"]] if "items" in schema else ()),
    ]
    for part in inner:
        yield from _properties(part, schemas, above, seen)
    for name, part in cast("Json", schema.get("properties", {})).items():
        yield ".".join((*above, name))
        yield from _properties(part, schemas, (*above, name), seen)


def _endings(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[start:]) for start in range(len(parts))}


def fields_naming(route: Route) -> Iterator[str]:
    """Parameters and fields in which a route of the table names something."""
    yield from re.findall(r"{(\w+)}", route.template)
    yield from re.findall(r"(\w+)={", route.query)
    yield from _naming(route.body, ())


def _naming(value: object, above: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in cast("Json", value).items():
            yield from _naming(inner, (*above, name))
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _naming(inner, above)
    elif isinstance(value, str) and value.startswith("{"):
        yield from (".".join(above[: end + 1]) for end in range(len(above)))
