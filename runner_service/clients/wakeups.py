"""Hints between runners over Redis pub/sub: work was queued, a task is to be cancelled, events are in the log.

Nothing here is a promise. Without Redis everything still happens, a little later: workers look at the
queue, turns at their cancel flag, followers into the log. Inside one process hints need no Redis at all.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from runner_service.domain.model import Event
from service_kit.tasks import let_cancellation_pass

__all__ = ["RedisWakeups"]

_log: Final = logging.getLogger(__name__)
_WORK: Final = "grove:runner:work"
_CANCEL: Final = "grove:runner:cancel"
_RESPONSE: Final = "grove:runner:response:"
_TIMEOUT_S: Final = 1.0
_PAUSE_S: Final = 1.0
_KEPT: Final = 64
"""Batches a slow follower may leave lying; more are dropped, and it looks into the log."""


class _Wire(msgspec.Struct, array_like=True):
    sender: str
    events: list[tuple[int, str, bytes, bool]]


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Wire)

_FAILURES: Final = (RedisError, OSError, asyncio.TimeoutError)


class _Listener:
    """A follower's end: ``domain.ports.Following``."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[Event]] = deque()
        self._there: asyncio.Event = asyncio.Event()

    def give(self, batch: Sequence[Event]) -> None:
        if len(self._batches) >= _KEPT:
            self._batches.clear()
        self._batches.append(batch)
        self._there.set()

    async def next(self, timeout_s: float) -> Sequence[Event] | None:
        if not self._batches:
            self._there.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._there.wait()
        return self._batches.popleft() if self._batches else None


class RedisWakeups:
    """The verbs of ``domain.ports.Wakeups``. ``run`` is background work; ``heed`` says who is to be woken."""

    def __init__(self, url: str, name: str) -> None:
        self._name: str = name
        self._redis: Redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - untyped options
            url,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            health_check_interval=15,
            retry=Retry(NoBackoff(), 0),
        )
        self._pubsub: PubSub | None = None
        self._listeners: dict[str, set[_Listener]] = {}
        self._work: Callable[[], None] = lambda: None
        self._cancel: Callable[[str], None] = lambda _: None
        self._silent_until: float = 0.0

    def heed(self, *, work: Callable[[], None], cancel: Callable[[str], None]) -> None:
        """Call these when a hint comes."""
        self._work, self._cancel = work, cancel

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def publish(self, response_id: str, events: Sequence[Event]) -> None:
        for listener in self._listeners.get(response_id, ()):
            listener.give(events)
        wire = _Wire(self._name, [(one.sequence_number, one.type, one.json, one.terminal) for one in events])
        await self._send(f"{_RESPONSE}{response_id}", _encoder.encode(wire))

    async def wake_workers(self) -> None:
        self._work()
        await self._send(_WORK, self._name.encode())

    async def wake_cancel(self, response_id: str) -> None:
        self._cancel(response_id)
        await self._send(_CANCEL, response_id.encode())

    @asynccontextmanager
    async def follow(self, response_id: str) -> AsyncGenerator[_Listener]:
        listener = _Listener()
        known = self._listeners.setdefault(response_id, set())
        known.add(listener)
        try:
            if len(known) == 1:
                await self._listen(response_id, here=True)
            yield listener
        finally:
            known.discard(listener)
            if not known and self._listeners.get(response_id) is known:
                del self._listeners[response_id]
                await self._listen(response_id, here=False)

    async def run(self) -> None:
        """Hear what others say, until cancelled, whatever becomes of Redis meanwhile."""
        while True:
            try:
                async with self._redis.pubsub() as pubsub:  # pyright: ignore[reportUnknownMemberType]
                    await pubsub.subscribe(_WORK, _CANCEL, *(f"{_RESPONSE}{one}" for one in self._listeners))
                    self._pubsub = pubsub
                    # What was said while nobody listened is looked for.
                    self._work()
                    await self._hear(pubsub)
            except _FAILURES as error:
                _log.warning("redis is away, looking by ourselves: %s", type(error).__name__)
            finally:
                self._pubsub = None
            let_cancellation_pass()
            await asyncio.sleep(_PAUSE_S)

    async def _hear(self, pubsub: PubSub) -> None:
        while True:
            let_cancellation_pass()
            message = cast(
                "dict[str, Any] | None",
                await pubsub.get_message(ignore_subscribe_messages=True, timeout=_TIMEOUT_S),
            )
            if message is not None and message["type"] == "message":
                self._heard(cast(bytes, message["channel"]).decode(), cast(bytes, message["data"]))

    def _heard(self, channel: str, data: bytes) -> None:
        if channel == _WORK:
            self._work()
        elif channel == _CANCEL:
            self._cancel(data.decode())
        elif listeners := self._listeners.get(channel.removeprefix(_RESPONSE)):
            wire = _decoder.decode(data)
            if wire.sender == self._name:
                return
            events = [Event(*one) for one in wire.events]
            for listener in listeners:
                listener.give(events)

    async def _listen(self, response_id: str, *, here: bool) -> None:
        pubsub = self._pubsub
        if pubsub is None:
            return
        try:
            channel = f"{_RESPONSE}{response_id}"
            if here:
                await pubsub.subscribe(channel)
            else:
                await pubsub.unsubscribe(channel)  # pyright: ignore[reportUnknownMemberType]
        except _FAILURES:
            _log.debug("redis did not take a subscription")

    async def _send(self, channel: str, data: bytes) -> None:
        """Say it, unless Redis was just found away: a turn does not wait for it."""
        if time.monotonic() < self._silent_until:
            return
        try:
            await self._redis.publish(channel, data)  # pyright: ignore[reportUnknownMemberType]
        except _FAILURES as error:
            self._silent_until = time.monotonic() + _PAUSE_S
            _log.warning("redis could not be told: %s", type(error).__name__)
