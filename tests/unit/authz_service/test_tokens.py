"""Tokens and passports, by the clock."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from joserfc.jwk import OKPKey

from authz_service.domain import bootstrap
from authz_service.domain.authenticate import Authenticate
from authz_service.domain.create_token import CreateToken
from authz_service.domain.model import NewToken, Token
from authz_service.domain.secrets import digest, new_secret
from service_kit.clock import FixedClock
from service_kit.errors import GroveError
from service_kit.identity import PassportSigner


class TokensInMemory:
    """``domain.ports.Tokens`` in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[bytes, Token] = {}

    async def find(self, sha256: bytes) -> Token | None:
        return self.kept.get(sha256)

    async def add(self, token: NewToken) -> None:
        self.kept[token.sha256] = token.token

    async def revoke(self, *, token_id: str = "", sha256: bytes = b"", now: datetime) -> str | None:
        for key, one in self.kept.items():
            if one.id == token_id or key == sha256:
                self.kept[key] = replace(one, revoked_at=now)
                return one.id
        return None

    async def ensure_bootstrap(self, tokens: Sequence[tuple[str, NewToken]], now: datetime) -> list[str]:
        raise NotImplementedError


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(datetime(2026, 10, 1, 12, tzinfo=UTC))


@pytest.fixture
def tokens() -> TokensInMemory:
    return TokensInMemory()


@pytest.fixture
def authenticate(tokens: TokensInMemory, clock: FixedClock) -> Authenticate:
    key = OKPKey.generate_key("Ed25519", {"kid": "k1"})
    return Authenticate(tokens, PassportSigner(key, clock), clock)


@pytest.fixture
def create(tokens: TokensInMemory, clock: FixedClock) -> CreateToken:
    return CreateToken(tokens, clock)


async def is_refused(authenticate: Authenticate, secret: str) -> bool:
    try:
        await authenticate(secret)
    except GroveError as error:
        return error.code == "invalid_credential"
    return False


async def test_a_token_ends_when_it_said(create: CreateToken, authenticate: Authenticate, clock: FixedClock):
    issued = await create("person:alice", [], 90)
    assert (await authenticate(issued.secret)).expires_at == clock.now() + timedelta(seconds=60)
    clock.advance(timedelta(seconds=80))
    assert (await authenticate(issued.secret)).expires_at == clock.now() + timedelta(seconds=10)
    clock.advance(timedelta(seconds=10))
    assert await is_refused(authenticate, issued.secret)


async def test_a_passport_is_signed_anew_only_when_half_its_life_is_gone(
    create: CreateToken, authenticate: Authenticate, clock: FixedClock
):
    issued = await create("person:alice", ["group:x"], 0)
    first = await authenticate(issued.secret)
    clock.advance(timedelta(seconds=30))
    assert (await authenticate(issued.secret)).token == first.token
    clock.advance(timedelta(seconds=1))
    assert (await authenticate(issued.secret)).token != first.token


async def test_a_signature_made_a_moment_ago_opens_nothing_once_the_token_is_revoked(
    create: CreateToken, authenticate: Authenticate, tokens: TokensInMemory, clock: FixedClock
):
    issued = await create("person:alice", [], 0)
    await authenticate(issued.secret)
    await tokens.revoke(token_id=issued.token.id, now=clock.now())
    assert await is_refused(authenticate, issued.secret)


async def test_the_secret_itself_is_not_kept(create: CreateToken, tokens: TokensInMemory):
    issued = await create("person:alice", [], 0)
    assert list(tokens.kept) == [digest(issued.secret)]
    assert issued.secret not in repr(tokens.kept)


async def test_what_is_too_long_for_a_token_is_none(create: CreateToken, authenticate: Authenticate):
    issued = await create("person:alice", [], 0)
    assert await is_refused(authenticate, issued.secret + "x" * 600)


def test_secrets_differ_and_look_alike():
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert {len(one) for one in made} == {46}


def test_a_bootstrap_file_names_an_administrator_and_services():
    admin, memory = "gk_" + "a" * 43, "gk_" + "m" * 43
    text = f'{{"admin_token": "{admin}", "service_tokens": {{"memory": "{memory}"}}, "other": 1}}'
    assert bootstrap.parse(text) == [
        bootstrap.Named("admin", "credential:admin", ("user", "admin"), admin),
        bootstrap.Named("service:memory", "service:memory", ("service",), memory),
    ]
    assert bootstrap.parse("{}") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"x"',
        '{"admin_token": 1}',
        '{"admin_token": "short"}',
        '{"admin_token": "ümlauts-ümlauts-ümlauts"}',
        '{"service_tokens": []}',
        '{"service_tokens": {"memory": null}}',
        '{"service_tokens": {"mem ory": "gk_aaaaaaaaaaaaaaaaaaaaaaaaa"}}',
        '{"admin_token": "gk_aaaaaaaaaaaaaaaaaaaaaaaaa", "service_tokens": {"memory": "gk_aaaaaaaaaaaaaaaaaaaaaaaaa"}}',
    ],
)
def test_a_bootstrap_file_that_makes_no_sense_is_refused_without_a_word_of_its_secrets(text: str):
    with pytest.raises(bootstrap.BootstrapError) as raised:
        bootstrap.parse(text)
    assert "gk_" not in str(raised.value)
