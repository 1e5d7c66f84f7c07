import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.main import serve
from gateway.settings import GatewaySettings
from tests.api.gateway.backends import ALICE, Script, served


@pytest.fixture(scope="session", autouse=True)
def spans(span_recorder: InMemorySpanExporter) -> InMemorySpanExporter:
    """As in a process: there is a tracer provider, so that errors carry real trace ids; its spans are kept."""
    return span_recorder


@pytest.fixture(scope="module")
def told() -> Script:
    return Script()


@pytest.fixture
def script(told: Script) -> Script:
    """What the services answer in this test; nothing yet."""
    told.reset()
    return told


@asynccontextmanager
async def gateway_on(address: str, **more: Any) -> AsyncGenerator[str]:
    """The base URL of a gateway whose services all answer at ``address``."""
    settings = GatewaySettings(
        listen="127.0.0.1:0",
        authz_address=address,
        memory_address=address,
        runner_address=address,
        rpc_timeout_s=5,
        stop_grace_s=1,
        **more,
    )
    stop, ports = asyncio.Event(), asyncio.Queue[tuple[int, int]]()
    serving = asyncio.create_task(
        serve(settings, stop=stop, started=lambda port, ops: ports.put_nowait((port, ops)))
    )
    try:
        port, _ = await ports.get()
        yield f"http://127.0.0.1:{port}"
    finally:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(told: Script, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[str]:
    async with served(told, tmp_path_factory.mktemp("keys")) as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(backend: str) -> AsyncGenerator[str]:
    async with gateway_on(backend, stream_keepalive_s=0.2, stream_patience_s=1.0) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def anybody(gateway: str, script: Script) -> AsyncGenerator[httpx.AsyncClient]:
    """Somebody without a token."""
    async with httpx.AsyncClient(base_url=gateway, timeout=20) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def alice(gateway: str, script: Script) -> AsyncGenerator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {ALICE}"}
    async with httpx.AsyncClient(base_url=gateway, headers=headers, timeout=20) as client:
        yield client
