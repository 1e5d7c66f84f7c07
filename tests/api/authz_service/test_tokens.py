"""Authentication and Tokens over gRPC."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1 import authz_pb2_grpc as rpc
from service_kit.ids import new_id
from tests.api.authz_service.service import (
    ADMIN_TOKEN,
    SERVICE_TOKEN,
    Authz,
    Bearer,
    at,
    bootstrap,
    raw_refusal,
    refusal,
    serving,
)


async def test_a_token_is_answered_with_a_passport_for_a_minute(authz: Authz):
    admin = await authz.admin()
    token = await admin.create_token("person:alice", ["group:sales", "group:ops", "group:sales"])
    assert token.token.startswith("gk_")
    assert len(token.token) == 46
    assert list(token.scopes) == ["user"]
    assert not token.HasField("expires_at")
    answer = await authz.authenticate(token.token)
    assert (answer.principal, list(answer.groups), list(answer.scopes)) == (
        "person:alice",
        ["group:sales", "group:ops"],
        ["user"],
    )
    assert 25 < at(answer) - time.time() <= 60
    passport = authz.verifier.verify(answer.passport)
    assert (passport.principal, passport.groups, passport.token_id) == (
        "person:alice",
        ("group:sales", "group:ops"),
        token.id,
    )
    assert passport.narrowing == ()


async def test_the_bootstrap_tokens_open_administration_and_service(authz: Authz):
    admin, service = await authz.authenticate(ADMIN_TOKEN), await authz.authenticate(SERVICE_TOKEN)
    assert (admin.principal, list(admin.scopes)) == ("credential:admin", ["admin", "user"])
    assert (service.principal, list(service.scopes)) == ("service:memory", ["service"])


@pytest.mark.requirement("AR-5-02", "SU-requests-02")
async def test_every_bad_token_gets_the_same_answer(authz: Authz):
    admin = await authz.admin()
    revoked = await admin.create_token("person:alice")
    await admin.revoke_token(token_id=revoked.id)
    answers = {
        await raw_refusal(authz, token)
        for token in (
            "",
            "gk_",
            "gk_" + "A" * 43,
            "nonsense \0 and more",
            "x" * 100_000,
            revoked.token,
            revoked.token[:-1],
        )
    }
    assert len(answers) == 1
    assert (await refusal(authz.authenticate("gk_nothing"))).code == "invalid_credential"


async def test_revoking_holds_for_the_next_request(authz: Authz):
    admin = await authz.admin()
    by_id, by_token = await admin.create_token("person:alice"), await admin.create_token("person:alice")
    await authz.authenticate(by_id.token)
    assert await admin.revoke_token(token_id=by_id.id) == by_id.id
    assert (await refusal(authz.authenticate(by_id.token))).code == "invalid_credential"
    await authz.authenticate(by_token.token)
    assert await admin.revoke_token(token=by_token.token) == by_token.id
    assert await admin.revoke_token(token=by_token.token) == by_token.id
    assert (await refusal(authz.authenticate(by_token.token))).code == "invalid_credential"


async def test_revoking_what_is_not_a_token_says_so(authz: Authz):
    admin = await authz.admin()
    assert (await refusal(admin.revoke_token(token_id=new_id("tok")))).code == "grovekeeper_not_found"
    assert (await refusal(admin.revoke_token(token="gk_nothing"))).code == "grovekeeper_not_found"
    assert (await refusal(admin.revoke_token())).code == "invalid_input"


@pytest.mark.parametrize(
    ("principal", "groups", "ttl", "param"),
    [
        ("group:x", [], 0, "principal"),
        ("harness:x", [], 0, "principal"),
        ("service:memory", [], 0, "principal"),
        ("alice", [], 0, "principal"),
        ("person:", [], 0, "principal"),
        ("person:al ice", [], 0, "principal"),
        ("person:" + "x" * 201, [], 0, "principal"),
        ("person:al\x1fice", [], 0, "principal"),
        ("person:alice", ["sales"], 0, "groups"),
        ("person:alice", ["person:bob"], 0, "groups"),
        ("person:alice", [f"group:{number}" for number in range(129)], 0, "groups"),
        ("person:alice", [], -1, "ttl_seconds"),
        ("person:alice", [], 2**40, "ttl_seconds"),
    ],
)
async def test_a_token_is_refused_for_what_cannot_bear_one(
    authz: Authz, principal: str, groups: list[str], ttl: int, param: str
):
    error = await refusal((await authz.admin()).create_token(principal, groups, ttl))
    assert (error.code, error.param) == ("invalid_input", param)


async def test_a_token_that_expires_says_when(authz: Authz):
    token = await (await authz.admin()).create_token("credential:ci", ttl=20)
    life = token.expires_at.ToNanoseconds() - token.created_at.ToNanoseconds()
    assert life == 20 * 10**9
    assert at(await authz.authenticate(token.token)) - time.time() <= 20


async def test_issuing_revoking_and_minting_need_their_scope(authz: Authz, alice: Bearer):
    admin, service = await authz.admin(), await authz.service()
    harness = new_id("chrn")
    for one in (alice, service):
        assert (await refusal(one.create_token("person:mallory"))).code == "insufficient_scope"
        assert (await refusal(one.revoke_token(token_id="tok_1"))).code == "insufficient_scope"
    for one in (alice, admin):
        assert (await refusal(one.mint(harness))).code == "insufficient_scope"
    assert authz.verifier.verify((await service.mint(harness)).passport).principal == f"harness:{harness}"


async def test_a_harness_passport_carries_its_session_and_its_narrowing(authz: Authz):
    harness, memory = new_id("chrn"), new_id("hmem")
    minted = await (await authz.service()).mint(harness, [(memory, "read")], "hsess_7")
    passport = authz.verifier.verify(minted.passport)
    assert (passport.session, passport.scopes, passport.groups) == ("hsess_7", {"user"}, ())
    assert [(one.memory_id, one.access) for one in passport.narrowing] == [(memory, "read")]


async def test_a_harness_passport_is_refused_for_what_makes_no_sense(authz: Authz):
    service, harness = await authz.service(), new_id("chrn")
    memory = new_id("hmem")
    for call in (
        service.mint("chrn_1"),
        service.mint(harness, session=""),
        service.mint(harness, [(memory, "admin")]),
        service.mint(harness, [("not an id", "read")]),
        service.mint(harness, [(new_id("hmem"), "read") for _ in range(66)]),
    ):
        assert (await refusal(call)).code == "invalid_input"


async def test_nothing_but_authenticating_goes_without_a_passport(authz: Authz):
    for call in (
        rpc.TokensStub(authz.channel).CreateToken(wire.CreateTokenRequest()),
        rpc.AccessStub(authz.channel).Check(wire.CheckRequest()),
        rpc.TreeStub(authz.channel).CreateNode(wire.CreateNodeRequest()),
        rpc.GrantsStub(authz.channel).ListGrants(wire.ListGrantsRequest()),
    ):
        assert (await refusal(call)).code == "missing_credential"


async def test_the_bootstrap_file_may_be_read_any_number_of_times_and_changed(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path
):
    dsn = service_database("authz")
    async with serving(dsn, keys, bootstrap(tmp_path)) as running:
        kept = await (await running.admin()).create_token("person:alice")
    async with serving(dsn, keys, bootstrap(tmp_path)) as running:
        await running.authenticate(ADMIN_TOKEN)
    async with serving(dsn, keys, bootstrap(tmp_path, admin="gk_another-admin-token")) as running:
        assert (await refusal(running.authenticate(ADMIN_TOKEN))).code == "invalid_credential"
        await running.authenticate("gk_another-admin-token")
        await running.authenticate(SERVICE_TOKEN)
        await running.authenticate(kept.token)
        admin = await running.bearer("gk_another-admin-token")
        await admin.revoke_token(token="gk_another-admin-token")
    # What was taken back is not given again by a restart.
    async with serving(dsn, keys, bootstrap(tmp_path, admin="gk_another-admin-token")) as running:
        assert (await refusal(running.authenticate("gk_another-admin-token"))).code == "invalid_credential"
