"""How much one principal may ask of all gateways together, and how often one address may be refused.

A limit of N a minute is a bucket: N at once, and one more every Nth of a minute (the generic cell rate
algorithm). All there is to keep is the moment at which the bucket is full again, so a decision is one
short script in Redis: one round trip, on Redis' clock, for all limits of a request or for none of them.
While Redis is away or slow, buckets of the same size in this process take over.
"""

import asyncio
import contextvars
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from gateway.source import network_of
from service_kit import semconv, telemetry
from service_kit.errors import GroveError

__all__ = ["Limit", "LocalBuckets", "RateLimits", "RedisBuckets", "Sizes", "Verdict"]

_log: Final = logging.getLogger(__name__)
_meter: Final = telemetry.meter(__name__)
_limited: Final = _meter.create_counter(
    semconv.GROVE_RATE_LIMITED, description="Requests refused because a rate limit was reached."
)
_alone: Final = _meter.create_counter(
    semconv.GROVE_RATE_LIMIT_ALONE, description="Rate limit decisions taken without Redis."
)

_SECOND_US: Final = 1_000_000
_MINUTE_US: Final = 60 * _SECOND_US
_PATIENCE_S: Final = 0.25
"""Longest wait for Redis; far longer than it takes, and short enough to be an answer's least trouble."""
_PAUSE_US: Final = _SECOND_US
"""How long Redis is left alone once it did not answer."""
_TOGETHER: Final = 64
"""Most decisions in one round trip."""
_FAILURES: Final = (RedisError, OSError, asyncio.TimeoutError)


@dataclass(frozen=True, slots=True)
class Limit:
    """``size`` at once, and as many again spread over each minute (1 to 1,000,000)."""

    name: str
    size: int

    @property
    def interval_us(self) -> int:
        """Microseconds in which one more is allowed."""
        return _MINUTE_US // self.size

    @property
    def depth_us(self) -> int:
        """How far ahead of now the moment may lie at which the bucket is full again."""
        return self.interval_us * self.size


@dataclass(frozen=True, slots=True)
class Verdict:
    """``limit``: the one that was reached, None for go ahead. ``wait_us``: until the same would be let in."""

    limit: Limit | None = None
    wait_us: int = 0


@dataclass(frozen=True, slots=True)
class _Ask:
    keys: list[str]
    limits: Sequence[Limit]
    verdict: asyncio.Future[Verdict] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class LocalBuckets:
    """The buckets of this process alone. ``now_us``: a clock that never goes back."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us: Callable[[], int] = now_us
        self._full_at: dict[str, int] = {}
        self._sweep_at: int = 1024

    def take(self, who: str, limits: Sequence[Limit]) -> Verdict:
        """One from each bucket of ``who``, or from none."""
        now, keys = self._now_us(), _keys(who, limits)
        full_at = [
            max(self._full_at.get(key, 0), now) + limit.interval_us
            for key, limit in zip(keys, limits, strict=True)
        ]
        waits = [at - now - limit.depth_us for at, limit in zip(full_at, limits, strict=True)]
        longest = max(waits)
        if longest > 0:
            return Verdict(limits[waits.index(longest)], longest)
        self._full_at.update(zip(keys, full_at, strict=True))
        self._sweep(now)
        return Verdict()

    def _sweep(self, now: int) -> None:
        """Forget full buckets, seldom enough to cost next to nothing."""
        if len(self._full_at) >= self._sweep_at:
            self._full_at = {key: at for key, at in self._full_at.items() if at > now}
            self._sweep_at = max(1024, 2 * len(self._full_at))


# KEYS: the buckets; ARGV: interval and depth of each. Answers the number of the limit reached and the wait.
# No bucket is ever emptier than empty: a moment further ahead was written when the clock was ahead of now's.
_TAKE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at, reached, longest = {}, 0, 0
for i, key in ipairs(KEYS) do
    local interval, depth = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
    local known = tonumber(redis.call('GET', key) or '') or 0
    full_at[i] = math.min(math.max(known, now), now + depth) + interval
    local wait = full_at[i] - now - depth
    if wait > longest then reached, longest = i, wait end
end
if reached == 0 then
    for i, key in ipairs(KEYS) do
        redis.call('SET', key, string.format('%.0f', full_at[i]), 'PX', math.ceil((full_at[i] - now) / 1000))
    end
end
return {reached, longest}
"""


class RedisBuckets:
    """The buckets of all gateways. Requests that arrive together share a round trip."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - untyped options
            url,
            socket_timeout=_PATIENCE_S,
            socket_connect_timeout=_PATIENCE_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._waiting: list[_Ask] = []
        self._worker: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """Close the connection."""
        if self._worker is not None:
            await self._worker
        await self._redis.aclose()

    async def take(self, who: str, limits: Sequence[Limit]) -> Verdict:
        """As :meth:`LocalBuckets.take`. Raises one of ``_FAILURES`` within ``_PATIENCE_S``, or twice that."""
        ask = _Ask(_keys(who, limits), limits)
        self._waiting.append(ask)
        if self._worker is None:
            # An empty context: a worker outlives the request that began it and must act for none.
            self._worker = asyncio.create_task(self._work(), context=contextvars.Context())
        return await ask.verdict

    async def _work(self) -> None:
        """Ask for all who wait, until nobody does."""
        while self._waiting:
            batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
            try:
                answers = await self._together(batch)
            except Exception as error:  # noqa: BLE001 - everybody who waits gets an answer, whatever happened
                batch, self._waiting = batch + self._waiting, []
                for ask in batch:
                    if not ask.verdict.done():
                        ask.verdict.set_exception(error)
                continue
            for ask, (reached, wait_us) in zip(batch, answers, strict=True):
                if not ask.verdict.done():
                    ask.verdict.set_result(
                        Verdict(ask.limits[reached - 1], wait_us) if reached else Verdict()
                    )
        self._worker = None

    async def _together(self, batch: Sequence[_Ask]) -> list[tuple[int, int]]:
        async with asyncio.timeout(_PATIENCE_S), self._redis.pipeline(transaction=False) as pipe:
            for ask in batch:
                numbers = [number for one in ask.limits for number in (one.interval_us, one.depth_us)]
                # The whole script each time: Redis knows it by its hash, and nothing is to be loaded first.
                cast("Any", pipe).eval(_TAKE, len(ask.keys), *ask.keys, *numbers)
            return cast("list[tuple[int, int]]", await pipe.execute())


class Shared(Protocol):
    """What :class:`RedisBuckets` does."""

    async def take(self, who: str, limits: Sequence[Limit]) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many a minute of each; 0: as many as one likes."""

    requests: int = 0
    turns: int = 0
    refused: int = 0


class RateLimits:
    """The limits a gateway keeps; without ``shared`` buckets it keeps them by itself."""

    def __init__(
        self,
        sizes: Sizes,
        shared: Shared | None = None,
        now_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
    ) -> None:
        requests, turns = Limit("requests", sizes.requests), Limit("turns", sizes.turns)
        self._request: list[Limit] = _kept(requests)
        self._turn: list[Limit] = _kept(requests, turns)
        self._refused: list[Limit] = _kept(Limit("refused", sizes.refused))
        self._shared: Shared | None = shared
        self._local: LocalBuckets = LocalBuckets(now_us)
        self._now_us: Callable[[], int] = now_us
        self._away_until: int = 0

    async def admit(self, principal: str, *, starts_turn: bool) -> None:
        """Count a request; ``rate_limited`` when its principal made too many. Those that are refused count for none."""
        await self._count(principal, self._turn if starts_turn else self._request)

    async def visited(self, source: str) -> None:
        """Count a request without a credential; ``rate_limited`` when its address made as many as a principal may."""
        await self._count(network_of(source), self._request)

    async def refused(self, source: str) -> None:
        """Count a refused credential; ``rate_limited`` when its address had too many refused."""
        await self._count(network_of(source), self._refused)

    async def _count(self, who: str, limits: Sequence[Limit]) -> None:
        verdict = await self._take(who, limits) if limits else Verdict()
        if verdict.limit is None:
            return
        _limited.add(1, {semconv.GROVE_RATE_LIMIT_NAME: verdict.limit.name})
        seconds = -(-verdict.wait_us // _SECOND_US)
        raise GroveError(
            "rate_limited",
            f"Too many requests; try again in {seconds} s.",
            detail={"limit": verdict.limit.name, "retry_after": seconds},
        )

    async def _take(self, who: str, limits: Sequence[Limit]) -> Verdict:
        if self._shared is None:
            return self._local.take(who, limits)
        now, away = self._now_us(), self._away_until
        if now >= away:
            if away:
                # One finds out whether Redis is back; the others do not wait for it.
                self._away_until = now + _PAUSE_US
            try:
                verdict = await self._shared.take(who, limits)
            except _FAILURES as error:
                self._lost(error)
            else:
                self._found()
                return verdict
        _alone.add(1)
        return self._local.take(who, limits)

    def _lost(self, error: BaseException) -> None:
        if not self._away_until:
            _log.warning("redis is away, each gateway limits by itself: %s", type(error).__name__)
        self._away_until = self._now_us() + _PAUSE_US

    def _found(self) -> None:
        if self._away_until:
            _log.info("redis is back, gateways limit together")
        self._away_until = 0


def _kept(*limits: Limit) -> list[Limit]:
    return [limit for limit in limits if limit.size]


def _keys(who: str, limits: Sequence[Limit]) -> list[str]:
    """Of one length, whatever the name holds, and without it."""
    digest = hashlib.sha256(who.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return [f"grove:limit:{limit.name}:{digest}" for limit in limits]
