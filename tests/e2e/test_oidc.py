"""The product with an OIDC issuer: its people come in with their JWTs, and go when it or an administrator says so."""

from collections.abc import Generator

import pytest

from tests.e2e.caller import Caller, Refused
from tests.fixtures.issuer import AUDIENCE, IssuerStub, issuing
from tests.fixtures.parts import short_directory
from tests.fixtures.stack import Stack, running


@pytest.fixture(scope="module")
def people() -> Generator[IssuerStub]:
    """The issuer of everybody here."""
    with issuing() as made:
        yield made


@pytest.fixture(scope="module")
def product(people: IssuerStub) -> Generator[Stack]:
    """A product that believes it."""
    settings = {
        "GROVE_OIDC_ISSUER": people.url,
        "GROVE_OIDC_AUDIENCE": AUDIENCE,
        "GROVE_OIDC_ADMIN_GROUP": "operators",
        "GROVE_OIDC_UNKNOWN_KEY_S": "0.1",
    }
    with short_directory() as directory, running(directory / "home", settings) as made:
        yield made


@pytest.fixture
def admin(product: Stack) -> Generator[Caller]:
    with Caller(product.url, product.admin_token) as caller:
        yield caller


def refused_with(caller: Caller) -> tuple[int, str, str]:
    with pytest.raises(Refused) as raised:
        caller.get("/v1/memories")
    return raised.value.status, raised.value.code, raised.value.error["message"]


def test_a_person_reaches_by_a_group_of_its_jwt_what_the_group_was_granted(
    product: Stack, people: IssuerStub, admin: Caller
):
    memory = admin.plant("Sales")
    admin.remember(memory, "Acme renews in March.")
    admin.grant(memory, "group:/sales-team", "read")
    with (
        Caller(product.url, people.token(sub="alice", groups=["/sales-team", "Domain Users"])) as alice,
        Caller(product.url, people.token(sub="bob", groups=["/support"])) as bob,
    ):
        who = alice.get("/v1/grovekeeper/whoami")
        assert (who["principal"], who["groups"], who["scopes"]) == (
            "person:alice",
            ["group:/sales-team"],
            ["user"],
        )
        assert alice.found(memory, "When does Acme renew?") == ["Acme renews in March."]
        with pytest.raises(Refused) as raised:
            alice.remember(memory, "Acme does not renew.")
        assert raised.value.code == "memory_forbidden"
        with pytest.raises(Refused) as raised:
            bob.get(f"/v1/memories/{memory}")
        assert raised.value.code == "memory_not_found"
    # What a person made is the person's, by whichever credential it comes.
    with Caller(product.url, people.token(sub="alice")) as alice:
        own = alice.plant("Own")
    token = product.grove("token", "create", "--person", "alice").stdout.strip()
    with Caller(product.url, token) as alice:
        assert own in {one["id"] for one in alice.listing()}


def test_as_many_groups_as_there_may_be_go_through_every_service(product: Stack, people: IssuerStub):
    names = [f"{number:03}-{'x' * 36}" for number in range(128)]
    with Caller(product.url, people.token(sub="gregor", groups=names)) as gregor:
        assert len(gregor.get("/v1/grovekeeper/whoami")["groups"]) == 128
        memory = gregor.plant("Everybody's")
        gregor.remember(memory, "Penguins swim.")
        assert gregor.found(memory, "What do penguins do?") == ["Penguins swim."]
        harness = gregor.harness("Desk", {"memory_id": memory, "access": "write", "default": True})
        assert gregor.run("Recall: What do penguins do?", harness)["status"] == "completed"


def test_a_bad_jwt_is_answered_as_a_token_nobody_knows(product: Stack, people: IssuerStub):
    with Caller(product.url, "gk_" + "x" * 43) as nobody:
        unknown = refused_with(nobody)
    assert unknown[:2] == (401, "invalid_credential")
    for token in (people.token(aud="another"), people.token(exp=1), people.token({"alg": "none"})):
        with Caller(product.url, token) as caller:
            assert refused_with(caller) == unknown


def test_the_keys_of_the_issuer_change_while_the_product_runs(product: Stack, people: IssuerStub):
    with Caller(product.url, people.token()) as before:
        before.listing()
        people.rotate()
        with Caller(product.url, people.token()) as after:
            # Refused while the issuer is asked no more often than so, then taken, without anybody doing anything.
            after.until(lambda: after.send("GET", "/v1/memories").status_code, lambda status: status == 200)
        assert refused_with(before)[:2] == (401, "invalid_credential")


def test_an_administrator_takes_a_jwt_back(product: Stack, people: IssuerStub, admin: Caller):
    leaked, kept, other = (people.token(jti=str(number)) for number in range(3))
    with Caller(product.url, leaked) as caller, Caller(product.url, kept) as stays:
        caller.listing()
        named = admin.post("/v1/grovekeeper/tokens/revoke", {"token": leaked})
        assert str(named["id"]).startswith("jwt_")
        assert refused_with(caller)[:2] == (401, "invalid_credential")
        stays.listing()
    assert product.grove("token", "revoke", other).returncode == 0
    with Caller(product.url, other) as caller:
        assert refused_with(caller)[:2] == (401, "invalid_credential")
    with pytest.raises(Refused) as raised:
        admin.post("/v1/grovekeeper/tokens/revoke", {"token": people.token(aud="another")})
    assert raised.value.code == "grovekeeper_not_found"


def test_members_of_the_admin_group_administer_and_what_they_issue_is_listed(
    product: Stack, people: IssuerStub
):
    with Caller(product.url, people.token(sub="olga", groups=["operators"])) as olga:
        made = olga.post("/v1/grovekeeper/tokens", {"credential": "nightly", "ttl_seconds": 600})
        page = olga.get("/v1/grovekeeper/tokens?principal=credential:nightly")
    assert [(one["id"], one["created_by"]) for one in page["data"]] == [(made["id"], "person:olga")]
    assert "token" not in page["data"][0]
    listed = product.grove("token", "list", "--principal", "credential:nightly").stdout.splitlines()
    assert listed[0].split()[:2] == ["ID", "PRINCIPAL"]
    assert listed[1].split()[:3] == [made["id"], "credential:nightly", "user"]
    with Caller(product.url, people.token(sub="eve", groups=["operator"])) as eve:
        with pytest.raises(Refused) as raised:
            eve.get("/v1/grovekeeper/tokens")
        assert raised.value.code == "insufficient_scope"


def test_no_part_of_a_jwt_that_says_something_is_in_a_log_line(
    product: Stack, people: IssuerStub, admin: Caller
):
    tokens = [people.token(jti=name) for name in ("good", "revoked")]
    tokens.append(people.token(aud="another-one"))
    for token in tokens:
        with Caller(product.url, token) as caller:
            caller.send("GET", "/v1/memories")
    admin.post("/v1/grovekeeper/tokens/revoke", {"token": tokens[1]})
    logged = "".join(file.read_text(errors="replace") for file in (product.home / "logs").iterdir())
    assert "a JWT was refused: it is for another audience" in logged
    assert [part for token in tokens for part in token.split(".")[1:] if part in logged] == []
