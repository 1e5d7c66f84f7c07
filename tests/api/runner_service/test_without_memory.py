"""A memory service that does not answer costs a turn its memory, visibly, and not its life."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.runner_service.cluster import Keys, whole
from tests.api.runner_service.test_memory import attach, entry, items
from tests.fixtures.model_stub import Answer, ModelStub
from tests.unit.runner_service.test_composer import check_rules


def model_of(stub: ModelStub) -> dict[str, str]:
    """The settings that have the loop base speak to ``stub``."""
    return {"model_base_url": stub.url, "model_name": "stub-1"}


@pytest.mark.requirement("SU-streaming-12")
async def test_a_turn_whose_memory_is_away_says_so_and_goes_on(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str, tmp_path: Path, stub: ModelStub
) -> None:
    async with whole(keys, service_database, clean_redis, tmp_path, **model_of(stub)) as (runner, memories):
        with runner.act_as("person:alice"):
            team = await memories.create("Team")
            harness = await runner.harness(base="loop")
            await attach(runner, harness.id, entry(team, "write", default=True))
            await memories.stop()
            stub.say(Answer(calls=[("memory_recall", '{"query":"x"}')]), Answer("I cannot look now."))
            made = await runner.create("hi", harness_id=harness.id)
            events = await runner.events(made.id)
            check_rules(events)
            final = events[-1]["response"]
            assert final["status"] == "completed"
            problem = next(event for event in events if event["type"] == "error")
            assert problem["code"] in final["metadata"]["grovekeeper_problems"]
            assert "grovekeeper_primed" not in final["metadata"]
            (output,) = items(final, "function_call_output")
            assert output["output"].split(":")[0] in ("grovekeeper_unavailable", "memory_unavailable")
