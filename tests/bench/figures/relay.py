"""The relay: what it adds to an event, and to a call, of the model behind it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from urllib.parse import urlsplit

import msgspec

from tests.bench.bench import Bench
from tests.bench.figure import Figure, Target, Window
from tests.bench.floors import process
from tests.bench.http1 import Http
from tests.bench.measure import Plan, compare, latency, percentile
from tests.bench.timed import MODEL, QUICK, ages_ms

__all__ = ["relay"]

_PATH = "/chat/completions"
_Open = Callable[[], AbstractAsyncContextManager[Http]]


class _Delta(msgspec.Struct):
    content: str = ""


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    choices: list[_Choice]


async def relay(bench: Bench) -> AsyncIterator[Figure]:
    """Events of a stream, and calls of one word, both against the model asked directly."""
    model = str(bench.floors.http_port)
    async with process("tests.bench.relay_server", model) as (said, _):
        url, token = said.split()
        place = urlsplit(url)

        def direct() -> Http:
            return Http("127.0.0.1", bench.floors.http_port, token)

        def relayed() -> Http:
            return Http(str(place.hostname), int(place.port or 0), token)

        paths = (f"/v1{_PATH}", place.path + _PATH)
        yield await compare(
            Plan(
                "relay.event",
                "event of a model through the relay, p50",
                "ms",
                "the model asked directly",
                "less",
                Target("ratio", "<=", 4.0),
            ),
            partial(_ages, direct, paths[0]),
            partial(_ages, relayed, paths[1]),
        )
        yield await compare(
            Plan(
                "relay.call",
                "model call of one word through the relay, p50",
                "ms",
                "the model asked directly",
                "less",
                Target("difference", "<=", 10.0),
            ),
            partial(latency, partial(_call, direct, paths[0]), 50),
            partial(latency, partial(_call, relayed, paths[1]), 50),
        )


def _asked(text: str) -> bytes:
    return msgspec.json.encode(
        {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": text}]}
    )


async def _call(opened: _Open, path: str) -> None:
    async with opened() as http, aclosing(http.events("POST", path, _asked(QUICK))) as payloads:
        async for _ in payloads:
            pass


async def _ages(opened: _Open, path: str) -> Window:
    """The median age of the words in one stream, when they are read."""
    ages: list[float] = []
    async with opened() as http, aclosing(http.events("POST", path, _asked("Go on."))) as payloads:
        async for text in _words(payloads):
            ages += ages_ms(text)
    return Window(percentile(ages, 0.5), len(ages), percentile(ages, 0.99))


async def _words(payloads: AsyncGenerator[bytes]) -> AsyncGenerator[str]:
    async for payload in payloads:
        if payload != b"[DONE]":
            for choice in msgspec.json.decode(payload, type=_Chunk).choices:
                yield choice.delta.content
