"""JWTs by the clock, and the issuer's keys by what was asked of it when."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from authz_service.domain.oidc.claims import Trust
from authz_service.domain.oidc.jwts import Jwts
from authz_service.domain.oidc.keys import AGAIN, IssuerAwayError, Keys, Patience
from authz_service.domain.revoke_token import RevokeToken
from authz_service.domain.secrets import is_jwt, new_secret
from authz_service.oidc import trusted
from authz_service.settings import Settings
from service_kit.clock import FixedClock
from service_kit.errors import GroveError
from service_kit.settings import SettingsError
from tests.fixtures.issuer import compact, new_key
from tests.unit.authz_service.fakes import TokensInMemory

ISSUER, AUDIENCE = "https://issuer.example", "grovekeeper"
LEEWAY = timedelta(seconds=30)
PATIENCE = Patience(fresh=timedelta(minutes=5), unknown=timedelta(seconds=30), oldest=timedelta(hours=6))
SECOND = timedelta(seconds=1)


class Published:
    """``domain.oidc.keys.Issuer`` without an issuer."""

    def __init__(self) -> None:
        self.asked: int = 0
        self.away: bool = False
        self.hold: asyncio.Event | None = None
        self.published: list[object] = []

    def publish(self, *kids: str) -> None:
        self.published = [{**new_key("ES256").as_dict(private=False), "kid": kid} for kid in kids]

    async def keys(self) -> Sequence[object]:
        self.asked += 1
        if self.hold is not None:
            await self.hold.wait()
        if self.away:
            raise IssuerAwayError("it is away")
        return self.published


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(datetime(2026, 10, 1, 12, tzinfo=UTC))


@pytest.fixture
def issuer() -> Published:
    made = Published()
    made.publish("k1")
    return made


@pytest.fixture
def tokens() -> TokensInMemory:
    return TokensInMemory()


@pytest.fixture
def keys(issuer: Published, clock: FixedClock) -> Keys:
    return Keys(issuer, PATIENCE, clock)


@pytest.fixture
def jwts(keys: Keys, tokens: TokensInMemory, clock: FixedClock) -> Jwts:
    return Jwts(Trust(ISSUER, AUDIENCE, frozenset({"ES256"}), leeway=LEEWAY), keys, tokens, clock)


def jwt(clock: FixedClock, kid: str = "k1", **claims: Any) -> str:
    """A good one, changed; moments are told as such."""
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": clock.now() + timedelta(minutes=5)}
    told = {
        name: value.timestamp() if isinstance(value, datetime) else value
        for name, value in (good | claims).items()
    }
    return compact({"alg": "ES256", "kid": kid}, told, new_key("ES256"))


async def code_of(jwts: Jwts, token: str) -> str:
    try:
        await jwts.bearer(token)
    except GroveError as error:
        return error.code
    return ""


async def test_a_jwt_is_good_until_its_end_and_the_leeway_and_not_a_moment_longer(
    jwts: Jwts, clock: FixedClock
):
    end = clock.now() + timedelta(seconds=60)
    token = jwt(clock, exp=end)
    bearer = await jwts.bearer(token)
    assert bearer.ends_at == end + LEEWAY
    clock.advance(end + LEEWAY - clock.now() - timedelta(microseconds=1))
    assert await code_of(jwts, token) == ""
    clock.advance(timedelta(microseconds=1))
    assert await code_of(jwts, token) == "invalid_credential"


@pytest.mark.parametrize("claim", ["nbf", "iat"])
async def test_a_jwt_is_not_good_before_its_time_less_the_leeway(jwts: Jwts, clock: FixedClock, claim: str):
    begin = clock.now() + timedelta(seconds=60)
    claims: dict[str, Any] = {claim: begin}
    token = jwt(clock, **claims)
    clock.advance(timedelta(seconds=60) - LEEWAY - timedelta(microseconds=1))
    assert await code_of(jwts, token) == "invalid_credential"
    clock.advance(timedelta(microseconds=1))
    assert await code_of(jwts, token) == ""


async def test_moments_may_have_fractions_and_begin_with_time_itself(jwts: Jwts, clock: FixedClock):
    token = jwt(clock, exp=(clock.now() + SECOND).timestamp() + 0.5, nbf=0, iat=0.5)
    assert (await jwts.bearer(token)).ends_at == clock.now() + timedelta(seconds=1.5) + LEEWAY


async def test_a_verdict_is_kept_no_longer_than_the_key_it_was_reached_with(
    jwts: Jwts, keys: Keys, issuer: Published, clock: FixedClock
):
    token = jwt(clock)
    assert await code_of(jwts, token) == ""
    issuer.publish("k2")
    clock.advance(PATIENCE.unknown)
    assert await keys.find("k2", "ES256") is not None
    assert await code_of(jwts, token) == "invalid_credential"


async def test_a_revoked_jwt_is_refused_though_its_verdict_is_known(
    jwts: Jwts, tokens: TokensInMemory, clock: FixedClock
):
    token, revoke = jwt(clock), RevokeToken(tokens, jwts, clock)
    assert await code_of(jwts, token) == ""
    named = await revoke(secret=token)
    assert await code_of(jwts, token) == "invalid_credential"
    assert await revoke(secret=token) == named
    (act,) = tokens.acts
    assert (act.action, act.principal, act.detail["token"]) == ("token.revoke", "person:alice", named)
    assert not any(part in repr(act) for part in token.split("."))


async def test_an_unknown_key_is_asked_for_only_so_often(keys: Keys, issuer: Published, clock: FixedClock):
    assert await keys.find("k9", "ES256") is None
    clock.advance(PATIENCE.unknown - timedelta(microseconds=1))
    assert await keys.find("k9", "ES256") is None
    assert issuer.asked == 1
    issuer.publish("k9")
    clock.advance(timedelta(microseconds=1))
    assert await keys.find("k9", "ES256") is not None
    assert issuer.asked == 2


async def test_all_who_wait_for_a_key_wait_for_one_answer_and_who_gives_up_stops_nobody(
    keys: Keys, issuer: Published
):
    issuer.hold = asyncio.Event()
    waiting = [asyncio.create_task(keys.find("k1", "ES256")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    issuer.hold.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert all(one is not None and not isinstance(one, BaseException) for one in found[1:])
    assert issuer.asked == 1


async def test_an_issuer_that_failed_is_left_alone_for_a_while(
    keys: Keys, issuer: Published, clock: FixedClock
):
    issuer.away = True
    for _ in range(3):
        with pytest.raises(GroveError) as raised:
            await keys.find("k1", "ES256")
        assert raised.value.code == "grovekeeper_unavailable"
    assert issuer.asked == 1
    issuer.away = False
    clock.advance(AGAIN)
    assert await keys.find("k1", "ES256") is not None


async def test_known_keys_are_trusted_for_so_long_while_the_issuer_is_away(
    jwts: Jwts, issuer: Published, clock: FixedClock
):
    token = jwt(clock, exp=clock.now() + timedelta(days=1))
    assert await code_of(jwts, token) == ""
    issuer.away = True
    clock.advance(PATIENCE.oldest)
    assert await code_of(jwts, token) == ""
    assert await code_of(jwts, jwt(clock, kid="k2")) == "grovekeeper_unavailable"
    clock.advance(SECOND)
    assert await code_of(jwts, token) == "grovekeeper_unavailable"
    issuer.away = False
    clock.advance(AGAIN)
    assert await code_of(jwts, token) == ""


async def test_keys_are_fetched_before_anybody_needs_them(keys: Keys, issuer: Published):
    issuer.hold = asyncio.Event()
    running = asyncio.create_task(keys.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert issuer.asked == 1
    issuer.hold.set()
    assert await keys.find("k1", "ES256") is not None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert issuer.asked == 1


def test_a_jwt_is_told_from_a_token_of_ours_by_its_shape():
    assert is_jwt("a.b.c")
    assert not any(map(is_jwt, (new_secret(), "gk_a.b.c", "a.b", "a.b.c.d.e", "")))


GOOD = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE}


def test_an_issuer_on_this_machine_needs_no_https():
    for url in ("http://127.0.0.1:8000", "http://[::1]:8000/x", "http://localhost"):
        trust = trusted(Settings.model_validate({**GOOD, "oidc_issuer": url}))
        assert trust is not None
        assert trust.issuer == url
    assert trusted(Settings()) is None


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"oidc_audience": None}, "GROVE_OIDC_AUDIENCE"),
        ({"oidc_issuer": "http://issuer.example"}, "GROVE_OIDC_ISSUER"),
        ({"oidc_issuer": "issuer.example"}, "GROVE_OIDC_ISSUER"),
        ({"oidc_issuer": "https://"}, "GROVE_OIDC_ISSUER"),
        ({"oidc_issuer": "http://127.0.0.1.example"}, "GROVE_OIDC_ISSUER"),
        ({"oidc_jwks_url": "http://issuer.example/keys"}, "GROVE_OIDC_JWKS_URL"),
        ({"oidc_jwks_url": "file:///etc/passwd"}, "GROVE_OIDC_JWKS_URL"),
        ({"oidc_algorithms": "none"}, "GROVE_OIDC_ALGORITHMS"),
        ({"oidc_algorithms": "RS256,HS256"}, "GROVE_OIDC_ALGORITHMS"),
        ({"oidc_algorithms": "rs256"}, "GROVE_OIDC_ALGORITHMS"),
        ({"oidc_algorithms": " , "}, "GROVE_OIDC_ALGORITHMS"),
    ],
)
def test_what_would_not_be_safe_cannot_be_set(settings: dict[str, object], variable: str):
    with pytest.raises(SettingsError, match=variable):
        trusted(Settings.model_validate({**GOOD, **settings}))
