"""The whole process of provider_workers, served on loopback, and callers with real passports."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from pydantic import SecretStr

from protos.provider.v1.provider_pb2_grpc import ProviderStub
from provider_workers.main import build
from provider_workers.settings import Settings
from service_kit.identity import Passport, PassportSigner, generate_keys, use_passport
from service_kit.rpc import client, server

if TYPE_CHECKING:
    from protos.provider.v1.provider_pb2_grpc import ProviderAsyncStub


@dataclass
class Served:
    """A running process: ``stub`` speaks to it, ``signer`` makes its callers' passports."""

    stub: "ProviderAsyncStub"
    signer: PassportSigner

    def person(self, name: str) -> Passport:
        return self.signer.sign(f"person:{name}")

    def service(self, name: str) -> Passport:
        return self.signer.sign(f"service:{name}", scopes=("service",))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(private key, public keys)."""
    directory = tmp_path_factory.mktemp("keys")
    for name, text in zip(("private.json", "public.json"), generate_keys(), strict=True):
        (directory / name).write_text(text)
    return directory / "private.json", directory / "public.json"


@asynccontextmanager
async def served(settings: Settings, signer: PassportSigner) -> AsyncGenerator[Served]:
    stop = asyncio.Event()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        server.serve(
            "provider", settings, build, stop=stop, started=lambda listening, _ops: port.set_result(listening)
        )
    )
    await asyncio.wait({running, port}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    async with client.channel(f"127.0.0.1:{port.result()}", settings) as channel:
        yield Served(ProviderStub(channel), signer)
    stop.set()
    assert await running == 0


@pytest.fixture
def settings(service_database: Callable[[str], str], keys: tuple[Path, Path]) -> Settings:
    return Settings(
        database_url=SecretStr(service_database("provider")),
        passport_keys_file=keys[1],
        rpc_timeout_s=30.0,
        stop_grace_s=2.0,
    )


@pytest_asyncio.fixture
async def provider(settings: Settings, keys: tuple[Path, Path]) -> AsyncGenerator[Served]:
    """Served, and called as Alice unless a test says otherwise."""
    async with served(settings, PassportSigner(keys[0])) as running:
        with use_passport(running.person("alice")):
            yield running
