"""Every route that answers records answers them in the revision that was asked for, and says which it was."""

from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from gateway.main import application
from gateway.settings import GatewaySettings
from tests.e2e.caller import Json
from tests.e2e.people import Person
from tests.e2e.routes import CLASSES, Route, call
from tests.fixtures.parts import short_directory
from tests.fixtures.stack import running

pytestmark = pytest.mark.slow

DOCUMENT = application(GatewaySettings(), MagicMock(), MagicMock()).openapi()
REVISIONS = ("original", "post3")
RECORD = "memory.record"


def leads_to_records(part: object, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a part of the document refers to the schema of a record, at any remove."""
    if isinstance(part, dict):
        known = cast("Json", part)
        ref = str(known.get("$ref", ""))
        name = ref.rpartition("/")[2]
        if name == "RecordAnswer":
            return True
        if ref.startswith("#/components/schemas/") and name not in seen:
            return leads_to_records(DOCUMENT["components"]["schemas"][name], seen | {name})
        return any(leads_to_records(inner, seen) for inner in known.values())
    return isinstance(part, list) and any(leads_to_records(one, seen) for one in cast("list[object]", part))


ANSWERING = [
    (method.upper(), path)
    for path, methods in cast("dict[str, dict[str, Any]]", DOCUMENT["paths"]).items()
    for method, operation in methods.items()
    if leads_to_records(operation["responses"]["200"]["content"])
]
LATER = {("POST", "/v1/memories/{memory_id}/observe")}
"""What answers a job first; its records are read at the job's address."""
OPERATED = ("POST", "/v1/memories/{memory_id}/records/{record_id}/operations/{operation}")
"""Needs a record whose type has operations."""


def of(method: str, path: str) -> Route:
    found = [
        route
        for table in CLASSES.values()
        for route in table
        if (route.method, route.template) == (method, path)
    ]
    assert found, f"{method} {path} is in no table of tests/e2e/routes.py"
    return found[0]


def records(value: object) -> Iterator[Json]:
    """Every record in an answer."""
    if isinstance(value, dict):
        known = cast("Json", value)
        if known.get("object") == RECORD:
            yield known
        for inner in known.values():
            yield from records(inner)
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            yield from records(one)


def in_revision(record: Json, revision: str) -> bool:
    return isinstance(record["content"], list if revision == "post3" else str)


def test_the_routes_that_answer_records_are_known():
    assert len(ANSWERING) >= 8


@pytest.mark.requirement("SU-revisions-01", "SU-revisions-02")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("method", "path"), ANSWERING, ids=" ".join)
def test_records_are_answered_in_the_revision_asked_for(alice: Person, method: str, path: str, revision: str):
    route = of(method, path)
    names = route.world(alice) | route.own(alice)
    if (method, path) == OPERATED:
        task = {"type": "x.task", "content": "Call Ruth.", "attributes": {"title": "Call Ruth."}}
        made = alice.post(f"/v1/memories/{names['memory_id']}/records", task)
        names |= {"record_id": str(made["id"]), "operation": "complete"}
    headers = {"UHP-Memories-Revision": revision}
    answer = call(alice, route, names, headers)
    assert answer.is_success, answer.text
    assert answer.headers["uhp-memories-revision"] == revision
    if "job_id" in names and path.endswith("{job_id}"):
        answer = alice.until(
            lambda: call(alice, route, names, headers), lambda one: one.json()["status"] != "pending"
        )
    told = list(records(answer.json()))
    assert told or (method, path) in LATER
    assert all(in_revision(one, revision) for one in told)


@pytest.mark.requirement("SU-revisions-01")
@pytest.mark.parametrize(
    "path", ["", "/nothing", "/providers", "/types", "/nothing/records", "/nothing/nothing"]
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_answer_below_memories_says_its_revision(alice: Person, path: str, revision: str):
    answer = alice.send("GET", f"/v1/memories{path}", None, {"UHP-Memories-Revision": revision})
    assert answer.headers["uhp-memories-revision"] == revision


@pytest.mark.requirement("SU-revisions-01")
def test_the_setting_says_which_revision_is_spoken_unasked():
    with (
        short_directory() as directory,
        running(directory / "home", {"GROVE_MEMORIES_REVISION": "post3"}) as stack,
        Person(stack.url, stack.token(person="alice"), principal="person:alice") as alice,
    ):
        memory = alice.plant("Unasked")
        made = alice.send("POST", f"/v1/memories/{memory}/records", {"type": "fact", "content": "Owls fly."})
        assert made.headers["uhp-memories-revision"] == "post3"
        assert made.json()["content"] == [{"type": "text", "text": "Owls fly."}]
        asked = alice.send(
            "GET",
            f"/v1/memories/{memory}/records/{made.json()['id']}",
            None,
            {"UHP-Memories-Revision": "original"},
        )
        assert (asked.headers["uhp-memories-revision"], asked.json()["content"]) == ("original", "Owls fly.")
