from typing import Any

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.authz.v1 import authz_pb2
from protos.runner.v1 import runner_pb2
from tests.api.gateway.backends import ADMIN, Script
from tests.api.gateway.test_every_request import fault

pytestmark = pytest.mark.asyncio(loop_scope="module")

DESK = runner_pb2.Harness(
    id="chrn_1",
    name="Desk",
    base="scripted",
    base_label="Built-in scripted, no model",
    default_model="scripted-1",
    disabled_tools=["memory_forget"],
    created_at=Timestamp(seconds=1790560000, nanos=5_000_000),
)
READ: dict[str, Any] = {
    "id": "chrn_1",
    "object": "harness",
    "name": "Desk",
    "base": "scripted",
    "baseLabel": "Built-in scripted, no model",
    "defaultModel": "scripted-1",
    "systemPrompt": "",
    "mcpServers": [],
    "skills": [],
    "plugins": [],
    "disabledTools": ["memory_forget"],
    "maxStep": None,
    "timeoutSeconds": None,
    "createdAt": 1790560000005,
}


async def test_a_harness_reads_in_camel_case(alice: httpx.AsyncClient, script: Script):
    script.answers["GetHarness"] = DESK
    script.answers["ListHarnesses"] = runner_pb2.ListHarnessesResponse(harnesses=[DESK])
    script.answers["DeleteHarness"] = runner_pb2.DeleteHarnessResponse(id="chrn_1")
    assert (await alice.get("/v1/harnesses/chrn_1")).json() == READ
    assert (await alice.get("/v1/harnesses")).json() == {"harnesses": [READ]}
    deleted = (await alice.delete("/v1/harnesses/chrn_1")).json()
    assert deleted == {"id": "chrn_1", "object": "harness", "deleted": True}


async def test_what_a_harness_does_not_know_is_left_out(alice: httpx.AsyncClient, script: Script):
    script.answers["GetHarness"] = runner_pb2.Harness(id="chrn_1", name="a", base="loop", max_step=3)
    body = (await alice.get("/v1/harnesses/chrn_1")).json()
    assert "defaultModel" not in body
    assert "baseLabel" not in body
    assert body["maxStep"] == 3


@pytest.mark.requirement("SU-harnesses-05")
@pytest.mark.parametrize(
    "body",
    [
        {
            "default_model": "m",
            "system_prompt": "s",
            "disabled_tools": ["t"],
            "max_step": 4,
            "timeout_seconds": 5,
        },
        {
            "defaultModel": "m",
            "systemPrompt": "s",
            "disabledTools": ["t"],
            "maxStep": 4,
            "timeoutSeconds": 5,
        },
        {
            "default_model": "m",
            "defaultModel": "other",
            "systemPrompt": "s",
            "disabled_tools": ["t"],
            "disabledTools": [],
            "max_step": 4,
            "timeout_seconds": 5,
            "timeoutSeconds": None,
        },
    ],
)
async def test_a_harness_is_written_in_either_spelling(
    alice: httpx.AsyncClient, script: Script, body: dict[str, Any]
):
    script.answers["CreateHarness"] = DESK
    answer = await alice.post("/v1/harnesses", json={"name": "Desk", "base": "scripted", **body})
    assert (answer.status_code, answer.json()) == (200, READ)
    sent = script.only("CreateHarness")
    assert (sent.default_model, sent.system_prompt, list(sent.disabled_tools)) == ("m", "s", ["t"])
    assert (sent.max_step, sent.timeout_seconds) == (4, 5)


async def test_a_harness_that_was_read_can_be_put_back(alice: httpx.AsyncClient, script: Script):
    script.answers["UpdateHarness"] = DESK
    answer = await alice.put("/v1/harnesses/chrn_1", json={**READ, "name": "Renamed", "base": "loop"})
    assert answer.status_code == 200
    sent = script.only("UpdateHarness")
    assert (sent.name, sent.default_model, list(sent.disabled_tools)) == (
        "Renamed",
        "scripted-1",
        ["memory_forget"],
    )


async def test_a_put_without_a_name_keeps_it_and_a_create_is_called_after_its_base(
    alice: httpx.AsyncClient, script: Script
):
    for method in ("GetHarness", "UpdateHarness", "CreateHarness"):
        script.answers[method] = DESK
    await alice.put("/v1/harnesses/chrn_1", json={"system_prompt": "s"})
    assert script.only("UpdateHarness").name == "Desk"
    await alice.post("/v1/harnesses", json={"base": "scripted"})
    assert script.only("CreateHarness").name == "scripted"


@pytest.mark.requirement("SU-harnesses-06", "SU-harnesses-07", "SU-harnesses-08")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mcp_servers", [{"name": "a", "url": "https://example.org"}]),
        ("mcpServers", [{"name": "a", "url": "https://example.org"}]),
        ("skills", [{"name": "a"}]),
        ("plugins", [{"name": "a"}]),
    ],
)
async def test_what_is_not_offered_yet_is_refused_unless_empty(
    alice: httpx.AsyncClient, script: Script, field: str, value: list[dict[str, str]]
):
    script.answers["CreateHarness"] = DESK
    body = {"name": "a", "base": "scripted"}
    refused = fault(await alice.post("/v1/harnesses", json={**body, field: value}))
    assert refused["code"] == "invalid_input"
    assert "does not offer" in refused["message"]
    assert (await alice.post("/v1/harnesses", json={**body, field: []})).status_code == 200


async def test_a_harness_needs_a_base(alice: httpx.AsyncClient):
    assert fault(await alice.post("/v1/harnesses", json={"name": "a"}))["param"] == "base"


@pytest.mark.requirement("ME-9-02")
async def test_attached_memories_name_their_default(alice: httpx.AsyncClient, script: Script):
    attached = runner_pb2.MemoriesResponse(
        memories=[
            runner_pb2.Attachment(memory_id="hmem_1", access="read"),
            runner_pb2.Attachment(memory_id="hmem_2", access="write", is_default=True),
        ]
    )
    script.answers["SetMemories"] = script.answers["GetMemories"] = attached
    body = {
        "memories": [
            {"memory_id": "hmem_1", "access": "read"},
            {"memory_id": "hmem_2", "access": "write", "default": True},
        ]
    }
    assert (await alice.put("/v1/harnesses/chrn_1/memories", json=body)).json() == body
    assert (await alice.get("/v1/harnesses/chrn_1/memories")).json() == body
    assert script.only("SetMemories").memories[1].is_default


@pytest.mark.requirement("ME-9.1-18")
async def test_what_has_to_be_told_of_an_attached_memory_is_told(alice: httpx.AsyncClient, script: Script):
    told = {"code": "memory_outside", "memory_id": "hmem_1", "message": "Every turn will be sent to it."}
    script.answers["SetMemories"] = script.answers["GetMemories"] = runner_pb2.MemoriesResponse(
        memories=[runner_pb2.Attachment(memory_id="hmem_1", access="read")],
        notices=[runner_pb2.Notice(**told)],
    )
    body = {"memories": [{"memory_id": "hmem_1", "access": "read"}]}
    path = "/v1/harnesses/chrn_1/memories"
    for answer in (await alice.put(path, json=body), await alice.get(path)):
        assert answer.json() == {**body, "notices": [told]}


@pytest.mark.parametrize(
    ("entry", "param"),
    [
        ({"access": "read"}, "memories.0.memory_id"),
        ({"memory_id": "m"}, "memories.0.access"),
        ({"memory_id": "m", "access": "own"}, "memories.0.access"),
    ],
)
async def test_an_attachment_that_cannot_be_read_is_refused(
    alice: httpx.AsyncClient, entry: dict[str, str], param: str
):
    error = fault(await alice.put("/v1/harnesses/chrn_1/memories", json={"memories": [entry]}))
    assert (error["code"], error["param"]) == ("invalid_input", param)


async def test_models_say_whether_they_can_be_served(alice: httpx.AsyncClient, script: Script):
    model = runner_pb2.Model(id="scripted-1", backend="scripted", available=True, is_default=True)
    script.answers["ListModels"] = runner_pb2.ListModelsResponse(
        backends=[runner_pb2.Backend(name="scripted", default_model="scripted-1", models=[model])]
    )
    read = {
        "id": "scripted-1",
        "label": "scripted-1",
        "backend": "scripted",
        "available": True,
        "default": True,
    }
    assert (await alice.get("/v1/models")).json() == {
        "backends": {"scripted": {"default": "scripted-1", "models": [read]}}
    }
    assert (await alice.get("/v1/harnesses/chrn_1/models")).json() == {
        "harness_id": "chrn_1",
        "backend": "scripted",
        "default": "scripted-1",
        "models": [read],
    }


TOKEN = authz_pb2.Token(
    id="tok_1",
    token="gk_secret",
    principal="person:tom",
    groups=["group:support"],
    scopes=["user"],
    created_at=Timestamp(seconds=1790560000),
)


@pytest.mark.parametrize(
    ("body", "principal", "groups"),
    [
        ({"person": "tom", "groups": ["support", "group:b"]}, "person:tom", ["group:support", "group:b"]),
        ({"credential": "ci", "ttl_seconds": 60}, "credential:ci", []),
    ],
)
async def test_a_token_is_issued_and_told_once(
    alice: httpx.AsyncClient, script: Script, body: dict[str, Any], principal: str, groups: list[str]
):
    script.answers["CreateToken"] = TOKEN
    headers = {"Authorization": f"Bearer {ADMIN}"}
    answer = await alice.post("/v1/grovekeeper/tokens", json=body, headers=headers)
    assert answer.json() == {
        "id": "tok_1",
        "object": "grovekeeper.token",
        "token": "gk_secret",
        "principal": "person:tom",
        "groups": ["group:support"],
        "scopes": ["user"],
        "created_at": "2026-09-28T01:46:40Z",
    }
    assert answer.headers["cache-control"] == "no-store"
    sent = script.only("CreateToken")
    assert (sent.principal, list(sent.groups), sent.ttl_seconds) == (
        principal,
        groups,
        body.get("ttl_seconds", 0),
    )


@pytest.mark.parametrize("body", [{}, {"person": "a", "credential": "b"}, {"person": ""}, {"person": 5}])
async def test_a_token_is_for_exactly_one_principal(alice: httpx.AsyncClient, body: dict[str, Any]):
    assert fault(await alice.post("/v1/grovekeeper/tokens", json=body))["param"] == "person"


async def test_a_token_is_revoked_by_itself_or_by_its_id(alice: httpx.AsyncClient, script: Script):
    script.answers["RevokeToken"] = authz_pb2.RevokeTokenResponse(id="tok_1")
    revoked = {"id": "tok_1", "object": "grovekeeper.token", "revoked": True}
    path = "/v1/grovekeeper/tokens"
    assert (await alice.post(f"{path}/revoke", json={"token": "gk_secret"})).json() == revoked
    assert (await alice.post(f"{path}/revoke", json={"id": "tok_1"})).json() == revoked
    assert (await alice.delete(f"{path}/tok_1")).json() == revoked
    assert [call.request.WhichOneof("which") for call in script.calls] == ["token", "id", "id"]
    bodies: list[dict[str, str]] = [{}, {"id": "a", "token": "b"}]
    for body in bodies:
        assert fault(await alice.post(f"{path}/revoke", json=body))["code"] == "invalid_input"


async def test_everybody_may_ask_who_they_are(alice: httpx.AsyncClient):
    assert (await alice.get("/v1/grovekeeper/whoami")).json() == {
        "object": "grovekeeper.principal",
        "principal": "person:alice",
        "groups": ["group:g", "group:kept"],
        "managed_groups": ["group:kept"],
        "scopes": ["user"],
        "token_id": "tok_1",
    }
