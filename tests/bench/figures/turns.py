"""A turn: what it adds to the work of its base, and how long an event takes from the model to the client.

Both run on the ``loop`` base against the stand-in model, whose words say when they were written.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial

import msgspec

from tests.bench.bench import Bench
from tests.bench.figure import Figure, Target, Window
from tests.bench.http1 import Http
from tests.bench.measure import Plan, compare, latency, percentile
from tests.bench.timed import MODEL, QUICK, ages_ms

__all__ = ["events", "overhead"]


class _Named(msgspec.Struct):
    id: str


class _Response(msgspec.Struct):
    status: str


class _Event(msgspec.Struct):
    type: str
    delta: str = ""


async def _harness(bench: Bench) -> str:
    async with bench.http() as http:
        body = {"name": "Bench", "base": "loop", "default_model": MODEL}
        return msgspec.json.decode((await http.post("/v1/harnesses", body)).ok(), type=_Named).id


async def overhead(bench: Bench) -> AsyncIterator[Figure]:
    """A turn of one model call and one word, not streamed; the floor is that model call by itself."""
    harness = await _harness(bench)
    asked = {"input": f"Answer {QUICK}.", "metadata": {"harness_id": harness}}

    async with bench.http() as http:

        async def turn() -> None:
            answer = msgspec.json.decode((await http.post("/v1/responses", asked)).ok(), type=_Response)
            if answer.status != "completed":
                raise RuntimeError(f"the turn ended {answer.status}")

        yield await compare(
            Plan(
                "turn.overhead",
                "turn of one model call, p50",
                "ms",
                "the model call itself",
                "less",
                Target("difference", "<=", 150),
                rounds=4,
            ),
            partial(latency, partial(_model, bench), 15),
            partial(latency, turn, 15),
        )


async def _model(bench: Bench) -> None:
    body = msgspec.json.encode(
        {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": QUICK}]}
    )
    async with Http("127.0.0.1", bench.floors.http_port) as http:
        async for _ in http.events("POST", "/v1/chat/completions", body):
            pass


async def events(bench: Bench) -> AsyncIterator[Figure]:
    """From the moment the model writes a word to the moment the client reads it."""
    harness = await _harness(bench)
    asked = msgspec.json.encode({"input": "Go on.", "stream": True, "metadata": {"harness_id": harness}})

    async def bare() -> Window:
        async with bench.floor_http() as http:
            return await _ages(http.events("GET", "/v1/events"))

    async def turn() -> Window:
        async with bench.http() as http:
            return await _ages(http.events("POST", "/v1/responses", asked))

    yield await compare(
        Plan(
            "event.latency",
            "event from model to client, p50",
            "ms",
            "bare gRPC stream + SSE",
            "less",
            Target("ratio", "<=", 1.5),
            note="includes the base's own reading of the model's stream, which the floor does not",
            rounds=4,
        ),
        bare,
        turn,
    )


async def _ages(stream: AsyncGenerator[bytes]) -> Window:
    """The median age of the words in a stream of events."""
    ages: list[float] = []
    async with aclosing(stream) as payloads:
        async for payload in payloads:
            event = msgspec.json.decode(payload, type=_Event)
            if event.type == "response.output_text.delta":
                ages += ages_ms(event.delta)
    if not ages:
        raise RuntimeError("no word arrived")
    return Window(percentile(ages, 0.5), len(ages), percentile(ages, 0.99))
