"""The running product against its own document: whatever fits the document, or does not, is answered as it says.

Each operation is asked with generated requests, half of them about things that exist. No answer is a failure of the
server, or has a status, a content type, a code or a shape that the document does not name. ``GROVE_FUZZ_EXAMPLES``
says how many of each kind; they are the same every time.
"""

import os
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from gateway.main import application
from gateway.settings import GatewaySettings
from tests.e2e.people import Person
from tests.e2e.routes import CLASSES, Names, Route
from tests.fixtures.stack import Stack

EXAMPLES = int(os.environ.get("GROVE_FUZZ_EXAMPLES", "10"))
CONFORMANCE: Any = checks  # what it exports is half typed
CHECKS = [
    CONFORMANCE.status_code_conformance,
    CONFORMANCE.content_type_conformance,
    CONFORMANCE.response_headers_conformance,
    CONFORMANCE.response_schema_conformance,
]
# Nothing is called here: which operations there are is known from the routes.
DOCUMENT = application(GatewaySettings(), MagicMock(), MagicMock()).openapi()
SCHEMA: Any = schemathesis.openapi.from_dict(DOCUMENT)
FEED = "/v1/harnesses/{harness_id}/events"
"""Not asked here, as it ends only when its caller goes: test_sessions.py reads it."""
OPERATIONS = [
    (method.upper(), path)
    for path, methods in cast("dict[str, dict[str, Any]]", DOCUMENT["paths"]).items()
    for method in methods
    if path != FEED
]
GONE = "_not_found"


def world_of(method: str, path: str, owner: Person) -> Names:
    """Something of everything the operation's path names, as its owner made it."""
    routes: list[Route] = [
        route
        for table in CLASSES.values()
        for route in table
        if (route.method, route.template) == (method, path)
    ]
    for route in routes:
        if names := route.world(owner):
            return names
    return {}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value
)
@pytest.mark.parametrize(
    ("method", "path"), OPERATIONS, ids=[f"{method} {path}" for method, path in OPERATIONS]
)
def test_every_answer_is_one_that_the_document_names(
    stack: Stack, alice: Person, method: str, path: str, mode: GenerationMode
):
    admin = path.startswith("/v1/grovekeeper")
    token = stack.admin_token if admin else alice.token
    names = world_of(method, path, alice)
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {token}"

        def ask(case: Any, real: bool) -> None:
            if real and names:
                case.path_parameters = {**(case.path_parameters or {}), **known(case, names)}
            if path == "/v1/responses" and isinstance(case.body, dict):
                # What is accepted need not be waited for.
                case.body = {**cast("dict[str, Any]", case.body), "background": True, "stream": False}
            answer = case.call(base_url=stack.url, session=session, timeout=60)
            assert answer.status_code < 500, answer.text
            case.validate_response(answer, checks=CHECKS)
            if real and answer.status_code == 404 and GONE in answer.text:
                names.update(world_of(method, path, alice))

        operation = SCHEMA[path][method]
        run = given(operation.as_strategy(generation_mode=mode), st.booleans())(ask)
        settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
            ],
        )(run)()


def known(case: Any, names: Names) -> Names:
    """Real names for those of the path's parameters that have one."""
    return {name: real for name, real in names.items() if name in (case.path_parameters or {})}
