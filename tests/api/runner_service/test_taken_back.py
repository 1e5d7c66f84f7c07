"""What is taken from a harness in the middle of a session is not shown to its agent again (Memories §3.3, §9.1)."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protos.authz.v1 import authz_pb2
from protos.memory.v1 import memory_pb2
from tests.api.runner_service.cluster import Memories, Runner
from tests.api.runner_service.test_memory import READ, attach, entry
from tests.fixtures.model_stub import Answer, ModelStub

SECRET = "The safe opens with 4711."
Taking = Callable[[Memories, str, str], Awaitable[object]]


async def _revoked(memories: Memories, memory_id: str, harness: str) -> None:
    listed = await memories.grants.ListGrants(authz_pb2.ListGrantsRequest(memory_id=memory_id))
    (own,) = [one.id for one in listed.grants if one.principal == harness]
    await memories.revoke(memory_id, own)


async def _deleted(memories: Memories, memory_id: str, harness: str) -> None:
    del harness
    await memories.memories.DeleteMemory(memory_pb2.DeleteMemoryRequest(id=memory_id))


@pytest.mark.requirement("ME-3.3-01", "ME-9.1-04")
@pytest.mark.parametrize("taking", [_revoked, _deleted], ids=["revoked", "deleted"])
async def test_neither_instructions_nor_earlier_answers_show_it(
    product: tuple[Runner, Memories], stub: ModelStub, taking: Taking
) -> None:
    runner, memories = product
    vault, lab = await memories.create("Vault"), await memories.create("Lab")
    await memories.remember(vault, SECRET)
    await memories.remember(lab, "The lamp is green.")
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(vault, "read"), entry(lab, "read"))
    asked = [("memory_recall", json.dumps({"memory": one, "query": "What is it?"})) for one in (vault, lab)]
    stub.say(Answer(calls=asked), Answer("Noted."), Answer("Still there."), Answer("Gone."))
    first = await runner.run("Look it up.", harness_id=harness.id)
    before = await runner.run("And now?", previous_response_id=first["id"])
    assert _shown(stub.requests[2]).count(SECRET) == 2  # placed, and recalled
    assert stub.requests[1]["messages"][0] == stub.requests[2]["messages"][0]
    await taking(memories, vault, f"harness:{harness.id}")
    after = await runner.run("And now?", previous_response_id=before["id"])
    shown = _shown(stub.requests[3])
    for hidden in (SECRET, "Vault", "4711"):
        assert hidden not in shown
    assert shown.count("The lamp is green.") == 2
    assert [one["memory_id"] for one in after["metadata"]["grovekeeper_primed"]] == [lab]
    assert "Look it up." in shown
    # The owner's own record of the turn is as it was.
    assert await runner.get(first["id"]) == first


async def test_a_child_that_was_named_is_not_named_after_it_was_cut_off(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team = await memories.create("Team")
    pay = await memories.create("Pay", team)
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(team, "read"))
    stub.say(Answer(calls=[("memory_list", "{}")]), Answer("Noted."), Answer("Gone."))
    first = await runner.run("List them.", harness_id=harness.id)
    assert "About Pay." in _shown(stub.requests[0])
    cut = memory_pb2.UpdateMemoryRequest(id=pay, restricted=True)
    await memories.memories.UpdateMemory(cut)
    await runner.run("And now?", previous_response_id=first["id"])
    assert pay not in _shown(stub.requests[2])
    assert "About Pay." not in _shown(stub.requests[2])
    assert "About Team." in _shown(stub.requests[2])


async def test_what_comes_back_is_shown_again(product: tuple[Runner, Memories], stub: ModelStub) -> None:
    runner, memories = product
    vault = await memories.create("Vault")
    await memories.remember(vault, SECRET)
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(vault, "read"))
    stub.say(Answer(calls=[("memory_recall", '{"query": "safe"}')]), Answer("Noted."))
    final = await runner.run("Look it up.", harness_id=harness.id)
    await _revoked(memories, vault, f"harness:{harness.id}")
    final = await runner.run("And now?", previous_response_id=final["id"])
    assert SECRET not in _shown(stub.requests[-1])
    await memories.grant(vault, f"harness:{harness.id}", READ)
    await runner.run("And now?", previous_response_id=final["id"])
    assert _shown(stub.requests[-1]).count(SECRET) >= 1


def _shown(request: dict[str, Any]) -> str:
    return "\n".join(str(one["content"]) for one in request["messages"])
