"""Limits as clients meet them: several gateways, one Redis, which may slow down or die."""

import asyncio
import hashlib
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from redis.asyncio import Redis

from gateway.limits import Limit, RedisBuckets, Verdict
from tests.api.gateway.backends import ALICE, BOB, Script
from tests.api.gateway.conftest import gateway_on
from tests.fixtures.parts import embedded_valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

WHOAMI = "/v1/grovekeeper/whoami"
Ask = Callable[..., Any]


@asynccontextmanager
async def gateways(backend: str, count: int, **settings: Any) -> AsyncGenerator[list[httpx.AsyncClient]]:
    """Clients of that many gateways with the same settings."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(gateway_on(backend, **settings)) for _ in range(count)]
        yield [await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=20)) for url in urls]


def bearer(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


async def burst(clients: list[httpx.AsyncClient], token: str, count: int) -> Counter[int]:
    """The statuses of ``count`` requests sent at once, by turns to each gateway."""
    asked = [clients[number % len(clients)].get(WHOAMI, headers=bearer(token)) for number in range(count)]
    return Counter(answer.status_code for answer in await asyncio.gather(*asked))


def refusal(answer: httpx.Response, limit: str) -> int:
    """How long to wait, after everything a refusal has to say was checked."""
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (429, "rate_limit_error", "rate_limited")
    assert error["detail"]["limit"] == limit
    assert error["detail"]["trace_id"] == answer.headers["traceparent"].split("-")[1]
    assert answer.headers["retry-after"] == str(error["detail"]["retry_after"])
    assert "uhp-version" in answer.headers
    return int(answer.headers["retry-after"])


async def test_two_gateways_share_one_limit(backend: str, script: Script, clean_redis: str):
    async with gateways(backend, 2, redis_url=clean_redis, rate_limit=20) as clients:
        assert await burst(clients, ALICE, 50) == {200: 20, 429: 30}
        for client in clients:
            assert 1 <= refusal(await client.get(WHOAMI, headers=bearer(ALICE)), "requests") <= 3


async def test_principals_do_not_affect_each_other_and_tokens_of_one_share(
    backend: str, script: Script, clean_redis: str
):
    script.tokens["gk_alice_again"] = script.tokens[ALICE]
    async with gateways(backend, 2, redis_url=clean_redis, rate_limit=10) as clients:
        assert await burst(clients, ALICE, 20) == {200: 10, 429: 10}
        assert await burst(clients, "gk_alice_again", 5) == {429: 5}
        assert await burst(clients, BOB, 20) == {200: 10, 429: 10}


@pytest.mark.requirement("SU-errors-02")
async def test_whoever_comes_back_after_the_time_told_gets_in(backend: str, script: Script, clean_redis: str):
    async with (
        gateways(backend, 1, redis_url=clean_redis, rate_limit=6) as (client,),
        Redis.from_url(clean_redis) as redis,  # pyright: ignore[reportUnknownMemberType] - untyped options
    ):
        await burst([client], ALICE, 7)
        told = refusal(await client.get(WHOAMI, headers=bearer(ALICE)), "requests")
        assert 8 <= told <= 10
        await _pass(redis, "requests", "person:alice", told - 4)
        assert refusal(await client.get(WHOAMI, headers=bearer(ALICE)), "requests") <= 4
        await _pass(redis, "requests", "person:alice", 4)
        assert (await client.get(WHOAMI, headers=bearer(ALICE))).status_code == 200
        assert (await client.get(WHOAMI, headers=bearer(ALICE))).status_code == 429


def _key(limit: str, who: str) -> str:
    return f"grove:limit:{limit}:{hashlib.sha256(who.encode()).hexdigest()[:32]}"


async def _pass(redis: Redis, limit: str, who: str, seconds: float) -> None:
    """Let a bucket believe that time has passed, by what Redis keeps of it."""
    key = _key(limit, who)
    full_at = int(cast("bytes", await redis.get(key)))
    await redis.set(key, full_at - int(seconds * 1e6), keepttl=True)


async def test_redis_and_the_process_decide_alike_and_redis_forgets_full_buckets(clean_redis: str):
    limits = [Limit("requests", 3), Limit("turns", 2)]
    buckets = RedisBuckets(clean_redis)
    try:
        verdicts = [await buckets.take("person:\U0001f600", limits) for _ in range(3)]
        assert verdicts[:2] == [Verdict(), Verdict()]
        assert verdicts[2].limit == limits[1]
        assert 29e6 < verdicts[2].wait_us <= 30e6
        assert await buckets.take("person:\U0001f600", limits[:1]) == Verdict()
        assert (await buckets.take("person:\U0001f600", limits[:1])).limit == limits[0]
    finally:
        await buckets.aclose()
    async with Redis.from_url(clean_redis) as redis:  # pyright: ignore[reportUnknownMemberType] - untyped options
        left = [await redis.pttl(key) for key in await redis.keys("*")]  # pyright: ignore[reportUnknownMemberType]
        assert len(left) == 2
        assert all(50_000 < one <= 60_000 for one in left)


@pytest.mark.parametrize("kept", [b"4102444800000000", b"-1", b"nonsense", b"", b"1e300"])
async def test_whatever_redis_kept_nobody_is_locked_out_for_longer_than_one_more_takes(
    clean_redis: str, kept: bytes
):
    limit = Limit("requests", 60)
    async with Redis.from_url(clean_redis) as redis:  # pyright: ignore[reportUnknownMemberType] - untyped options
        await redis.set(_key("requests", "person:a"), kept)
    buckets = RedisBuckets(clean_redis)
    try:
        verdict = await buckets.take("person:a", [limit])
    finally:
        await buckets.aclose()
    assert verdict == Verdict() or verdict == Verdict(limit, limit.interval_us)


async def test_a_parallel_burst_is_let_in_exactly_as_far_as_the_limit_goes(clean_redis: str):
    """Two processes' worth of askers; nothing comes back within the burst, for that takes a minute each."""
    limit = [Limit("requests", 60 * 60)]  # one comes back every 16.7 ms
    several = [RedisBuckets(clean_redis) for _ in range(2)]
    try:
        began = time.monotonic()
        verdicts = await asyncio.gather(*(several[n % 2].take("person:a", limit) for n in range(5_000)))
        took = time.monotonic() - began
    finally:
        for one in several:
            await one.aclose()
    let_in = sum(verdict.limit is None for verdict in verdicts)
    assert 3_600 <= let_in <= 3_600 + took * 60 + 1


async def test_starting_turns_has_a_tighter_limit_whatever_becomes_of_them(
    backend: str, script: Script, clean_redis: str
):
    async with gateways(backend, 2, redis_url=clean_redis, rate_limit=50, rate_limit_turns=4) as clients:

        async def start(number: int, path: str) -> httpx.Response:
            address = httpx.URL(str(clients[number % 2].base_url).rstrip("/") + path)
            return await clients[number % 2].post(address, content=b"no json", headers=bearer(ALICE))

        assert [(await start(number, "/v1/responses")).status_code for number in range(4)] == [400] * 4
        for number, path in enumerate(("/v1/responses", "/v1/%72esponses", "/v1/responses?stream=true")):
            assert 1 <= refusal(await start(number, path), "turns") <= 15
        # Other spellings are other addresses, where no turn starts.
        for path in ("/v1/responses/", "/V1/Responses", "//v1/responses", "/v1/responses%0A"):
            assert (await start(0, path)).status_code == 404, path
        assert (await clients[0].get(WHOAMI, headers=bearer(ALICE))).status_code == 200


async def test_a_refusal_says_nothing_of_the_address_asked_for(
    backend: str, script: Script, clean_redis: str
):
    async with gateways(backend, 1, redis_url=clean_redis, rate_limit=1) as (client,):
        await client.get(WHOAMI, headers=bearer(ALICE))
        said: set[str] = set()
        for method, path in (
            ("GET", WHOAMI),
            ("GET", "/v1/nowhere"),
            ("GET", f"/v1/memories/hmem_{'0' * 32}"),
            ("DELETE", f"/v1/memories/hmem_{'0' * 32}/records/hrec_{'1' * 32}"),
            ("PATCH", "/openapi.json"),
            ("POST", "/v1/grovekeeper/tokens"),
        ):
            answer = await client.request(method, path, headers=bearer(ALICE))
            refusal(answer, "requests")
            error = answer.json()["error"]
            said.add(f"{error['message']} {error['param']} {sorted(answer.headers)}".replace("59", "60"))
        assert len(said) == 1
        assert not script.calls


async def test_only_refused_credentials_count_against_an_address(
    backend: str, script: Script, clean_redis: str
):
    async with gateways(backend, 2, redis_url=clean_redis, rate_limit_refused=6) as clients:

        async def status(number: int, headers: dict[str, str]) -> int:
            return (await clients[number % 2].get(WHOAMI, headers=headers)).status_code

        assert [await status(n, bearer(ALICE)) for n in range(10)] == [200] * 10
        assert [await status(n, {}) for n in range(10)] == [401] * 10  # none is no refused one
        wrong = ("unknown", "a b", "x" * 5_000)
        assert [await status(n, bearer(wrong[n % 3])) for n in range(6)] == [401] * 6
        answer = await clients[0].get(WHOAMI, headers=bearer("unknown"))
        assert 1 <= refusal(answer, "refused") <= 10
        assert "www-authenticate" not in answer.headers
        # Once it is reached a valid one passes, and one without any is told what it was told before.
        assert [await status(n, bearer(ALICE)) for n in range(4)] == [200] * 4
        assert await status(0, {}) == 401


async def test_an_address_is_the_clients_behind_a_trusted_proxy_and_only_there(
    backend: str, script: Script, clean_redis: str
):
    settings = {"redis_url": clean_redis, "rate_limit_refused": 2}

    async def statuses(client: httpx.AsyncClient, *sources: str) -> list[int]:
        answers = [
            await client.get(WHOAMI, headers=bearer("unknown", **{"X-Forwarded-For": one})) for one in sources
        ]
        return [answer.status_code for answer in answers]

    async with gateways(backend, 1, **settings) as (client,):
        assert await statuses(client, "192.0.2.1", "192.0.2.2", "192.0.2.3") == [401, 401, 429]
    async with gateways(backend, 1, trusted_proxies="127.0.0.0/8", **settings) as (client,):
        assert await statuses(client, "192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.1") == [
            401,
            401,
            401,
            429,
        ]
        # What the client itself wrote stands further left and is not looked at.
        assert await statuses(client, "1.1.1.1, 192.0.2.1", "2.2.2.2,192.0.2.1") == [429, 429]
    async with gateways(backend, 1, trusted_proxies="10.0.0.0/8", **settings) as (client,):
        assert await statuses(client, "192.0.2.7", "192.0.2.8") == [429, 429]


async def test_authz_is_told_where_a_request_came_from(backend: str, script: Script):
    async with gateways(backend, 1, trusted_proxies="127.0.0.1") as (client,):
        await client.get(WHOAMI, headers=bearer(ALICE))
        await client.get(WHOAMI, headers=bearer(ALICE, **{"X-Forwarded-For": "evil, 2001:DB8::7"}))
        twice = [
            ("Authorization", f"Bearer {ALICE}"),
            ("X-Forwarded-For", "192.0.2.9"),
            ("X-Forwarded-For", "192.0.2.1"),
        ]
        await client.get(WHOAMI, headers=twice)
        assert script.sources == ["127.0.0.1", "2001:db8::7", "192.0.2.1"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"X_Forwarded_For: 192.0.2.1\r\n", ["127.0.0.1"]),
        (b"x-FORWARDED-for: 192.0.2.1\r\n", ["192.0.2.1"]),
        (b"X-Forwarded-For:\r\nX-Forwarded-For: \r\n", ["127.0.0.1"]),
        (b"X-Forwarded-For: " + b"127.0.0.1," * 3_000 + b"192.0.2.1\r\n", ["192.0.2.1"]),
        (b"X-Forwarded-For: 192.0.2.1\r\n" + b"X-Forwarded-For: 127.0.0.1\r\n" * 500, ["127.0.0.1"]),
        (b"Forwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n", ["127.0.0.1"]),
        (b"X-Forwarded-For : 192.0.2.1\r\n", []),
        (b"X-Forwarded-For: 127.0.0.1,\r\n 192.0.2.1\r\n", []),
        (b"X-Forwarded-For: 127.0.0.1\rX-Forwarded-For: 192.0.2.1\r\n", []),
        (b"X-Forwarded-For: 192.0.2.1\x00\r\n", []),
    ],
)
async def test_a_forged_header_is_no_header_or_no_request(
    backend: str, script: Script, lines: bytes, expected: list[str]
):
    async with gateways(backend, 1, trusted_proxies="127.0.0.0/8") as (client,):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        head = f"GET {WHOAMI} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {ALICE}\r\n"
        writer.write(head.encode() + lines + b"\r\n")
        status = (await reader.read()).split(b" ", 2)[1]
        writer.close()
        await writer.wait_closed()
    assert (status, script.sources) == (b"400" if not expected else b"200", expected)


async def test_a_redis_that_dies_in_mid_flight_costs_no_request_and_lifts_no_limit(
    backend: str, script: Script
):
    with embedded_valkey() as (url, redis):
        async with gateways(backend, 1, redis_url=url, rate_limit=150) as (client,):
            under_way = asyncio.create_task(burst([client], ALICE, 100))
            while not script.authentications > 30:  # noqa: ASYNC110 - the middle of it, to the tick
                await asyncio.sleep(0)
            redis.signal(signal.SIGKILL)
            assert await under_way == {200: 100}
            rest = await burst([client], ALICE, 250)
            assert set(rest) == {200, 429}
            # The process's own bucket, which had part of the first ones, and what came back meanwhile.
            assert 150 - 100 <= rest[200] <= 150 + 50


async def test_a_redis_that_does_not_answer_is_waited_for_a_moment_only(backend: str, script: Script):
    with embedded_valkey() as (url, redis):
        async with gateways(backend, 1, redis_url=url, rate_limit=1_000) as (client,):
            await burst([client], ALICE, 5)
            redis.signal(signal.SIGSTOP)
            try:
                began = time.monotonic()
                assert await burst([client], ALICE, 20) == {200: 20}
                first = time.monotonic() - began
                began = time.monotonic()
                assert await burst([client], ALICE, 20) == {200: 20}
                second = time.monotonic() - began
            finally:
                redis.signal(signal.SIGCONT)
            assert 0.2 < first < 2  # a quarter of a second, and what the machine needs
            assert second < first
            async with asyncio.timeout(20):
                while not await _in_redis(url, "person:bob"):
                    await burst([client], BOB, 1)


async def _in_redis(url: str, who: str) -> bool:
    async with Redis.from_url(url) as redis:  # pyright: ignore[reportUnknownMemberType] - untyped options
        return bool(await redis.exists(_key("requests", who)))


async def test_a_redis_that_was_never_there_is_no_reason_not_to_serve(backend: str, script: Script):
    async with gateways(backend, 1, redis_url="redis://127.0.0.1:1", rate_limit=5) as (client,):
        assert await burst([client], ALICE, 10) == {200: 5, 429: 5}
