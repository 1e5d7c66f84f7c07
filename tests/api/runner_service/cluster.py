"""Services in the test's own process, on loopback, over real Postgres and Redis."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from authz_service.main import build as build_authz
from authz_service.settings import Settings as AuthzSettings
from memory_service.main import build as build_memory
from memory_service.settings import Settings as MemorySettings
from protos.authz.v1 import authz_pb2
from protos.authz.v1.authz_pb2_grpc import GrantsStub
from protos.common.v1 import common_pb2, record_pb2
from protos.memory.v1 import memory_pb2
from protos.memory.v1.memory_pb2_grpc import MemoriesStub, RecordsStub
from protos.memory.v1.queries_pb2_grpc import QueriesStub
from protos.runner.v1 import runner_pb2 as wire
from protos.runner.v1.runner_pb2_grpc import HarnessesStub, ResponsesStub
from protos.runner.v1.sessions_pb2_grpc import FeedsStub, SessionsStub, SharesStub
from provider_workers.main import build as build_provider
from provider_workers.settings import Settings as ProviderSettings
from runner_service.main import build
from runner_service.settings import Settings
from service_kit.identity import Passport, PassportSigner, generate_keys, use_passport
from service_kit.rpc import server
from service_kit.rpc.client import channel, streaming
from service_kit.settings import Settings as Common

__all__ = ["Keys", "Memories", "Runner", "make_keys", "runner", "runner_settings", "serving", "whole"]

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


def _token(name: str) -> str:
    return f"gk_the-token-of-the-{name}-service"


class Runner:
    """A runner as somebody calls it."""

    def __init__(self, address: str, keys: Keys, settings: Common) -> None:
        self.address = address
        self._keys = keys
        self._channel = channel(address, settings)
        self.harnesses = HarnessesStub(self._channel)
        self.responses = ResponsesStub(self._channel)
        self.sessions = SessionsStub(self._channel)
        self.feeds = FeedsStub(self._channel)
        self.shares = SharesStub(self._channel)

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
            "service_token": _token("runner"),
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


class Memories:
    """Memories as their owner calls them."""

    def __init__(self, settings: Common, stop: Callable[[], Awaitable[None]]) -> None:
        self.stop = stop
        self._channels = [
            channel(settings.memory_address, settings),
            channel(settings.authz_address, settings),
        ]
        self.memories = MemoriesStub(self._channels[0])
        self.records = RecordsStub(self._channels[0])
        self.queries = QueriesStub(self._channels[0])
        self.grants = GrantsStub(self._channels[1])

    async def close(self) -> None:
        for one in self._channels:
            await one.close()

    async def create(self, name: str, parent: str = "", *, restricted: bool = False) -> str:
        asked = memory_pb2.CreateMemoryRequest(
            name=name, description=f"About {name}.", parent_id=parent, restricted=restricted
        )
        return (await self.memories.CreateMemory(asked)).id

    async def remember(self, memory_id: str, text: str) -> record_pb2.Record:
        draft = record_pb2.Draft(type="fact", content=[record_pb2.Part(type="text", text=text)])
        return await self.records.Remember(memory_pb2.RememberRequest(memory_id=memory_id, draft=draft))

    async def list(self, memory_id: str) -> list[record_pb2.Record]:
        asked = memory_pb2.ListRecordsRequest(memory_id=memory_id, page=common_pb2.Page(limit=200))
        return list((await self.records.ListRecords(asked)).records)

    async def grant(self, memory_id: str, principal: str, *privileges: int) -> authz_pb2.Grant:
        asked = authz_pb2.AddGrantRequest(memory_id=memory_id, principal=principal)
        asked.privileges.extend(authz_pb2.Privilege.ValueType(one) for one in privileges)
        return await self.grants.AddGrant(asked)

    async def revoke(self, memory_id: str, grant_id: str) -> None:
        await self.grants.RevokeGrant(authz_pb2.RevokeGrantRequest(memory_id=memory_id, grant_id=grant_id))


@asynccontextmanager
async def whole(
    keys: Keys, database: Callable[[str], str], redis_url: str, directory: Path, **more: Any
) -> AsyncGenerator[tuple[Runner, Memories]]:
    """A runner with authz, memory and provider beside it; ``more`` are the runner's settings."""
    tokens = {"service_tokens": {name: _token(name) for name in ("memory", "runner", "provider")}}
    bootstrap = directory / "bootstrap.json"
    bootstrap.write_text(json.dumps(tokens | {"admin_token": _token("admin")}))

    def shared(name: str) -> Json:
        return {
            "database_url": database(name),
            "redis_url": redis_url,
            "passport_keys_file": keys.public,
            "service_token": _token(name),
            "listen": "127.0.0.1:0",
            "stop_grace_s": 1.0,
            "jobs_poll_s": 0.5,
        }

    authz_settings = AuthzSettings.model_validate(
        shared("authz") | {"passport_signing_key_file": keys.private, "authz_bootstrap_file": bootstrap}
    )
    async with (
        serving("authz", authz_settings, build_authz) as authz,
        serving("provider", ProviderSettings.model_validate(shared("provider")), build_provider) as provider,
    ):
        addresses = {"authz_address": authz, "provider_address": provider}
        memory_settings = MemorySettings.model_validate(shared("memory") | addresses)
        async with AsyncExitStack() as stack:
            memory = await stack.enter_async_context(serving("memory", memory_settings, build_memory))
            addresses["memory_address"] = memory
            settings = runner_settings(database("runner"), redis_url, keys, **addresses, **more)
            memories = Memories(settings, stack.aclose)
            try:
                async with runner(settings, keys) as made:
                    yield made, memories
            finally:
                await memories.close()
