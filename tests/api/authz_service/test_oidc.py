"""JWTs of an OIDC issuer, from a real issuer's JWK set through the real service."""

import asyncio
import json
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.errors import SecurityWarning
from joserfc.jwk import RSAKey

from authz_service.domain.oidc.signature import ALGORITHMS, LONGEST
from protos.authz.v1 import authz_pb2 as wire
from service_kit.errors import GroveError
from tests.api.authz_service.service import Authz, at, bootstrap, raw_refusal, refusal, serving
from tests.fixtures.issuer import (
    AUDIENCE,
    DISCOVERY,
    JWKS,
    Answer,
    IssuerStub,
    Json,
    compact,
    encoded,
    new_key,
)

Serve = Callable[..., AbstractAsyncContextManager[Authz]]

QUICK = {"oidc_unknown_key_s": 0.05, "oidc_timeout_s": 2.0}


@pytest.fixture
def trusting(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path, issuer: IssuerStub
) -> Serve:
    """A service that believes the issuer, with more settings."""

    @asynccontextmanager
    async def serve(**more: object) -> AsyncGenerator[Authz]:
        settings = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE, **QUICK, **more}
        async with serving(service_database("authz"), keys, bootstrap(tmp_path), **settings) as running:
            yield running

    return serve


@pytest.fixture
async def authz(trusting: Serve) -> AsyncGenerator[Authz]:
    async with trusting(oidc_admin_group="admins") as running:
        yield running


async def accepted(authz: Authz, token: str) -> wire.AuthenticateResponse:
    """The answer, as soon as it is one: a key may have to be asked for twice when it was asked for just now."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await authz.authenticate(token)
            except GroveError as error:
                if error.code not in ("invalid_credential", "grovekeeper_unavailable"):
                    raise
            await asyncio.sleep(0.02)


async def refused(authz: Authz, token: str, code: str = "invalid_credential") -> None:
    """Wait until it is, which is at once unless keys have to be fetched first."""
    async with asyncio.timeout(10):
        while True:
            try:
                await authz.authenticate(token)
            except GroveError as error:
                if error.code == code:
                    return
            await asyncio.sleep(0.02)


async def test_a_jwt_is_answered_with_the_passport_of_its_person_and_groups(authz: Authz, issuer: IssuerStub):
    token = issuer.token(groups=["sales", "ops", "sales"])
    answer = await authz.authenticate(token, "192.0.2.7")
    assert (answer.principal, list(answer.groups)) == ("person:alice", ["group:sales", "group:ops"])
    assert (list(answer.scopes), answer.token_id) == (["user"], "")
    assert 25 < at(answer) - time.time() <= 60
    passport = authz.verifier.verify(answer.passport)
    assert (passport.principal, passport.groups) == ("person:alice", ("group:sales", "group:ops"))
    assert (passport.token_id, passport.source) == (None, "192.0.2.7")


@pytest.mark.parametrize("groups", [None, [], "sales"])
async def test_groups_may_be_absent_none_or_a_single_one(authz: Authz, issuer: IssuerStub, groups: object):
    answer = await authz.authenticate(issuer.token(groups=groups))
    assert list(answer.groups) == (["group:sales"] if groups == "sales" else [])


async def test_a_group_whose_name_no_principal_can_have_is_left_out(authz: Authz, issuer: IssuerStub):
    names = ["Domain Admins", "", "x" * 201, "a\nb", "/staff", "名"]
    answer = await authz.authenticate(issuer.token(groups=names))
    assert list(answer.groups) == ["group:/staff", "group:名"]


async def test_members_of_the_admin_group_are_administrators(authz: Authz, issuer: IssuerStub):
    admin = await authz.bearer(issuer.token(sub="root", groups=["admins"]))
    made = await admin.create_token("person:bob")
    assert made.created_by == "person:root"
    mallory = await authz.bearer(
        issuer.token(sub="mallory", groups=["group:admins", "Admins"], scope="admin")
    )
    assert (await refusal(mallory.create_token("person:bob"))).code == "insufficient_scope"


async def test_without_an_admin_group_no_jwt_makes_an_administrator(trusting: Serve, issuer: IssuerStub):
    async with trusting() as authz:
        answer = await authz.authenticate(issuer.token(groups=["", "admin", "admins"], scopes=["admin"]))
        assert list(answer.scopes) == ["user"]


@pytest.mark.parametrize("audience", [AUDIENCE, [AUDIENCE], ["other", AUDIENCE]])
async def test_an_audience_may_be_one_of_several(authz: Authz, issuer: IssuerStub, audience: object):
    await authz.authenticate(issuer.token(aud=audience))


@pytest.mark.parametrize("kind", [None, "JWT", "jwt", "at+jwt", "application/at+jwt"])
async def test_a_type_that_names_no_other_use_is_taken(authz: Authz, issuer: IssuerStub, kind: str | None):
    await authz.authenticate(issuer.token({"typ": kind}))


async def test_header_fields_nobody_has_to_understand_are_passed_over(authz: Authz, issuer: IssuerStub):
    header = {"x5t": "abc", "jku": "http://127.0.0.1:9/evil", "jwk": {"kty": "oct", "k": "AAAA"}, "own": 1}
    await authz.authenticate(issuer.token(header))


async def test_every_algorithm_that_is_listed_is_taken_and_no_other(trusting: Serve, issuer: IssuerStub):
    async with trusting(oidc_algorithms=f" {', '.join(ALGORITHMS)} ,") as authz:
        for algorithm in ALGORITHMS:
            issuer.rotate(algorithm)
            await accepted(authz, issuer.token())
    async with trusting(oidc_algorithms="ES256") as authz:
        for algorithm in ALGORITHMS:
            issuer.rotate(algorithm, keep=True)
            if algorithm != "ES256":
                assert (await refusal(authz.authenticate(issuer.token()))).code == "invalid_credential"
        issuer.rotate("ES256", keep=True)
        await accepted(authz, issuer.token())


async def test_person_and_groups_are_read_from_the_claims_that_are_named(trusting: Serve, issuer: IssuerStub):
    async with trusting(oidc_person_claim="email", oidc_groups_claim="https://example.com/roles") as authz:
        claims: Json = {"email": "alice@example.com", "https://example.com/roles": ["r1"], "groups": ["g1"]}
        answer = await authz.authenticate(issuer.token(**claims))
        assert (answer.principal, list(answer.groups)) == ("person:alice@example.com", ["group:r1"])
        await authz.authenticate(issuer.token(**claims, email_verified=True))
        for unverified in (False, "true"):
            token = issuer.token(**claims, email_verified=unverified)
            assert (await refusal(authz.authenticate(token))).code == "invalid_credential"


def _hmac_by_public_key(issuer: IssuerStub) -> str:
    kid, _, key = issuer.current
    secret = key.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return compact({"alg": "HS256", "kid": kid, "typ": "JWT"}, issuer.claims(), secret)


def _unsigned(issuer: IssuerStub, algorithm: str) -> str:
    header = {"alg": algorithm, "kid": issuer.current[0]}
    return f"{encoded(header)}.{encoded(issuer.claims())}."


def _tampered(issuer: IssuerStub) -> str:
    head, _, signature = issuer.token().split(".")
    return f"{head}.{encoded(issuer.claims(sub='root'))}.{signature}"


def _payload(issuer: IssuerStub, payload: bytes) -> str:
    kid, algorithm, key = issuer.current
    return compact({"alg": algorithm, "kid": kid}, payload, key)


def _now(after: float) -> int:
    return int(time.time() + after)


BAD: dict[str, Callable[[IssuerStub], str]] = {
    # what it is made of
    "two dots": lambda _: "..",
    "nonsense": lambda _: "not.a.jwt",
    "not base64": lambda one: one.token().replace(".", ".*", 1),
    "padding": lambda one: one.token() + "=",
    "a header that is no object": lambda one: encoded(b"[]") + "." + ".".join(one.token().split(".")[1:]),
    "too long": lambda one: one.token(note="x" * LONGEST),
    "a payload that is no JSON": lambda one: _payload(one, b"alice"),
    "a payload that is a list": lambda one: _payload(one, b"[1]"),
    "a payload with NaN": lambda one: _payload(one, json.dumps(one.claims(n=float("nan"))).encode()),
    "a payload too deep": lambda one: _payload(one, b"[" * 5_000),
    # its algorithm and key
    "alg none": lambda one: _unsigned(one, "none"),
    "alg nOnE": lambda one: _unsigned(one, "nOnE"),
    "no signature": lambda one: _unsigned(one, "RS256"),
    "no alg": lambda one: one.token({"alg": None}),
    "alg no string": lambda one: one.token({"alg": ["RS256"]}),
    "HMAC by the public key": _hmac_by_public_key,
    "HMAC by nothing": lambda one: compact({"alg": "HS256", "kid": one.current[0]}, one.claims(), b""),
    "an algorithm not listed": lambda one: compact(
        {"alg": "RS512", "kid": one.current[0]}, one.claims(), one.current[2]
    ),
    "an algorithm of another type of key": lambda one: one.token({"alg": "ES256"}),
    "another's signature": lambda one: compact(
        {"alg": "RS256", "kid": one.current[0]}, one.claims(), new_key("RS256", -1)
    ),
    "a signature of other claims": _tampered,
    "no kid": lambda one: one.token({"kid": None}),
    "kid no string": lambda one: one.token({"kid": 1}),
    "an unknown kid": lambda one: one.token({"kid": "key-0"}),
    "its own key": lambda one: compact(
        {"alg": "RS256", "kid": "own", "jwk": {**new_key("RS256", -1).as_dict(private=False), "kid": "own"}},
        one.claims(),
        new_key("RS256", -1),
    ),
    # what its header says besides
    "crit": lambda one: one.token({"crit": ["exp"]}),
    "an empty crit": lambda one: one.token({"crit": []}),
    "unencoded": lambda one: one.token({"b64": False, "crit": ["b64"]}),
    "a logout token": lambda one: one.token({"typ": "logout+jwt"}),
    "a DPoP proof": lambda one: one.token({"typ": "dpop+jwt"}),
    "typ no string": lambda one: one.token({"typ": 1}),
    # whose it is and for whom
    "no iss": lambda one: one.token(iss=None),
    "another iss": lambda one: one.token(iss=one.url + "/"),
    "iss a list": lambda one: one.token(iss=[one.url]),
    "no aud": lambda one: one.token(aud=None),
    "another aud": lambda one: one.token(aud=AUDIENCE + "2"),
    "aud an empty list": lambda one: one.token(aud=[]),
    "aud of mixed types": lambda one: one.token(aud=[AUDIENCE, 1]),
    "aud an object": lambda one: one.token(aud={AUDIENCE: True}),
    "an event": lambda one: one.token(events={"http://schemas.openid.net/event/backchannel-logout": {}}),
    "bound to a key": lambda one: one.token(cnf={"jkt": "abc"}),
    # when it is good
    "no exp": lambda one: one.token(exp=None),
    "expired": lambda one: one.token(exp=_now(-31)),
    "exp a string": lambda one: one.token(exp=str(_now(60))),
    "exp true": lambda one: one.token(exp=True),
    "exp negative": lambda one: one.token(exp=-1),
    "exp beyond time": lambda one: one.token(exp=10**30),
    "nbf in the future": lambda one: one.token(nbf=_now(60)),
    "nbf true": lambda one: one.token(nbf=True),
    "nbf a string": lambda one: one.token(nbf="now"),
    "iat in the future": lambda one: one.token(iat=_now(60)),
    "iat an object": lambda one: one.token(iat={}),
    # who bears it
    "no sub": lambda one: one.token(sub=None),
    "an empty sub": lambda one: one.token(sub=""),
    "sub a number": lambda one: one.token(sub=7),
    "a sub with a space": lambda one: one.token(sub="al ice"),
    "a sub with half a character": lambda one: _payload(
        one, json.dumps(one.claims()).replace("alice", "\\ud800").encode()
    ),
    "a sub that is too long": lambda one: one.token(sub="x" * 201),
    "groups an object": lambda one: one.token(groups={"sales": True}),
    "groups of mixed types": lambda one: one.token(groups=["sales", 1]),
    "groups null": lambda one: _payload(one, json.dumps({**one.claims(), "groups": None}).encode()),
}


async def test_every_bad_jwt_gets_the_answer_of_an_unknown_token(authz: Authz, issuer: IssuerStub):
    await authz.authenticate(issuer.token())
    unknown = await raw_refusal(authz, "gk_" + "A" * 43)
    answers = {name: await raw_refusal(authz, bad(issuer)) for name, bad in BAD.items()}
    assert {name for name, answer in answers.items() if answer != unknown} == set()
    await authz.authenticate(issuer.token())


async def test_without_an_issuer_a_jwt_is_a_token_nobody_knows(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path, issuer: IssuerStub
):
    async with serving(service_database("authz"), keys, bootstrap(tmp_path)) as authz:
        token = issuer.token()
        assert await raw_refusal(authz, token) == await raw_refusal(authz, "gk_" + "A" * 43)
        assert (
            await refusal((await authz.admin()).revoke_token(token=token))
        ).code == "grovekeeper_not_found"
    assert issuer.asked == []


async def test_as_many_groups_as_there_may_be_go_with_every_call(authz: Authz, issuer: IssuerStub):
    # 128 names with 6,000 characters, of the kind that takes the most room.
    names = [f"{number:03}".translate({48: "零", 49: "一", 50: "二"}) + "x" * 37 for number in range(128)]
    names[0] += "y" * (6_000 - sum(len(f"group:{name}") for name in names))
    bearer = await authz.bearer(issuer.token(groups=names))
    assert len(bearer.passport.groups) == 128
    assert sum(map(len, bearer.passport.groups)) == 6_000
    made = await bearer.create()
    assert (await bearer.check(made.id)).id == made.id
    assert (await bearer.entry_points()).nodes


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": [f"g{number}" for number in range(129)]},
        {"groups": [f"{number:02}" + "x" * 198 for number in range(30)]},
        {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x"}}},
    ],
)
async def test_too_many_groups_are_refused_with_what_to_do(authz: Authz, issuer: IssuerStub, claims: Json):
    error = await refusal(authz.authenticate(issuer.token(**claims)))
    assert error.code == "invalid_credential"
    assert "more than 128 groups, or more than 6,000 characters" in error.message


async def test_keys_are_rotated_without_a_restart(authz: Authz, issuer: IssuerStub):
    old = issuer.token()
    await authz.authenticate(old)
    issuer.rotate(keep=True)
    both = issuer.token()
    await accepted(authz, both)
    await authz.authenticate(old)
    issuer.rotate()
    await accepted(authz, issuer.token())
    # The set that was fetched for the new key no longer has the old ones: what they signed is over.
    for gone in (old, both):
        assert (await refusal(authz.authenticate(gone))).code == "invalid_credential"


async def test_a_key_that_is_replaced_under_its_name_verifies_no_more(trusting: Serve, issuer: IssuerStub):
    async with trusting(oidc_jwks_ttl_s=1.0) as authz:
        kid, token = issuer.current[0], issuer.token()
        await authz.authenticate(token)
        issuer.rotate()
        issuer.keys[0]["kid"] = kid
        await refused(authz, token)
        await authz.authenticate(issuer.token({"kid": kid}))


async def test_a_flood_of_unknown_keys_is_no_flood_of_fetches(trusting: Serve, issuer: IssuerStub):
    async with trusting(oidc_unknown_key_s=30.0) as authz:
        await authz.authenticate(issuer.token())
        tokens = [issuer.token({"kid": f"nobody-{number}"}) for number in range(50)]
        for error in await asyncio.gather(*(refusal(authz.authenticate(one)) for one in tokens)):
            assert error.code == "invalid_credential"
        assert issuer.fetches == 1


async def test_those_who_wait_for_a_key_wait_for_one_fetch(trusting: Serve, issuer: IssuerStub):
    async with trusting() as authz:
        await authz.authenticate(issuer.token())
        await asyncio.sleep(
            QUICK["oidc_unknown_key_s"]
        )  # the last fetch is then long enough ago to ask again
        before = issuer.fetches
        issuer.rotate()
        for answer in await asyncio.gather(*(authz.authenticate(issuer.token(n=n)) for n in range(20))):
            assert answer.principal == "person:alice"
        assert issuer.fetches == before + 1


async def test_keys_of_no_use_are_passed_over(authz: Authz, issuer: IssuerStub):
    issuer.rotate()
    rsa = issuer.keys[0]
    issuer.keys = [
        {"kty": "oct", "kid": "symmetric", "k": encoded(b"secret")},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "kid": "numbers", "n": 1, "e": 2},
        {"kty": "unheard of", "kid": "x"},
        {"kty": "EC", "kid": "curve", "crv": "P-999", "x": "AA", "y": "AA"},
        {**rsa, "kid": "for-encryption", "use": "enc"},
        {**{name: rsa[name] for name in ("kty", "n", "e")}, "kid": "wraps", "key_ops": ["wrapKey"]},
        {**{name: rsa[name] for name in ("kty", "n", "e")}, "kid": "odd", "key_ops": "verify"},
        {**rsa, "kid": "for-another-algorithm", "alg": "PS256"},
        {"kty": "RSA"},
        "a string",
        rsa,
        rsa,
    ]
    await accepted(authz, issuer.token())
    for kid in ("for-encryption", "wraps", "odd", "for-another-algorithm"):
        assert (await refusal(authz.authenticate(issuer.token({"kid": kid})))).code == "invalid_credential"
    hmac = compact({"alg": "HS256", "kid": "symmetric"}, issuer.claims(), b"secret")
    assert (await refusal(authz.authenticate(hmac))).code == "invalid_credential"


async def test_two_keys_of_one_name_verify_nothing(trusting: Serve, issuer: IssuerStub):
    signed = [issuer.token({"kid": "same"})]
    issuer.rotate(keep=True)
    signed.append(issuer.token({"kid": "same"}))
    for key in issuer.keys:
        key["kid"] = "same"
    async with trusting() as authz:
        for token in signed:
            await refused(authz, token)
        issuer.keys.pop()
        await accepted(authz, signed[0])


@pytest.mark.parametrize(
    ("kind", "asked"), [("RS256", "ES256"), ("ES256", "RS256"), ("ES256", "ES384"), ("Ed25519", "ES256")]
)
async def test_a_key_without_a_stated_algorithm_verifies_only_those_of_its_type_and_curve(
    trusting: Serve, issuer: IssuerStub, kind: str, asked: str
):
    issuer.rotate(kind)
    del issuer.keys[0]["alg"]
    async with trusting(oidc_algorithms="RS256,ES256,ES384,Ed25519") as authz:
        await accepted(authz, issuer.token())
        assert await raw_refusal(authz, issuer.token({"alg": asked})) == await raw_refusal(
            authz, "gk_nothing"
        )


async def test_a_weak_key_is_not_trusted(trusting: Serve, issuer: IssuerStub):
    with pytest.warns(SecurityWarning):
        weak = RSAKey.generate_key(1024)
    issuer.keys = [{**weak.as_dict(private=False), "kid": "weak", "alg": "RS256"}]
    async with trusting() as authz:
        await refused(authz, compact({"alg": "RS256", "kid": "weak"}, issuer.claims(), weak))


FAILURES: dict[str, dict[str, Answer]] = {
    "an error": {JWKS: Answer(500)},
    "a page": {JWKS: Answer(200, b"<html>")},
    "no set": {JWKS: Answer(200, b'{"keys": {}}')},
    "a list": {JWKS: Answer(200, b"[]")},
    "something huge": {JWKS: Answer(200, b'{"keys": [], "x": "' + b"x" * 300_000 + b'"}')},
    "something compressed": {JWKS: Answer(200, b"x", {"Content-Encoding": "gzip"})},
    "a redirect": {JWKS: Answer(302, b"", {"Location": "/elsewhere"})},
    "no discovery": {DISCOVERY: Answer(404)},
    "another's discovery": {
        DISCOVERY: Answer(200, b'{"issuer": "https://evil.example", "jwks_uri": "https://evil.example/k"}')
    },
    "discovery without keys": {DISCOVERY: Answer(200, b"{}")},
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_an_issuer_that_fails_is_unavailable_and_its_tokens_are_not_refused(
    trusting: Serve, issuer: IssuerStub, failure: str
):
    issuer.instead = FAILURES[failure]
    async with trusting() as authz:
        error = await refusal(authz.authenticate(issuer.token()))
        assert (error.code, error.retryable) == ("grovekeeper_unavailable", True)
        # Our own tokens need no issuer.
        await authz.admin()
        issuer.instead = {}
        await accepted(authz, issuer.token())


async def test_keys_over_plain_http_from_elsewhere_are_not_fetched(trusting: Serve, issuer: IssuerStub):
    document = {"issuer": issuer.url, "jwks_uri": "http://keys.example/"}
    issuer.instead = {DISCOVERY: Answer(200, json.dumps(document).encode())}
    async with trusting() as authz:
        assert (await refusal(authz.authenticate(issuer.token()))).code == "grovekeeper_unavailable"


async def test_an_issuer_that_is_slow_is_waited_for_only_so_long(trusting: Serve, issuer: IssuerStub):
    issuer.hold = threading.Event()
    async with trusting(oidc_timeout_s=0.2) as authz:
        began = time.monotonic()
        assert (await refusal(authz.authenticate(issuer.token()))).code == "grovekeeper_unavailable"
        assert time.monotonic() - began < 5
        issuer.hold.set()
        issuer.hold = None
        await accepted(authz, issuer.token())


async def test_known_keys_outlast_an_issuer_that_went_away_but_not_for_ever(
    trusting: Serve, issuer: IssuerStub
):
    async with trusting(oidc_jwks_ttl_s=1.0, oidc_jwks_max_age_s=2.0) as authz:
        token = issuer.token()
        await authz.authenticate(token)
        issuer.instead = {JWKS: Answer(503)}
        before = issuer.fetches
        while issuer.fetches == before:
            await authz.authenticate(token)
            await authz.authenticate(issuer.token())
        # What it signed with a key we do not know may be good: it is not refused.
        unknown = issuer.token({"kid": "new"})
        assert (await refusal(authz.authenticate(unknown))).code == "grovekeeper_unavailable"
        await refused(authz, token, "grovekeeper_unavailable")
        issuer.instead = {}
        await accepted(authz, token)


async def test_the_address_of_the_keys_may_be_told(trusting: Serve, issuer: IssuerStub):
    issuer.instead = {DISCOVERY: Answer(404)}
    async with trusting(oidc_jwks_url=issuer.url + JWKS) as authz:
        await authz.authenticate(issuer.token())
    assert DISCOVERY not in issuer.asked


async def test_a_revoked_jwt_is_refused_from_the_next_request_on(authz: Authz, issuer: IssuerStub):
    admin, token, kept = await authz.admin(), issuer.token(n=1), issuer.token(n=2)
    await authz.authenticate(token)
    named = await admin.revoke_token(token=token)
    assert named.startswith("jwt_")
    assert await raw_refusal(authz, token) == await raw_refusal(authz, "gk_nothing")
    assert await admin.revoke_token(token=token) == named
    await authz.authenticate(kept)


async def test_a_revoked_jwt_is_refused_however_its_signature_is_written(trusting: Serve, issuer: IssuerStub):
    # Of one ECDSA signature (r, s) anybody can make another that is as good: (r, n - s).
    issuer.rotate("ES256")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    async with trusting() as authz:
        token = issuer.token()
        signed, _, signature = token.rpartition(".")
        raw = urlsafe_b64decode(signature + "==")
        twin = f"{signed}.{encoded(raw[:32] + (order - int.from_bytes(raw[32:])).to_bytes(32))}"
        assert twin != token
        await authz.authenticate(twin)
        await (await authz.admin()).revoke_token(token=token)
        for one in (token, twin):
            assert (await refusal(authz.authenticate(one))).code == "invalid_credential"


async def test_a_revoked_jwt_is_refused_by_every_process_and_after_a_restart(
    trusting: Serve, issuer: IssuerStub
):
    token = issuer.token()
    async with trusting() as one, trusting() as other:
        await other.authenticate(token)
        await (await one.admin()).revoke_token(token=token)
        assert (await refusal(other.authenticate(token))).code == "invalid_credential"
    async with trusting() as again:
        assert (await refusal(again.authenticate(token))).code == "invalid_credential"


async def test_a_jwt_can_be_revoked_before_its_time_comes(authz: Authz, issuer: IssuerStub):
    token = issuer.token(nbf=_now(200))
    assert (await (await authz.admin()).revoke_token(token=token)).startswith("jwt_")


async def test_revoking_what_opens_nothing_anyway_says_that_there_is_no_such_token(
    authz: Authz, issuer: IssuerStub
):
    admin = await authz.admin()
    await authz.authenticate(issuer.token())
    for name in ("expired", "another's signature", "another aud", "alg none", "nonsense"):
        error = await refusal(admin.revoke_token(token=BAD[name](issuer)))
        assert error.code == "grovekeeper_not_found", name
    person = await authz.bearer(issuer.token())
    assert (await refusal(person.revoke_token(token=issuer.token()))).code == "insufficient_scope"
