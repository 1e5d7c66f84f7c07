"""Operations of types as an agent meets them (Memories §8, §9.1), over the real ones."""

import json
from typing import Any

import pytest

from protos.common.v1 import record_pb2
from protos.memory.v1 import memory_pb2
from tests.api.runner_service.cluster import Memories, Runner
from tests.api.runner_service.test_memory import attach, data, entry, items
from tests.api.runner_service.test_query_tools import offered
from tests.fixtures.model_stub import Answer, ModelStub

Product = tuple[Runner, Memories]
Json = dict[str, Any]
STARTS, ENDS = "2026-10-05T09:00:00Z", "2026-10-05T10:00:00Z"


async def write(memories: Memories, memory_id: str, kind: str, attributes: Json) -> str:
    draft = record_pb2.Draft(type=kind, attributes=json.dumps(attributes).encode())
    asked = memory_pb2.RememberRequest(memory_id=memory_id, draft=draft)
    return (await memories.records.Remember(asked)).id


async def operated(
    product: Product, stub: ModelStub, access: str, calls: list[Json], team: str
) -> list[Json]:
    """What ``memory_operate`` answered an agent that is attached to the memory in that way."""
    runner, _ = product
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(team, access))
    stub.say(*(Answer(calls=[("memory_operate", json.dumps(one))]) for one in calls), Answer("done"))
    final = await runner.run("operate", harness_id=harness.id)
    return items(final, "function_call_output")


@pytest.mark.requirement("ME-8-06", "ME-9.1-10")
async def test_an_agent_that_may_write_carries_out_an_operation(product: Product, stub: ModelStub) -> None:
    _, memories = product
    team = await memories.create("Team")
    task = await write(memories, team, "x.task", {"title": "Call Ruth.", "amount": 12345678901234567890})
    fact = (await memories.remember(team, "The alarm limit is four degrees.")).id
    calls = [
        {"memory": team, "record": task, "operation": "complete"},
        {"memory": team, "record": task, "operation": "nothing"},
        {"memory": team, "record": fact, "operation": "complete"},
        {"memory": team, "record": task, "operation": "reopen", "expected_version": 1},
    ]
    done, unknown, without, late = await operated(product, stub, "write", calls, team)
    told = offered(stub)["memory_operate"]["description"]
    assert "complete" in told
    assert "free_slots" in told
    record = data(done)["record"]
    assert (record["version"], record["attributes"]["status"]) == (2, "done")
    assert "12345678901234567890" in done["output"]
    assert unknown["output"].startswith("grovekeeper_not_found:")
    assert without["output"].startswith("grovekeeper_not_found:")
    assert late["output"].startswith("grovekeeper_conflict:")


@pytest.mark.requirement("ME-8-06", "ME-9.1-12")
async def test_an_agent_that_may_only_read_is_offered_what_reads_and_refused_the_rest(
    product: Product, stub: ModelStub
) -> None:
    _, memories = product
    team = await memories.create("Team")
    event = await write(
        memories, team, "x.calendar.event", {"title": "Round", "starts_at": STARTS, "ends_at": ENDS}
    )
    task = await write(memories, team, "x.task", {"title": "Call Ruth."})
    window = {"from": "2026-10-05T08:00:00Z", "to": "2026-10-05T12:00:00Z"}
    calls = [
        {"memory": team, "record": event, "operation": "free_slots", "input": window},
        {"memory": team, "record": task, "operation": "complete"},
    ]
    slots, refused = await operated(product, stub, "read", calls, team)
    told = offered(stub)["memory_operate"]["description"]
    assert "free_slots" in told
    assert "complete" not in told
    assert data(slots)["result"]
    assert refused["output"].startswith("memory_forbidden:")
    (left,) = [one for one in await memories.list(team) if one.id == task]
    assert left.version == 1
