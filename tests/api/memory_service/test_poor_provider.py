"""What a provider does not declare is refused or named to the client, whoever wrote the provider (sections 10.2, 12).

Authz, memory_service and the gateway are the product's; the provider is a few lines behind the public contract.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio

from authz_service.main import build as build_authz
from authz_service.settings import Settings as AuthzSettings
from gateway.main import serve
from gateway.settings import GatewaySettings
from memory_service.main import build as build_memory
from memory_service.settings import Settings as MemorySettings
from service_kit.settings import Settings as Common
from tests.api.memory_service.poor import NAME, poorly
from tests.api.runner_service.cluster import make_keys, serving

Json = dict[str, Any]
ADMIN = "gk_the-token-of-the-administrator"


@pytest_asyncio.fixture
async def alice(
    service_database: Callable[[str], str], clean_redis: str, tmp_path: Path
) -> AsyncGenerator[httpx.AsyncClient]:
    """Somebody whose memories the poor provider keeps."""
    keys, bootstrap = make_keys(tmp_path), tmp_path / "bootstrap.json"
    token = "gk_the-token-of-the-memory-service"
    bootstrap.write_text(json.dumps({"service_tokens": {"memory": token}, "admin_token": ADMIN}))

    def shared(name: str, **more: object) -> Json:
        return {
            "database_url": service_database(name),
            "redis_url": clean_redis,
            "passport_keys_file": keys.public,
            "service_token": token,
            "listen": "127.0.0.1:0",
            "stop_grace_s": 1.0,
            "jobs_poll_s": 0.5,
            **more,
        }

    signing = {"passport_signing_key_file": keys.private, "authz_bootstrap_file": bootstrap}
    poor = Common.model_validate(
        {"passport_keys_file": keys.public, "listen": "127.0.0.1:0", "stop_grace_s": 1.0}
    )
    async with (
        serving("authz", AuthzSettings.model_validate(shared("authz", **signing)), build_authz) as authz,
        serving("provider", poor, poorly) as provider,
    ):
        told = shared("memory", authz_address=authz, provider_address=provider, memory_default_provider=NAME)
        async with serving("memory", MemorySettings.model_validate(told), build_memory) as memory:
            stop, ports = asyncio.Event(), asyncio.Queue[tuple[int, int]]()
            settings = GatewaySettings(
                listen="127.0.0.1:0",
                authz_address=authz,
                memory_address=memory,
                runner_address=memory,
                stop_grace_s=1,
            )
            running = asyncio.create_task(
                serve(settings, stop=stop, started=lambda port, ops: ports.put_nowait((port, ops)))
            )
            port, _ = await ports.get()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                client.headers["Authorization"] = f"Bearer {ADMIN}"
                client.headers["Authorization"] = f"Bearer {await _token(client)}"
                yield client
            stop.set()
            await running


async def _token(admin: httpx.AsyncClient) -> str:
    """A token of Alice's. A service serves before its bootstrap file has been read, and the port before that."""
    async with asyncio.timeout(20):
        while True:
            made = await admin.post("/v1/grovekeeper/tokens", json={"person": "alice"})
            if made.status_code not in (401, 503):
                return str((await ok(made))["token"])
            await asyncio.sleep(0.05)


async def ok(answer: httpx.Response) -> Json:
    assert answer.status_code == 200, answer.text
    return cast("Json", answer.json())


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json()["error"]["code"])


@pytest.mark.requirement(
    "ME-10.1-02",
    "ME-10.2-05",
    "ME-10.2-06",
    "ME-10.3-02",
    "ME-12-08",
    "ME-5.2-09",
    "ME-8-08",
    "ME-6.1-05",
    "ME-6.1-06",
    "ME-6.3-02",
    "ME-6.3-03",
    "ME-6.5-02",
    "SU-memories-08",
)
async def test_what_is_not_declared_is_refused_or_named(alice: httpx.AsyncClient):
    root = await ok(await alice.post("/v1/memories", json={"name": "Root"}))
    child = await ok(await alice.post("/v1/memories", json={"name": "Child", "parent_id": root["id"]}))
    assert (child["provider"], child["ancestors"]) == (NAME, [root["id"]])
    memory = f"/v1/memories/{child['id']}"
    (known,) = (await ok(await alice.get("/v1/memories/providers")))["data"]
    assert (known["revise"], known["forget"], known["erase"]) == ("emulated", False, False)
    assert (known["recall"]["signals"], known["outside"], known["types"]) == (["filters"], True, False)
    for off in ("prime", "types", "files", "snapshots", "consolidate"):
        assert known[off] is False
    assert known["queries"] == {"named": False, "languages": [], "free": False}

    types = (await ok(await alice.get("/v1/memories/types")))["data"]
    assert [one["type"] for one in types] == ["episode", "fact", "note", "procedure", "link"]

    record = await ok(await alice.post(f"{memory}/records", json={"type": "fact", "content": "Owls fly."}))
    path = f"{memory}/records/{record['id']}"
    assert (await ok(await alice.patch(path, json={"content": "Owls fly."})))["version"] == 2
    everything = {
        "query": "q",
        "text": "t",
        "filters": {"field": "type", "op": "eq", "value": "fact"},
        "depth": 3,
    }
    found = await ok(await alice.post(f"{memory}/recall", json=everything))
    assert found["results"][0]["why"] == ["filters"]
    assert set(found["degraded"]) == {"query:not_supported", "text:not_supported", "depth:capped_at_0"}

    asked = {"language": "sql", "statement": "select 1"}
    query = {"description": "One.", "language": "sql", "body": "select 1"}
    file = {"type": "note", "content": {"file": {"id": "file_1"}}}
    unsupported: tuple[tuple[str, str, Json | None], ...] = (
        ("POST", f"{memory}/observe", {"episodes": [{"content": "Hello."}]}),
        ("DELETE", path, None),
        ("GET", f"{path}/history", None),
        ("POST", f"{memory}/erase", {"record_ids": [record["id"]]}),
        ("POST", f"{memory}/snapshots", {"name": "now"}),
        ("POST", f"{memory}/consolidations", {}),
        ("POST", f"{memory}/records", file),
        ("POST", f"{memory}/query", asked),
        ("PUT", f"{memory}/queries/one", query),
    )
    for method, address, body in unsupported:
        answer = await alice.request(method, address, json=body)
        assert refused(answer) == (422, "memory_unsupported"), f"{method} {address}: {answer.text}"
    assert (await ok(await alice.get(path)))["status"] == "active"
    # What is above the provider is as everywhere.
    assert refused(await alice.get(f"/v1/memories/{root['id']}/records/{record['id']}")) == (
        404,
        "memory_record_not_found",
    )
    nothing = {"memory_id": f"hmem_{'0' * 32}", "record_id": record["id"]}
    there = {"memory_id": child["id"], "record_id": record["id"]}
    pointing = {
        "type": "note",
        "content": "See.",
        "references": [{"rel": "about", **one} for one in (there, nothing)],
    }
    pointed = await ok(await alice.post(f"/v1/memories/{root['id']}/records", json=pointing))
    assert pointed["references"] == [{"rel": "about", **there}, {**nothing, "available": False}]
    await ok(await alice.post(f"{memory}/grants", json={"principal": "person:bob", "privileges": ["read"]}))
    grants = (await ok(await alice.get(f"{memory}/grants")))["data"]
    assert {(one["principal"], one["inherited"]) for one in grants} == {
        ("person:alice", False),
        ("person:bob", False),
        ("person:alice", True),
    }
    await ok(await alice.put(memory, json={"restricted": True}))
    assert not any(one["inherited"] for one in (await ok(await alice.get(f"{memory}/grants")))["data"])
    await ok(await alice.delete(memory))
    assert refused(await alice.get(path)) == (404, "memory_not_found")
