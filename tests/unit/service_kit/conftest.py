import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service_kit.identity import PassportSigner, PassportVerifier, generate_keys
from service_kit.settings import Settings
from tests.unit.service_kit.echo import Echo, Served, serving


@pytest.fixture(scope="session")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(private key, public keys)."""
    directory = tmp_path_factory.mktemp("keys")
    private, public = generate_keys()
    (directory / "private.json").write_text(private)
    (directory / "public.json").write_text(json.dumps(json.loads(public)))
    return directory / "private.json", directory / "public.json"


@pytest.fixture(scope="session")
def signer(key_files: tuple[Path, Path]) -> PassportSigner:
    return PassportSigner(key_files[0])


@pytest.fixture(scope="session")
def verifier(key_files: tuple[Path, Path]) -> PassportVerifier:
    return PassportVerifier(key_files[1])


@pytest.fixture
def settings(key_files: tuple[Path, Path]) -> Settings:
    return Settings(passport_keys_file=key_files[1], rpc_timeout_s=5.0, stop_grace_s=1.0)


@pytest.fixture
async def echo(settings: Settings) -> AsyncGenerator[Served]:
    """A real server on loopback with an :class:`Echo` behind the chassis."""
    async with serving(settings, Echo()) as served:
        yield served


_exporter = InMemorySpanExporter()


@pytest.fixture(scope="session")
def _recorder() -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(_exporter))
    trace.set_tracer_provider(provider)
    return provider


@pytest.fixture
def spans(_recorder: TracerProvider) -> Iterator[InMemorySpanExporter]:
    """Every span ended since the test began."""
    _exporter.clear()
    yield _exporter
    _exporter.clear()
