from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from runner_service.loopback.server import listening
from runner_service.relay.server import RelayServer
from tests.api.runner_service.cluster import (
    Keys,
    Memories,
    Runner,
    make_keys,
    runner,
    runner_settings,
    whole,
)
from tests.api.runner_service.relaying import upstreams
from tests.fixtures.model_stub import ModelStub, model_stub


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
async def stub() -> AsyncGenerator[ModelStub]:
    """A model's endpoint."""
    async with model_stub() as made:
        yield made


@pytest.fixture
async def relay(stub: ModelStub) -> AsyncGenerator[RelayServer]:
    made = RelayServer(upstreams(stub), idle_s=5)
    async with listening("127.0.0.1:0") as loopback, made.serving(loopback):
        yield made


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10, trust_env=False) as client:
        yield client


@pytest.fixture
async def alone(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> AsyncGenerator[Runner]:
    """A runner without any other service: enough for whatever has no memory. Acts as alice."""
    settings = runner_settings(service_database("runner"), clean_redis, keys)
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            yield made


@pytest.fixture
async def looped(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str, stub: ModelStub
) -> AsyncGenerator[Runner]:
    """The same with a model: the loop base speaks to ``stub``."""
    settings = runner_settings(
        service_database("runner"),
        clean_redis,
        keys,
        model_base_url=stub.url,
        model_name="stub-1",
        model_api_key="sk-secret-of-the-endpoint",
    )
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            yield made


@pytest.fixture(scope="session")
def _kept() -> InMemorySpanExporter:
    kept = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(shutdown_on_exit=False)
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return kept


@pytest.fixture
def spans(_kept: InMemorySpanExporter) -> InMemorySpanExporter:
    """Every span that ended since the test began."""
    _kept.clear()
    return _kept


@pytest.fixture
async def product(
    keys: Keys,
    service_database: Callable[[str], str],
    clean_redis: str,
    tmp_path: Path,
    stub: ModelStub,
) -> AsyncGenerator[tuple[Runner, Memories]]:
    """Runner, authz, memory and provider in this process; acts as alice."""
    model = {"model_base_url": stub.url, "model_name": "stub-1", "model_api_key": "sk-of-the-endpoint"}
    async with whole(keys, service_database, clean_redis, tmp_path, **model) as made:
        with made[0].act_as("person:alice"):
            yield made
