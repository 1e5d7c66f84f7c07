"""Attaching (Memories §9): what has to be told, what is refused, and what a repeat does."""

from dataclasses import replace

import pytest

from protos.authz.v1 import authz_pb2
from protos.common.v1 import common_pb2
from protos.runner.v1 import runner_pb2 as wire
from provider_workers.adapters.native import adapter
from provider_workers.domain.model import Capabilities
from tests.api.runner_service.cluster import Memories, Runner
from tests.api.runner_service.test_memory import WRITE, attach, entry
from tests.api.runner_service.test_tasks import refused

Product = tuple[Runner, Memories]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's document says that it is outside the server."""
    own = adapter.document

    def document(**asked: bool) -> Capabilities:
        return replace(own(**asked), outside=True)

    monkeypatch.setattr(adapter, "document", document)


async def put(
    runner: Runner, harness_id: str, *memories: wire.Attachment, key: str = ""
) -> wire.MemoriesResponse:
    request = wire.SetMemoriesRequest(harness_id=harness_id, memories=memories)
    if key:
        digest = request.SerializeToString(deterministic=True)[-32:]
        request.idempotency.CopyFrom(common_pb2.Idempotency(key=key, request_sha256=digest))
    return await runner.harnesses.SetMemories(request)


async def read(runner: Runner, harness_id: str) -> wire.MemoriesResponse:
    return await runner.harnesses.GetMemories(wire.GetMemoriesRequest(harness_id=harness_id))


@pytest.mark.usefixtures("outside")
@pytest.mark.requirement("ME-9.1-18")
async def test_who_attaches_a_memory_kept_elsewhere_is_told(product: Product) -> None:
    runner, memories = product
    team = await memories.create("Team")
    harness = await runner.harness()
    for answer in (
        await put(runner, harness.id, entry(team, "write", default=True)),
        await read(runner, harness.id),
    ):
        (notice,) = answer.notices
        assert (notice.code, notice.memory_id) == ("memory_outside", team)
        assert notice.message == (
            "This memory is kept by native, which is outside this server: every turn will be sent to it."
        )
    # A harness that may write and not read sends its turns there too.
    drop = await memories.create("Drop")
    other = await runner.harness()
    await memories.grant(drop, f"harness:{other.id}", WRITE)
    assert [one.code for one in (await put(runner, other.id, entry(drop, "write"))).notices] == [
        "memory_outside"
    ]


async def test_a_provider_of_this_server_is_no_news(product: Product) -> None:
    runner, memories = product
    harness = await runner.harness()
    assert list((await put(runner, harness.id, entry(await memories.create("Team"), "read"))).notices) == []
    assert list((await read(runner, harness.id)).notices) == []


@pytest.mark.requirement("ME-9-05")
async def test_what_cannot_be_attached_changes_nothing(product: Product) -> None:
    runner, memories = product
    team, lab = await memories.create("Team"), await memories.create("Lab")
    harness = await runner.harness()
    before = await attach(runner, harness.id, entry(team, "read"))
    for wrong, code in (
        ([entry(team, "write", default=True), entry(lab, "write", default=True)], "memory_invalid"),
        ([entry(lab, "read", default=True)], "memory_invalid"),
        ([entry(lab, "read"), entry(lab, "write")], "memory_invalid"),
        ([entry(lab, "admin")], "memory_invalid"),
        ([entry(lab, "read"), entry("hmem_" + "0" * 32, "read")], "memory_not_found"),
    ):
        assert (await refused(put(runner, harness.id, *wrong))).code == code
        assert list((await read(runner, harness.id)).memories) == before
    grants = await memories.grants.ListGrants(authz_pb2.ListGrantsRequest(memory_id=lab))
    assert f"harness:{harness.id}" not in {one.principal for one in grants.grants}


@pytest.mark.requirement("ME-9-06")
async def test_detaching_leaves_the_grant(product: Product) -> None:
    runner, memories = product
    team = await memories.create("Team")
    harness = await runner.harness()
    await attach(runner, harness.id, entry(team, "write"))
    assert await attach(runner, harness.id) == []
    assert (await refused(read(runner, harness.id))).code == "memories_not_attached"
    grants = await memories.grants.ListGrants(authz_pb2.ListGrantsRequest(memory_id=team))
    assert f"harness:{harness.id}" in {one.principal for one in grants.grants}


@pytest.mark.requirement("ME-5.1-07")
async def test_a_repeat_grants_and_attaches_nothing_again(product: Product) -> None:
    runner, memories = product
    team = await memories.create("Team")
    harness = await runner.harness()
    first = await put(runner, harness.id, entry(team, "write"), key="once")
    await attach(runner, harness.id)
    grants = await memories.grants.ListGrants(authz_pb2.ListGrantsRequest(memory_id=team))
    (granted,) = [one for one in grants.grants if one.principal == f"harness:{harness.id}"]
    await memories.revoke(team, granted.id)
    assert await put(runner, harness.id, entry(team, "write"), key="once") == first
    assert (await refused(read(runner, harness.id))).code == "memories_not_attached"
    grants = await memories.grants.ListGrants(authz_pb2.ListGrantsRequest(memory_id=team))
    assert f"harness:{harness.id}" not in {one.principal for one in grants.grants}
    other = await refused(put(runner, harness.id, entry(team, "read"), key="once"))
    assert other.code == "grovekeeper_idempotency_mismatch"
