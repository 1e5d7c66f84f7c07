import asyncio
import logging
from collections.abc import Sequence

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway import limits
from gateway.limits import Limit, LocalBuckets, RateLimits, Sizes, Verdict
from service_kit.errors import GroveError

SECOND = 1_000_000
MINUTE = 60 * SECOND


class Clock:
    """Microseconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 5 * MINUTE

    def __call__(self) -> int:
        return self.now


class Faulty:
    """Shared buckets that can be broken, and count how often they were asked."""

    def __init__(self, clock: Clock) -> None:
        self.buckets = LocalBuckets(clock)
        self.broken = False
        self.asked = 0

    async def take(self, who: str, limits: Sequence[Limit]) -> Verdict:
        self.asked += 1
        if self.broken:
            raise RedisConnectionError("gone")
        return self.buckets.take(who, limits)


class Counter:
    """What a metric was told."""

    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []

    def add(self, amount: int, attributes: dict[str, str] | None = None) -> None:
        assert amount == 1
        self.told.append(attributes or {})


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def admitted(rates: RateLimits, who: str, *, starts_turn: bool = False) -> GroveError | None:
    """None, or why not."""
    try:
        await rates.admit(who, starts_turn=starts_turn)
    except GroveError as error:
        return error
    return None


async def burst(rates: RateLimits, who: str, *, starts_turn: bool = False) -> int:
    """How many are let in at one moment."""
    count = 0
    while await admitted(rates, who, starts_turn=starts_turn) is None:
        count += 1
    return count


@pytest.mark.parametrize("size", [1, 7, 60, 999, 12_000])
async def test_as_many_as_the_limit_says_are_let_in_at_once_and_again_after_a_minute(clock: Clock, size: int):
    rates = RateLimits(Sizes(requests=size), now_us=clock)
    assert await burst(rates, "person:a") == size
    clock.now += MINUTE
    assert await burst(rates, "person:a") == size


@pytest.mark.parametrize("size", [1, 7, 60, 999, 12_000])
async def test_what_was_used_comes_back_evenly(clock: Clock, size: int):
    rates = RateLimits(Sizes(requests=size), now_us=clock)
    await burst(rates, "person:a")
    for _ in range(5):
        clock.now += MINUTE // size
        assert await burst(rates, "person:a") == 1


@pytest.mark.parametrize("size", [1, 7, 45, 60, 999])
async def test_whoever_comes_back_after_the_time_told_gets_in_and_one_tick_earlier_does_not(
    clock: Clock, size: int
):
    buckets, limit = LocalBuckets(clock), [Limit("requests", size)]
    while (verdict := buckets.take("person:a", limit)).limit is None:
        pass
    clock.now += verdict.wait_us - 1
    assert buckets.take("person:a", limit) == Verdict(limit[0], 1)
    clock.now += 1
    assert buckets.take("person:a", limit) == Verdict()


async def test_the_time_told_is_in_whole_seconds_and_never_too_short(clock: Clock):
    rates = RateLimits(Sizes(requests=45), now_us=clock)
    await burst(rates, "person:a")
    clock.now += SECOND // 10
    refused = await admitted(rates, "person:a")
    assert refused is not None
    assert refused.detail == {"limit": "requests", "retry_after": 2}  # one every 1.33 s, a tenth of it gone
    clock.now += 2 * SECOND
    assert await admitted(rates, "person:a") is None


async def test_being_refused_costs_nothing(clock: Clock):
    rates = RateLimits(Sizes(requests=1), now_us=clock)
    await burst(rates, "person:a")
    for _ in range(1000):
        assert await admitted(rates, "person:a") is not None
    clock.now += MINUTE
    assert await admitted(rates, "person:a") is None


async def test_principals_do_not_affect_each_other(clock: Clock):
    rates = RateLimits(Sizes(requests=3), now_us=clock)
    names = [
        "person:a",
        "person:A",
        "credential:a",
        "person:a ",
        "person:\u00e9",
        "person:e\u0301",
        "person:\U0001f600",
    ]
    assert [await burst(rates, name) for name in names] == [3] * len(names)


async def test_what_starts_a_turn_counts_for_both_limits_or_for_none(clock: Clock):
    rates = RateLimits(Sizes(requests=5, turns=2), now_us=clock)
    assert await burst(rates, "person:a", starts_turn=True) == 2
    refused = await admitted(rates, "person:a", starts_turn=True)
    assert refused is not None
    assert refused.detail is not None
    assert refused.detail["limit"] == "turns"
    assert await burst(rates, "person:a") == 3  # refused turns took none of these
    assert await burst(rates, "person:b") == 5
    refused = await admitted(rates, "person:b", starts_turn=True)
    assert refused is not None
    assert refused.detail is not None
    assert refused.detail["limit"] == "requests"


async def test_the_limit_that_takes_longest_is_the_one_that_is_told(clock: Clock):
    rates = RateLimits(Sizes(requests=60, turns=2), now_us=clock)
    await burst(rates, "person:a", starts_turn=True)
    await burst(rates, "person:a")
    refused = await admitted(rates, "person:a", starts_turn=True)
    assert refused is not None
    assert refused.detail == {"limit": "turns", "retry_after": 30}


async def test_a_limit_of_nothing_is_none(clock: Clock):
    rates = RateLimits(Sizes(), now_us=clock)
    for _ in range(100):
        await rates.admit("person:a", starts_turn=True)
        await rates.refused("192.0.2.1")


async def test_refused_credentials_are_counted_by_address_and_ipv6_by_network(clock: Clock):
    rates = RateLimits(Sizes(refused=2), now_us=clock)

    async def refuse(source: str) -> bool:
        try:
            await rates.refused(source)
        except GroveError:
            return True
        return False

    assert [await refuse(one) for one in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2")] == [0, 0, 1, 0]
    same = ("2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:1", "2001:db8:0:1::1")
    assert [await refuse(one) for one in same] == [0, 0, 1, 0]


async def test_while_the_shared_buckets_are_away_those_of_the_process_take_over(
    clock: Clock, caplog: pytest.LogCaptureFixture
):
    shared = Faulty(clock)
    rates = RateLimits(Sizes(requests=4), shared, clock)
    caplog.set_level(logging.INFO, "gateway.limits")
    assert await admitted(rates, "person:a") is None
    shared.broken = True
    assert await burst(rates, "person:a") == 4  # of the same size, never unlimited
    assert shared.asked == 2  # the first, and the one that found out
    clock.now += SECOND
    await admitted(rates, "person:a")
    assert shared.asked == 3  # somebody looks once a second
    shared.broken = False
    clock.now += SECOND
    assert await burst(rates, "person:a") == 3  # the shared ones know of the one at the start
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_one_request_finds_out_whether_redis_is_back_and_the_others_do_not_wait_for_it(clock: Clock):
    there, gone = asyncio.Event(), asyncio.Event()

    class Slow(Faulty):
        async def take(self, who: str, limits: Sequence[Limit]) -> Verdict:
            self.asked += 1
            if self.asked > 1:
                there.set()
                await gone.wait()
            raise RedisConnectionError("gone")

    shared = Slow(clock)
    rates = RateLimits(Sizes(requests=100), shared, clock)
    await rates.admit("person:a", starts_turn=False)
    clock.now += SECOND
    finding_out = asyncio.create_task(rates.admit("person:a", starts_turn=False))
    await there.wait()
    for _ in range(10):
        await rates.admit("person:b", starts_turn=False)
    assert shared.asked == 2
    gone.set()
    await finding_out


async def test_what_is_refused_and_what_is_decided_alone_is_counted(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    limited, alone = Counter(), Counter()
    monkeypatch.setattr(limits, "_limited", limited)
    monkeypatch.setattr(limits, "_alone", alone)
    shared = Faulty(clock)
    rates = RateLimits(Sizes(requests=2, turns=1), shared, clock)
    await admitted(rates, "person:a", starts_turn=True)
    await admitted(rates, "person:a", starts_turn=True)
    assert (limited.told, alone.told) == ([{"grove.rate_limit.name": "turns"}], [])
    shared.broken = True
    await admitted(rates, "person:a")
    assert len(alone.told) == 1


async def test_full_buckets_are_forgotten(clock: Clock):
    buckets, limit = LocalBuckets(clock), [Limit("requests", 60)]
    for number in range(5_000):
        clock.now += SECOND // 100
        buckets.take(f"person:{number}", limit)
    assert len(buckets._full_at) < 2_500
