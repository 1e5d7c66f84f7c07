import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, OKPKey

from service_kit.clock import FixedClock
from service_kit.errors import GroveError
from service_kit.identity import (
    Narrowing,
    Passport,
    PassportSigner,
    PassportVerifier,
    current_passport,
    fresh_passport,
    generate_keys,
    passport_or_none,
    use_passport,
)

NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)


class Keys:
    """Two key files in a directory, a signer and a verifier over them."""

    def __init__(self, directory: Path, kid: str = "one") -> None:
        private, public = generate_keys(kid)
        (directory / f"{kid}.json").write_text(private)
        (directory / f"{kid}.jwks").write_text(public)
        self.clock = FixedClock(NOW)
        self.signing = directory / f"{kid}.json"
        self.public = directory / f"{kid}.jwks"
        self.signer = PassportSigner(self.signing, self.clock)
        self.verifier = PassportVerifier(self.public, self.clock)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def refused(verifier: PassportVerifier, token: str) -> bool:
    with pytest.raises(GroveError) as told:
        verifier.verify(token)
    return told.value.code == "invalid_credential"


def test_a_passport_comes_back_whole(keys: Keys):
    signed = keys.signer.sign(
        "harness:chrn_1",
        groups=["group:x", "group:y"],
        scopes=["user", "admin"],
        session="hsess_1",
        narrowing=[Narrowing("hmem_1", "read"), Narrowing("hmem_2", "write")],
        token_id="tok_1",
    )
    assert keys.verifier.verify(signed.token) == signed
    assert (signed.kind, signed.id) == ("harness", "chrn_1")


def test_a_passport_ends_after_a_minute_and_a_little(keys: Keys):
    token = keys.signer.sign("person:alice").token
    keys.clock.advance(timedelta(seconds=64))
    assert keys.verifier.verify(token).principal == "person:alice"
    keys.clock.advance(timedelta(seconds=1))
    assert refused(keys.verifier, token)


def test_a_passport_of_the_future_is_refused(keys: Keys):
    keys.clock.advance(timedelta(seconds=30))
    token = keys.signer.sign("person:alice").token
    keys.clock.advance(timedelta(seconds=-36))
    assert refused(keys.verifier, token)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "é", "\x00", "." * 5000])
def test_what_is_no_passport_is_refused(keys: Keys, token: str):
    assert refused(keys.verifier, token)


def test_a_changed_passport_is_refused(keys: Keys):
    head, body, signature = keys.signer.sign("person:alice").token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["scopes"] = ["user", "admin"]
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert refused(keys.verifier, f"{head}.{forged}.{signature}")


def test_an_unsigned_passport_is_refused(keys: Keys):
    body = keys.signer.sign("person:alice").token.split(".")[1]
    head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').decode().rstrip("=")
    assert refused(keys.verifier, f"{head}.{body}.")


def test_a_passport_signed_with_the_public_key_as_a_secret_is_refused(keys: Keys):
    claims = {"iss": "grovekeeper", "sub": "person:eve", "groups": [], "scopes": ["admin"]}
    times = {"iat": int(NOW.timestamp()), "exp": int(NOW.timestamp()) + 60}
    secret = OctKey.import_key(keys.public.read_text())
    assert refused(keys.verifier, jwt.encode({"alg": "HS256", "kid": "one"}, {**claims, **times}, secret))


def test_a_passport_of_another_issuer_or_with_missing_claims_is_refused(keys: Keys):
    key = OKPKey.import_key(json.loads(keys.signing.read_text()))
    header = {"alg": "Ed25519", "kid": "one"}
    times = {"iat": int(NOW.timestamp()), "exp": int(NOW.timestamp()) + 60}
    full: dict[str, object] = {"iss": "grovekeeper", "sub": "person:eve", "groups": [], "scopes": [], **times}
    assert keys.verifier.verify(jwt.encode(header, full, key, ["Ed25519"])).principal == "person:eve"
    for change in (
        {"iss": "elsewhere"},
        {"sub": 7},
        {"groups": "all"},
        {"narrow": [["hmem_1", "own"]]},
        {"narrow": [["hmem_1"]]},
        {"exp": "never"},
        {"exp": 10**30},
    ):
        assert refused(keys.verifier, jwt.encode(header, full | change, key, ["Ed25519"])), change
    for claim in full:
        assert refused(
            keys.verifier, jwt.encode(header, {k: v for k, v in full.items() if k != claim}, key, ["Ed25519"])
        )


def test_keys_rotate_without_a_gap(tmp_path: Path):
    old, new = Keys(tmp_path, "old"), Keys(tmp_path, "new")
    both = {
        "keys": [*json.loads(old.public.read_text())["keys"], *json.loads(new.public.read_text())["keys"]]
    }
    (tmp_path / "both.jwks").write_text(json.dumps(both))
    verifier = PassportVerifier(tmp_path / "both.jwks", FixedClock(NOW))
    assert verifier.verify(old.signer.sign("person:a").token).principal == "person:a"
    assert verifier.verify(new.signer.sign("person:b").token).principal == "person:b"
    assert refused(new.verifier, old.signer.sign("person:a").token)


def test_a_public_key_cannot_sign(keys: Keys):
    public = OKPKey.import_key(json.loads(keys.public.read_text())["keys"][0])
    with pytest.raises(ValueError, match="private"):
        PassportSigner(public)


def test_remembered_passports_are_bounded(keys: Keys):
    for number in range(2100):
        keys.verifier.verify(keys.signer.sign(f"person:{number}").token)
    assert len(keys.verifier._known) <= 2048


def test_without_a_passport_there_is_no_principal():
    assert passport_or_none() is None
    with pytest.raises(GroveError) as told:
        current_passport()
    assert told.value.code == "missing_credential"


def test_a_scope_is_asked_for_by_name(keys: Keys):
    passport = keys.signer.sign("person:alice")
    passport.require_scope("user")
    with pytest.raises(GroveError) as told:
        passport.require_scope("admin")
    assert told.value.code == "insufficient_scope"


async def test_a_passport_is_current_only_inside_its_block_and_task(keys: Keys):
    alice, bob = keys.signer.sign("person:alice"), keys.signer.sign("person:bob")
    with use_passport(alice):
        with use_passport(bob):
            assert current_passport() is bob
        assert current_passport() is alice

        async def other() -> Passport | None:
            with use_passport(bob):
                await asyncio.sleep(0)
                return passport_or_none()

        assert await asyncio.gather(other()) == [bob]
        assert current_passport() is alice
    assert passport_or_none() is None


async def test_a_renewable_passport_is_renewed_when_it_is_sent(keys: Keys):
    made: list[Passport] = []

    async def renew() -> Passport:
        made.append(keys.signer.sign("service:memory", lifetime=timedelta(seconds=60 + len(made))))
        return made[-1]

    with use_passport(await renew(), renew=renew):
        assert await fresh_passport() is made[1]
        with use_passport(None):
            assert await fresh_passport() is None
    assert await fresh_passport() is None


def test_a_key_set_may_be_handed_in(keys: Keys):
    key = OKPKey.import_key(json.loads(keys.signing.read_text()))
    verifier = PassportVerifier(KeySet([key]), FixedClock(NOW))
    assert (
        verifier.verify(PassportSigner(key, FixedClock(NOW)).sign("person:a").token).principal == "person:a"
    )
