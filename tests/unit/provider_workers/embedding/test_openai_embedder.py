import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import cast

import msgspec
import numpy as np
import pytest
import pytest_asyncio
import uvicorn
from fastapi import FastAPI, Request, Response

from provider_workers.adapters.native.embedding.embedder import Embedder, Endpoint, make_embedder
from provider_workers.adapters.native.embedding.remote import OpenAIEmbedder
from provider_workers.adapters.native.endpoint import RetryPolicy
from service_kit.errors import GroveError

_KEY = "sk-never-shown"
_QUICK = RetryPolicy(attempts=3, timeout=0.5, first_wait=0.01, longest_wait=0.05, total=3.0)


class _Body(msgspec.Struct):
    model: str
    input: list[str]
    encoding_format: str


def _vectors(texts: list[str]) -> list[dict[str, object]]:
    """A made-up embedding of three numbers, listed back to front as a service may."""
    items = [
        {"index": at, "object": "embedding", "embedding": [float(len(text)), 1.0, 2.0]}
        for at, text in enumerate(texts)
    ]
    return list(reversed(cast(list[dict[str, object]], items)))


@dataclass
class _Service:
    """An embeddings service whose next answers a test decides."""

    url: str = ""
    bodies: list[_Body] = field(default_factory=list[_Body])
    keys: list[str | None] = field(default_factory=list[str | None])
    script: list[Callable[[_Body], Response]] = field(default_factory=list[Callable[[_Body], Response]])
    release: asyncio.Event = field(default_factory=asyncio.Event)
    stuck: bool = False

    async def answer(self, request: Request) -> Response:
        body = msgspec.json.decode(await request.body(), type=_Body)
        self.bodies.append(body)
        self.keys.append(request.headers.get("authorization"))
        if self.stuck:
            await self.release.wait()
        if self.script:
            return self.script.pop(0)(body)
        return _json({"object": "list", "model": body.model, "data": _vectors(body.input)})


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _status(code: int, **headers: str) -> Callable[[_Body], Response]:
    return lambda _body: _json({"error": {"message": _KEY}}, code, headers)


def _data(data: object) -> Callable[[_Body], Response]:
    return lambda _body: _json({"data": data})


@pytest_asyncio.fixture
async def service() -> AsyncIterator[_Service]:
    made = _Service()
    app = FastAPI()
    app.add_api_route("/v1/embeddings", made.answer, methods=["POST"])
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield made
        made.release.set()
        server.should_exit = True
        await serving


@pytest_asyncio.fixture
async def embedder(service: _Service) -> AsyncIterator[OpenAIEmbedder]:
    made = OpenAIEmbedder(service.url, "tiny", dimension=3, api_key=_KEY, retry=_QUICK)
    yield made
    await made.aclose()


async def _refusal(embedder: OpenAIEmbedder, texts: list[str] | None = None) -> GroveError:
    with pytest.raises(GroveError) as refused:
        await embedder.embed(texts or ["text"])
    assert refused.value.code == "memory_unavailable"
    assert _KEY not in repr(refused.value)
    return refused.value


async def test_vectors_come_in_the_order_of_the_texts_as_unit_vectors(
    embedder: OpenAIEmbedder, service: _Service
) -> None:
    vectors = await embedder.embed(["a", "bbb"])
    assert vectors[0] == pytest.approx(np.array([1, 1, 2]) / np.sqrt(6), abs=1e-6)
    assert vectors[1] == pytest.approx(np.array([3, 1, 2]) / np.sqrt(14), abs=1e-6)
    assert vectors[0].dtype == np.float32
    assert service.bodies[0].model == "tiny"
    assert service.keys == [f"Bearer {_KEY}"]


async def test_no_texts_ask_nothing(embedder: OpenAIEmbedder, service: _Service) -> None:
    assert await embedder.embed([]) == []
    assert service.bodies == []


async def test_many_texts_go_in_bounded_batches(embedder: OpenAIEmbedder, service: _Service) -> None:
    vectors = await embedder.embed(["x" * (n + 1) for n in range(150)])
    assert [len(body.input) for body in service.bodies] == [64, 64, 22]
    assert [round(float(v[0] / v[1])) for v in vectors] == list(range(1, 151))


async def test_long_text_goes_in_windows_and_comes_back_as_one_vector(
    embedder: OpenAIEmbedder, service: _Service
) -> None:
    vectors = await embedder.embed(["short", "y" * 13_000, "z" * 1_000_000])
    assert len(vectors) == 3
    assert [len(text) for text in service.bodies[0].input] == [5, 4334, 4334, 4332, *[6000] * 10]


async def test_empty_text_is_never_sent_empty(embedder: OpenAIEmbedder, service: _Service) -> None:
    assert len(await embedder.embed(["", "  \n", "\ud800"])) == 3
    assert all(text.strip() for text in service.bodies[0].input)


async def test_a_passing_failure_is_tried_again(embedder: OpenAIEmbedder, service: _Service) -> None:
    service.script = [_status(503), _status(429, **{"retry-after": "0.01"})]
    assert len(await embedder.embed(["text"])) == 1
    assert len(service.bodies) == 3


async def test_attempts_are_bounded(embedder: OpenAIEmbedder, service: _Service) -> None:
    service.script = [_status(500)] * 10
    assert (await _refusal(embedder)).retryable
    assert len(service.bodies) == 3


async def test_a_wait_the_service_asks_for_is_bounded(embedder: OpenAIEmbedder, service: _Service) -> None:
    service.script = [_status(429, **{"retry-after": "86400"})]
    async with asyncio.timeout(3):
        assert len(await embedder.embed(["text"])) == 1


async def test_a_refusal_is_not_tried_again(
    embedder: OpenAIEmbedder, service: _Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.script = [_status(401)]
    with caplog.at_level(logging.DEBUG):
        await _refusal(embedder)
    assert len(service.bodies) == 1
    assert _KEY not in caplog.text


async def test_a_service_that_hangs_is_given_up_in_bounded_time(
    embedder: OpenAIEmbedder, service: _Service
) -> None:
    service.stuck = True
    async with asyncio.timeout(3):
        await _refusal(embedder)


async def test_the_total_time_holds_whatever_the_attempts_allow(service: _Service) -> None:
    service.stuck = True
    patient = RetryPolicy(attempts=100, timeout=60, total=0.2)
    made = OpenAIEmbedder(service.url, "tiny", dimension=3, retry=patient)
    async with asyncio.timeout(3):
        await _refusal(made)
    await made.aclose()


async def test_a_service_that_is_not_there_is_said_without_its_address(service: _Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    made = OpenAIEmbedder(f"http://127.0.0.1:{port}/v1", "tiny", dimension=3, retry=_QUICK)
    assert str(port) not in (await _refusal(made)).message
    await made.aclose()


@pytest.mark.parametrize(
    "data",
    [
        [],
        [{"index": 0, "embedding": [1.0, 2.0]}],
        [{"index": 0, "embedding": [1.0, 2.0, 3.0, 4.0]}],
        [{"index": 1, "embedding": [1.0, 2.0, 3.0]}],
        [{"index": 0, "embedding": [1.0, 2.0, 3.0]}] * 2,
        [{"index": 0, "embedding": [0.0, 0.0, 0.0]}],
        [{"index": 0, "embedding": [1e39, 0.0, 0.0]}],
        [{"index": 0, "embedding": "AACAPw=="}],
        "nothing of the kind",
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
async def test_an_answer_that_is_no_vector_of_the_declared_length_is_refused(
    embedder: OpenAIEmbedder, service: _Service, data: object
) -> None:
    service.script = [_data(data)]
    await _refusal(embedder)


async def test_an_endpoint_is_preferred_to_the_local_model(service: _Service) -> None:
    made: Embedder = make_embedder(endpoint=Endpoint(f"{service.url}/", "tiny", 3, _KEY))
    await made.warm()
    assert made.generation == "openai:tiny:3:v1"
    assert made.dimension == 3
    assert len(await made.embed(["text"])) == 1
    await made.aclose()


async def test_generations_differ_by_model_and_dimension() -> None:
    made = [
        OpenAIEmbedder("http://127.0.0.1:9/v1", model, dimension=dimension)
        for model in ("a", "b")
        for dimension in (3, 4)
    ]
    assert len({embedder.generation for embedder in made}) == 4
    for embedder in made:
        await embedder.aclose()
