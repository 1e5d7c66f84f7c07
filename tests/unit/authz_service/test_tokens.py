"""Tokens and passports, by the clock."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from joserfc.jwk import OKPKey

from authz_service.domain import bootstrap, last_used
from authz_service.domain.authenticate import Authenticate
from authz_service.domain.create_token import MOST, CreateToken, Wanted
from authz_service.domain.last_used import LastUsed
from authz_service.domain.secrets import digest, new_secret
from service_kit.clock import FixedClock
from service_kit.errors import GroveError
from service_kit.identity import PassportSigner
from tests.unit.authz_service.fakes import TokensInMemory


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(datetime(2026, 10, 1, 12, tzinfo=UTC))


@pytest.fixture
def tokens() -> TokensInMemory:
    return TokensInMemory()


@pytest.fixture
def uses(tokens: TokensInMemory, clock: FixedClock) -> LastUsed:
    return LastUsed(tokens, clock)


@pytest.fixture
def authenticate(tokens: TokensInMemory, clock: FixedClock, uses: LastUsed) -> Authenticate:
    key = OKPKey.generate_key("Ed25519", {"kid": "k1"})
    return Authenticate(tokens, None, PassportSigner(key, clock), uses, clock)


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
    issued = await create("credential:admin", Wanted("person:alice", ttl_seconds=90))
    assert (await authenticate(issued.secret)).expires_at == clock.now() + timedelta(seconds=60)
    clock.advance(timedelta(seconds=80))
    assert (await authenticate(issued.secret)).expires_at == clock.now() + timedelta(seconds=10)
    clock.advance(timedelta(seconds=10))
    assert await is_refused(authenticate, issued.secret)


async def test_a_passport_is_signed_anew_only_when_half_its_life_is_gone(
    create: CreateToken, authenticate: Authenticate, clock: FixedClock
):
    issued = await create("credential:admin", Wanted("person:alice", ["group:x"]))
    first = await authenticate(issued.secret)
    clock.advance(timedelta(seconds=30))
    assert (await authenticate(issued.secret)).token == first.token
    clock.advance(timedelta(seconds=1))
    assert (await authenticate(issued.secret)).token != first.token


async def test_a_signature_made_a_moment_ago_opens_nothing_once_the_token_is_revoked(
    create: CreateToken, authenticate: Authenticate, tokens: TokensInMemory, clock: FixedClock
):
    issued = await create("credential:admin", Wanted("person:alice"))
    await authenticate(issued.secret)
    await tokens.revoke(token_id=issued.token.id, now=clock.now())
    assert await is_refused(authenticate, issued.secret)


async def test_the_secret_itself_is_not_kept(create: CreateToken, tokens: TokensInMemory):
    issued = await create("credential:admin", Wanted("person:alice"))
    assert list(tokens.kept) == [digest(issued.secret)]
    assert issued.secret not in repr(tokens.kept)


async def test_a_passport_says_where_each_request_came_from(create: CreateToken, authenticate: Authenticate):
    secret = (await create("credential:admin", Wanted("person:alice"))).secret
    first, again, other = [
        await authenticate(secret, one) for one in ("192.0.2.1", "192.0.2.1", "2001:db8::1")
    ]
    assert (first.source, other.source) == ("192.0.2.1", "2001:db8::1")
    assert first.token == again.token != other.token


@pytest.mark.parametrize("source", ["", "x" * 65, "192.0.2.1\n", "\x00"])
async def test_what_cannot_be_an_address_is_left_out_of_a_passport(
    create: CreateToken, authenticate: Authenticate, source: str
):
    secret = (await create("credential:admin", Wanted("person:alice"))).secret
    assert (await authenticate(secret, source)).source is None


async def test_a_use_is_noted_to_the_minute_and_once(
    create: CreateToken, authenticate: Authenticate, tokens: TokensInMemory, uses: LastUsed, clock: FixedClock
):
    issued = await create("credential:admin", Wanted("person:alice"))
    clock.advance(timedelta(seconds=59))
    for _ in range(2):
        await authenticate(issued.secret)
        await uses.write()
    assert tokens.written == [{issued.token.id: datetime(2026, 10, 1, 12, tzinfo=UTC)}]
    clock.advance(timedelta(seconds=1))
    await authenticate(issued.secret)
    await uses.write()
    assert tokens.written[1:] == [{issued.token.id: datetime(2026, 10, 1, 12, 1, tzinfo=UTC)}]


async def test_a_use_that_could_not_be_written_is_written_later(
    create: CreateToken, authenticate: Authenticate, tokens: TokensInMemory, uses: LastUsed
):
    issued = await create("credential:admin", Wanted("person:alice"))
    await authenticate(issued.secret)
    tokens.away = True
    await uses.write()
    tokens.away = False
    await uses.write()
    assert [list(one) for one in tokens.written] == [[issued.token.id]]


async def test_a_refused_token_is_not_noted_as_used(
    create: CreateToken, authenticate: Authenticate, tokens: TokensInMemory, uses: LastUsed, clock: FixedClock
):
    issued = await create("credential:admin", Wanted("person:alice", ttl_seconds=1))
    clock.advance(timedelta(seconds=1))
    assert await is_refused(authenticate, issued.secret)
    await uses.write()
    assert tokens.written == []


async def test_uses_are_collected_up_to_a_bound(tokens: TokensInMemory, uses: LastUsed):
    for number in range(last_used.MOST + 10):
        uses.note(f"tok_{number}")
    await uses.write()
    uses.note(f"tok_{last_used.MOST}")
    await uses.write()
    assert [len(one) for one in tokens.written] == [last_used.MOST, 1]


async def test_what_was_collected_is_written_at_the_end(tokens: TokensInMemory, uses: LastUsed):
    running = asyncio.create_task(uses.run())
    uses.note("tok_1")
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [list(one) for one in tokens.written] == [["tok_1"]]


async def test_a_principal_has_so_many_live_tokens_and_no_more(create: CreateToken, clock: FixedClock):
    wanted = Wanted("person:alice", ttl_seconds=60)
    for _ in range(MOST):
        await create("credential:admin", wanted)
    with pytest.raises(GroveError, match="at most 1,000 live tokens") as raised:
        await create("credential:admin", wanted)
    assert (raised.value.code, raised.value.param) == ("invalid_input", "principal")
    await create("credential:admin", Wanted("person:bob"))
    clock.advance(timedelta(seconds=60))
    await create("credential:admin", wanted)


async def test_issuing_is_audited_without_the_secret(create: CreateToken, tokens: TokensInMemory):
    issued = await create("person:root", Wanted("person:alice", ["group:x"], ["admin"], 60))
    (act,) = tokens.acts
    assert (act.action, act.principal) == ("token.create", "person:alice")
    assert act.detail == {
        "token": issued.token.id,
        "scopes": ["user", "admin"],
        "groups": ["group:x"],
        "expires_at": "2026-10-01T12:01:00+00:00",
    }
    assert issued.secret not in repr(act)
    assert issued.token.created_by == "person:root"


async def test_what_is_too_long_for_a_token_is_none(create: CreateToken, authenticate: Authenticate):
    issued = await create("credential:admin", Wanted("person:alice"))
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
        '{"admin_token": "looks-like.a-json.web-token"}',
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
