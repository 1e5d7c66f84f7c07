"""A conversation that is compacted is primed again (Memories §9.1), and never otherwise."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protos.memory.v1 import memory_pb2
from tests.api.runner_service.cluster import Keys, Memories, Runner, whole
from tests.api.runner_service.test_memory import attach, entry
from tests.api.runner_service.test_without_memory import model_of
from tests.fixtures.model_stub import Answer, ModelStub


@pytest.mark.requirement("ME-9.1-03", "ME-9.1-04", "ME-9.1-06")
async def test_instructions_change_after_a_compaction_and_only_then(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str, tmp_path: Path, stub: ModelStub
) -> None:
    more = {**model_of(stub), "model_history_characters": 2_000}
    async with whole(keys, service_database, clean_redis, tmp_path, **more) as (runner, memories):
        with runner.act_as("person:alice"):
            team = await memories.create("Team")
            harness = await runner.harness(base="loop")
            await attach(runner, harness.id, entry(team, "read"))
            stub.say(Answer("a" * 300))
            final = await runner.run("turn 0", harness_id=harness.id)
            turns = [final]
            for number in range(1, 12):
                if number == 2:
                    await memories.create("Later", team)
                final = await runner.run(f"turn {number}", previous_response_id=final["id"])
                turns.append(final)
            compacted = [
                number for number, one in enumerate(turns) if "grovekeeper_compacted" in one["metadata"]
            ]
            blocks = [_block(request) for request in stub.requests]
            assert 1 < len(compacted) < 5
            # A turn is primed anew exactly after one that compacted; what was placed is told with each.
            changes = [number for number in range(1, 12) if blocks[number] != blocks[number - 1]]
            assert changes == [number + 1 for number in compacted if number < 11]
            assert "Later" not in blocks[compacted[0]]
            assert "Later" in blocks[compacted[0] + 1]
            before, after = (
                turns[at]["metadata"]["grovekeeper_primed"][0]["tokens"] for at in (0, compacted[0] + 1)
            )
            assert after > before > 0
            # What is shown is within the bound, says what is missing, and ends with what was asked.
            last = stub.requests[-1]["messages"]
            assert sum(len(str(one["content"])) for one in last if one["role"] != "system") < 2_600
            left_out = turns[compacted[-1]]["metadata"]["grovekeeper_compacted"]["turns_left_out"]
            assert any(f"The first {left_out} turns" in str(one["content"]) for one in last)
            assert last[-1]["content"] == "turn 11"


def _block(request: dict[str, Any]) -> str:
    (block,) = [str(one["content"]) for one in request["messages"] if "<memory-data-" in str(one["content"])]
    return block


async def test_children_do_not_fill_the_instructions(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team = await memories.create("Team")
    for number in range(7):
        described = memory_pb2.CreateMemoryRequest(
            name=f"Child {number}", description="d" * 4_000, parent_id=team
        )
        await memories.memories.CreateMemory(described)
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(team, "read"))
    stub.say(Answer("Hello."))
    await runner.run("hello", harness_id=harness.id)
    block = _block(stub.requests[-1])
    (told,) = json.loads(block.split("\n")[-2])["memories"]
    assert len(told["children"]) == 4
    assert told["children_left_out"] == 3
