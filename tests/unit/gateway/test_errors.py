import json
import re

import pytest
from starlette.exceptions import HTTPException

from gateway import errors
from gateway.http import idempotency
from service_kit.errors import TABLE, GroveError
from tests.unit.gateway.requests import made


@pytest.mark.requirement("AR-6-04", "SU-requests-08", "SU-requests-10", "SU-errors-01")
@pytest.mark.parametrize("code", list(TABLE))
def test_every_code_has_the_five_fields_and_a_trace_id(code: str):
    answer = errors.response(GroveError(code, "No.", param="a.b", detail={"supported": ["x"]}))
    body = json.loads(bytes(answer.body))
    assert answer.status_code >= 400
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert list(body) == ["error"]
    assert list(body["error"]) == ["type", "code", "message", "param", "detail"]
    assert body["error"]["code"] == code
    assert body["error"]["detail"]["supported"] == ["x"]
    assert re.fullmatch("[0-9a-f]{32}", body["error"]["detail"]["trace_id"])


def test_an_unknown_param_and_no_detail_are_null_and_the_trace_id():
    body = json.loads(bytes(errors.response(GroveError("invalid_input", "No.")).body))
    assert body["error"]["param"] is None
    assert list(body["error"]["detail"]) == ["trace_id"]


def test_a_refused_credential_names_the_scheme():
    assert errors.response(GroveError("invalid_credential", "No.")).headers["www-authenticate"] == "Bearer"


def test_a_body_too_large_ends_the_connection():
    assert errors.response(GroveError("grovekeeper_too_large", "No.")).headers["connection"] == "close"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, "grovekeeper_not_found"),
        (405, "grovekeeper_method_not_allowed"),
        (400, "invalid_input"),
        (500, "server_error"),
    ],
)
def test_the_frameworks_refusals_are_said_in_our_words(status: int, code: str):
    assert errors.from_http(HTTPException(status, "framework words")).code == code


def test_an_idempotency_key_goes_with_the_hash_of_the_request():
    given = made("POST", "/v1/memories", {"Idempotency-Key": "k 1"})
    one = idempotency(given, b'{"name":"a"}')
    assert one.key == "k 1"
    assert len(one.request_sha256) == 32
    assert idempotency(given, b'{"name":"a"}') == one
    assert idempotency(given, b'{"name":"b"}') != one
    assert idempotency(made("POST", "/v1/harnesses", {"Idempotency-Key": "k 1"}), b'{"name":"a"}') != one


def test_no_key_is_no_promise():
    assert idempotency(made("POST", "/v1/memories", {}), b"{}").key == ""


@pytest.mark.parametrize("key", ["", " ", "a" * 256, "caf\xe9", "a\tb", "\x7f"])
def test_a_key_that_is_not_printable_ascii_is_refused(key: str):
    with pytest.raises(GroveError) as refused:
        idempotency(made("POST", "/v1/memories", {"Idempotency-Key": key}), b"{}")
    assert refused.value.param == "Idempotency-Key"
