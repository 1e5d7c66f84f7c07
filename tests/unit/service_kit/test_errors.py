import grpc
import pytest

from service_kit.errors import TABLE, GroveError, internal, rule

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    409: "invalid_request_error",
    413: "invalid_request_error",
    416: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    200: "harness_error",
}


@pytest.mark.parametrize("code", sorted(TABLE))
def test_a_codes_type_follows_its_http_status(code: str):
    told = rule(code)
    assert told.type == TYPES.get(told.http, "server_error")
    assert told.http in TYPES or told.http >= 500


@pytest.mark.parametrize("code", sorted(TABLE))
def test_a_codes_grpc_status_exists_and_is_not_ok(code: str):
    assert grpc.StatusCode[rule(code).grpc] is not grpc.StatusCode.OK


@pytest.mark.parametrize("code", sorted(TABLE))
def test_what_grpc_itself_retries_is_retryable(code: str):
    if rule(code).grpc == "UNAVAILABLE":
        assert rule(code).retryable


def test_a_code_of_our_own_carries_the_products_name():
    uhp = {code for code in TABLE if not code.startswith("grovekeeper_")}
    assert "memory_not_found" in uhp
    assert not any("grove" in code for code in uhp)


def test_an_unknown_code_is_a_programming_error():
    with pytest.raises(LookupError):
        GroveError("no_such_code", "Never seen.")


def test_an_internal_error_says_nothing_of_its_cause():
    error = internal()
    assert (error.code, error.rule.http, error.detail) == ("server_error", 500, None)


UHP = {
    *("unsupported_protocol_version", "invalid_input", "missing_credential", "invalid_credential"),
    *("insufficient_scope", "rate_limited", "quota_exhausted", "harness_not_found", "response_not_found"),
    *("session_not_found", "session_expired", "file_not_found", "harness_mismatch", "session_busy"),
    *(
        "file_too_large",
        "model_unavailable",
        "unsupported_base",
        "harness_unavailable",
        "preview_unavailable",
    ),
    *("preview_failed", "harness_error", "provider_error", "timeout", "memory_not_found", "memory_forbidden"),
    *(
        "memory_record_not_found",
        "memories_not_attached",
        "memory_invalid",
        "memory_unsupported",
        "memory_busy",
    ),
    *("memory_unavailable", "server_error"),
}


@pytest.mark.requirement("SU-errors-12", "SU-errors-13")
def test_a_code_that_is_not_the_protocols_begins_with_our_name():
    assert set(TABLE) >= UHP
    assert {code for code in set(TABLE) - UHP if not code.startswith("grovekeeper_")} == set()
    assert (TABLE["file_not_found"].http, TABLE["session_expired"].http) == (404, 404)
