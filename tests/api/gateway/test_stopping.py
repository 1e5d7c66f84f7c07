import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from gateway.main import serve
from gateway.settings import GatewaySettings
from protos.runner.v1 import runner_pb2
from service_kit.ops import ListenError
from tests.api.gateway.backends import ALICE, Events, Script, served
from tests.api.gateway.test_every_request import fault

ASK = {"Authorization": f"Bearer {ALICE}"}
ENDED = b'{"type":"response.completed","sequence_number":0,"response":{"id":"resp_1"}}'


class Running:
    """A gateway that a test stops."""

    def __init__(self, address: str, grace_s: float) -> None:
        self.stop, self.hurry = asyncio.Event(), asyncio.Event()
        self._ports: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        settings = GatewaySettings(
            listen="127.0.0.1:0",
            authz_address=address,
            memory_address=address,
            runner_address=address,
            stop_grace_s=grace_s,
        )
        self.exit: asyncio.Task[int] = asyncio.create_task(
            serve(
                settings,
                stop=self.stop,
                hurry=self.hurry,
                started=lambda port, ops: self._ports.put_nowait((port, ops)),
            )
        )

    async def urls(self) -> tuple[str, str]:
        """The public and the operators' URL."""
        port, ops = await self._ports.get()
        return f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ops}"


@pytest.fixture
def script() -> Script:
    made = Script()
    made.events["resp_1"] = Events()
    made.answers["CreateResponse"] = runner_pb2.Response(id="resp_1", status="in_progress")
    made.answers["GetResponse"] = runner_pb2.Response(
        id="resp_1", status="completed", json=b'{"id":"resp_1"}'
    )
    return made


async def test_it_is_ready_while_authz_serves_and_not_once_it_is_told_to_stop(script: Script, tmp_path: Path):
    async with served(script, tmp_path) as address, httpx.AsyncClient() as http:
        gateway = Running(address, 5)
        url, ops = await gateway.urls()
        async with asyncio.timeout(10):
            while (await http.get(f"{ops}/readyz")).status_code != 200:  # noqa: ASYNC110 - another process's view
                await asyncio.sleep(0.05)
        assert (await http.get(f"{ops}/healthz")).text == "ok\n"
        script.events["resp_1"].log.clear()
        asked = asyncio.create_task(http.post(f"{url}/v1/responses", json={"input": "a"}, headers=ASK))
        await script.events["resp_1"].until(followers=1)
        gateway.stop.set()
        assert (await http.get(f"{ops}/readyz")).status_code == 503
        await script.events["resp_1"].add("response.completed", terminal=True, json=ENDED)
        await asked
        assert await gateway.exit == 0


async def test_it_is_not_ready_without_authz():
    gateway = Running("127.0.0.1:1", 1)
    _, ops = await gateway.urls()
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{ops}/readyz")).status_code == 503
        assert (await http.get(f"{ops}/healthz")).status_code == 200
    gateway.stop.set()
    assert await gateway.exit == 0


async def test_a_request_under_way_is_answered_before_it_stops(script: Script, tmp_path: Path):
    async with served(script, tmp_path) as address, httpx.AsyncClient(headers=ASK) as http:
        gateway = Running(address, 10)
        url, _ = await gateway.urls()
        asked = asyncio.create_task(http.post(f"{url}/v1/responses", json={"input": "a"}))
        await script.events["resp_1"].until(followers=1)
        gateway.stop.set()
        await script.events["resp_1"].add("response.completed", terminal=True, json=ENDED)
        assert (await asked).json() == {"id": "resp_1"}
        assert await gateway.exit == 0
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{url}/v1/uhp")


@pytest.mark.parametrize("hurried", [False, True])
async def test_a_stream_that_does_not_end_is_cut_when_the_grace_is_over_or_cut_short(
    script: Script, tmp_path: Path, hurried: bool
):
    async with served(script, tmp_path) as address, httpx.AsyncClient(headers=ASK, timeout=20) as http:
        gateway = Running(address, 20 if hurried else 1)
        url, _ = await gateway.urls()
        body = {"input": "a", "stream": True}
        async with http.stream("POST", f"{url}/v1/responses", json=body) as answer:
            await script.events["resp_1"].add("response.created")
            lines = answer.aiter_lines()
            await anext(lines)
            gateway.stop.set()
            if hurried:
                gateway.hurry.set()
            async with asyncio.timeout(10):
                assert await gateway.exit == 0
            with pytest.raises(httpx.RemoteProtocolError):
                await _exhausted(lines)
        async with asyncio.timeout(5):
            await script.events["resp_1"].until(followers=0)


async def _exhausted(lines: AsyncIterator[str]) -> None:
    async for _ in lines:
        pass


async def test_a_request_still_waiting_when_the_grace_is_over_is_told_to_come_again(
    script: Script, tmp_path: Path
):
    async with served(script, tmp_path) as address, httpx.AsyncClient(headers=ASK, timeout=20) as http:
        gateway = Running(address, 1)
        url, _ = await gateway.urls()
        asked = asyncio.create_task(http.post(f"{url}/v1/responses", json={"input": "a"}))
        await script.events["resp_1"].until(followers=1)
        gateway.stop.set()
        assert fault(await asked)["code"] == "grovekeeper_unavailable"
        assert await gateway.exit == 0


async def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = GatewaySettings(listen=f"127.0.0.1:{port}")
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}"):
            await serve(settings, stop=asyncio.Event())
