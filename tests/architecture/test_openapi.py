"""The document at /openapi.json: valid, and complete for every route there is."""

import json
from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import MagicMock

import msgspec
import pytest
from fastapi import FastAPI
from openapi_spec_validator import validate

from gateway.main import application
from gateway.schemas.examples import EXAMPLES
from gateway.settings import GatewaySettings
from service_kit.errors import TABLE

Json = dict[str, Any]


@pytest.fixture(scope="module")
def app() -> FastAPI:
    # Nothing is called: a document needs routes and no services.
    return application(GatewaySettings(), MagicMock(), MagicMock())


@pytest.fixture(scope="module")
def document(app: FastAPI) -> Json:
    return app.openapi()


def operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, methods in cast("dict[str, dict[str, Json]]", document["paths"]).items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_it_is_valid_and_covers_every_route_and_nothing_of_it_lies_elsewhere(app: FastAPI, document: Json):
    try:
        validate(document)
    except Exception as error:  # noqa: BLE001 - pytest would print the whole document
        pytest.fail(f"the document is not valid: {str(error)[:500]}", pytrace=False)
    assert set(document["paths"]) == {
        path for route in app.routes if (path := str(getattr(route, "path", ""))).startswith("/v1")
    }
    text = json.dumps(document)
    assert "HTTPValidationError" not in text
    assert "http" not in text.replace('"scheme": "bearer"', "").replace('"type": "http"', "")


def test_every_route_shows_an_example_of_what_it_reads_and_answers(document: Json):
    for name, operation in operations(document):
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for answer in (*bodies, *operation["responses"].values()):
            for kind, media in answer.get("content", {}).items():
                if kind == "application/json":
                    assert "example" in media, f"{name}: add a row below gateway/schemas/examples/"


def test_what_is_sent_freely_is_described_too(document: Json):
    for path in ("/queries/{name}", "/records/{record_id}/operations/{operation}"):
        body = document["paths"]["/v1/memories/{memory_id}" + path]["post"]["requestBody"]
        assert body["content"]["application/json"]["schema"] == {"type": "object"}
        assert not body["required"]


def test_an_operation_is_called_what_a_client_would_call_it(document: Json):
    names = [operation["operationId"] for _, operation in operations(document)]
    assert {"recall", "remember", "create_memory"} <= {*names}
    assert len({*names}) == len(names)


def test_every_route_names_the_errors_it_answers_by_status_and_code(document: Json):
    for name, operation in operations(document):
        answers = operation["responses"]
        assert {"400", "413", "500", "503"} <= set(answers), name
        assert "default" not in answers
        known = operation.get("security") != []
        # Who has a link is counted too, by address.
        assert ("401" in answers, "429" in answers) == (known, known or "/v1/shared/" in name)
        assert any(status.startswith("2") for status in answers)
        assert operation["description"]
        if "{" in name:
            assert "404" in answers, name


def test_every_error_is_the_envelope_with_codes_of_its_status(document: Json):
    for component in document["components"]["responses"].values():
        (media,) = component["content"].values()
        envelope, codes = media["schema"]["allOf"]
        assert envelope == {"$ref": "#/components/schemas/Envelope"}
        named = codes["properties"]["error"]["properties"]["code"]["enum"]
        assert len({TABLE[code].http for code in named}) == 1
        assert set(media["example"]["error"]) == {"type", "code", "message", "param", "detail"}


def test_headers_that_steer_a_request_are_described_where_they_are_heeded(document: Json):
    for name, operation in operations(document):
        asked = {one["name"] for one in operation["parameters"] if one["in"] == "header"}
        assert "UHP-Version" in asked
        assert ("UHP-Memories-Revision" in asked) == (" /v1/memories" in name)
        answered = operation["responses"]["200"]["headers"]
        assert "UHP-Version" in answered
        assert ("ETag" in answered) == bool({"If-Match", "If-None-Match"} & asked)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_an_example_is_one(kind: type[msgspec.Struct]):
    raw = json.dumps(EXAMPLES[kind]).encode()
    read = msgspec.json.decode(raw, type=kind)
    # What is not known to the schema would have been ignored.
    said = json.loads(msgspec.json.encode(read))
    assert set(EXAMPLES[kind]) <= set(said)
