"""Services in the test's own process, on loopback, over real Postgres and Redis."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from protos.common.v1 import common_pb2
from protos.runner.v1 import runner_pb2 as wire
from protos.runner.v1.runner_pb2_grpc import HarnessesStub, ResponsesStub
from runner_service.main import build
from runner_service.settings import Settings
from service_kit.identity import Passport, PassportSigner, generate_keys, use_passport
from service_kit.rpc import server
from service_kit.rpc.client import channel, streaming
from service_kit.settings import Settings as Common

__all__ = ["Keys", "Runner", "make_keys", "run_service", "runner", "serving"]

Json = dict[str, Any]
_Settings = TypeVar("_Settings", bound=Common)


@dataclass(frozen=True)
class Keys:
    """Passport keys on disk, and whoever signs with them."""

    private: Path
    public: Path
    signer: PassportSigner

    def passport(self, principal: str, *groups: str, scopes: tuple[str, ...] = ("user",)) -> Passport:
        return self.signer.sign(principal, groups=groups, scopes=scopes)


def make_keys(directory: Path) -> Keys:
    private, public = generate_keys()
    (directory / "private.json").write_text(private)
    (directory / "public.json").write_text(public)
    return Keys(
        directory / "private.json", directory / "public.json", PassportSigner(directory / "private.json")
    )


@asynccontextmanager
async def serving(
    name: str, settings: _Settings, make: Callable[[_Settings], Any], stop_s: float = 15.0
) -> AsyncGenerator[str]:
    """``host:port`` of a service that runs inside the block."""
    stop, ports = asyncio.Event(), asyncio.Queue[tuple[int, int]]()
    task = asyncio.create_task(
        server.serve(name, settings, make, stop=stop, started=lambda port, ops: ports.put_nowait((port, ops)))
    )
    try:
        getting = asyncio.create_task(ports.get())
        await asyncio.wait({task, getting}, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            getting.cancel()
            task.result()
        yield f"127.0.0.1:{getting.result()[0]}"
    finally:
        stop.set()
        async with asyncio.timeout(stop_s):
            await task


run_service = serving


class Runner:
    """A runner as somebody calls it."""

    def __init__(self, address: str, keys: Keys, settings: Common) -> None:
        self.address = address
        self._keys = keys
        self._channel = channel(address, settings)
        self.harnesses = HarnessesStub(self._channel)
        self.responses = ResponsesStub(self._channel)

    async def close(self) -> None:
        await self._channel.close()

    def act_as(self, principal: str, *groups: str):
        """Everything inside the block is asked by this principal."""
        return use_passport(self._keys.passport(principal, *groups))

    async def harness(self, **more: Any) -> wire.Harness:
        asked: Json = {"name": "Test", "base": "scripted", **more}
        return await self.harnesses.CreateHarness(wire.CreateHarnessRequest(**asked))

    async def create(self, text: str | list[Json], *, key: str = "", **more: Any) -> wire.Response:
        asked: Json = {"store": True, "input": msgspec.json.encode(text), **more}
        request = wire.CreateResponseRequest(**asked)
        if key:
            request.idempotency.CopyFrom(
                common_pb2.Idempotency(
                    key=key, request_sha256=request.SerializeToString(deterministic=True)[:32]
                )
            )
        return await self.responses.CreateResponse(request)

    async def events(self, response_id: str, after: int = -1) -> list[Json]:
        """All events of a response, to the terminal one."""
        return [event async for event in self.follow(response_id, after)]

    async def follow(self, response_id: str, after: int = -1) -> AsyncGenerator[Json]:
        request = wire.FollowResponseRequest(id=response_id, after=after)
        async with streaming(self.responses.FollowResponse(request, timeout=60)) as batches:
            async for batch in batches:
                for one in batch.events:
                    yield json.loads(one.json)

    async def run(self, text: str | list[Json], **more: Any) -> Json:
        """The final response of a task."""
        made = await self.create(text, **more)
        return (await self.events(made.id))[-1]["response"]

    async def get(self, response_id: str) -> Json:
        return json.loads((await self.responses.GetResponse(wire.GetResponseRequest(id=response_id))).json)

    async def cancel(self, response_id: str) -> Json:
        answer = await self.responses.CancelResponse(wire.CancelResponseRequest(id=response_id))
        return json.loads(answer.json)


def runner_settings(dsn: str, redis_url: str, keys: Keys, **more: Any) -> Settings:
    return Settings.model_validate(
        {
            "database_url": dsn,
            "redis_url": redis_url,
            "passport_keys_file": keys.public,
            "service_token": "gk_runner",
            "listen": "127.0.0.1:0",
            "runner_scripted_beat_s": 0.002,
            "runner_drain_s": 0.5,
            "stop_grace_s": 1.0,
            "jobs_poll_s": 0.5,
            **more,
        }
    )


@asynccontextmanager
async def runner(settings: Settings, keys: Keys) -> AsyncGenerator[Runner]:
    async with serving("runner", settings, build) as address:
        made = Runner(address, keys, settings)
        try:
            yield made
        finally:
            await made.close()
