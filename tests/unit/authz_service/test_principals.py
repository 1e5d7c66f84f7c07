import pytest

from authz_service.domain.principals import BEARERS, GRANTABLE, check_principal
from service_kit.errors import GroveError


@pytest.mark.parametrize(
    "principal", ["person:a", "credential:x.y-z", "group:a:b:c", "harness:chrn_1", "person:名"]
)
def test_kinds_that_may_hold_a_grant_are_accepted(principal: str):
    assert check_principal(principal, GRANTABLE, "principal") == principal


@pytest.mark.parametrize(
    "principal",
    ["", ":", "a", "person", "person:", "Person:a", "service:x", "person:a b", "person:\t", "person:\u2028"],
)
def test_everything_else_is_told_what_is(principal: str):
    with pytest.raises(GroveError) as raised:
        check_principal(principal, GRANTABLE, "principal")
    assert raised.value.code == "invalid_input"


def test_the_kinds_are_named_in_the_sentence():
    with pytest.raises(GroveError, match="credential: or person:"):
        check_principal("group:x", BEARERS, "principal")
    with pytest.raises(GroveError, match="starts with group:"):
        check_principal("x", ("group",), "groups")
