"""The real program, in the sandbox, behind the relay, against a model's endpoint that answers as it is told.

Where it is not installed (`GROVE_AGENTS_DIR=build/bases grove base install claude-code`) these are skipped.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from service_kit.agents.catalogue import AGENTS
from tests.api.runner_service.cluster import Keys, Memories, Runner, whole
from tests.api.runner_service.test_memory import attach, entry
from tests.fixtures.model_stub import Answer, ModelStub
from tests.unit.runner_service.test_composer import check_rules

Json = dict[str, Any]
INSTALLED = Path(__file__).resolve().parents[3] / "build" / "bases"
AGENT = AGENTS["claude-code"]
pytestmark = pytest.mark.skipif(
    AGENT.program is None or not (INSTALLED / AGENT.name / AGENT.program).exists(),
    reason="claude-code is not installed in build/bases",
)


@pytest.fixture
async def claude(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str, tmp_path: Path, stub: ModelStub
) -> AsyncGenerator[tuple[Runner, Memories]]:
    told = {
        "agents_dir": INSTALLED,
        "sessions_dir": tmp_path / "sessions",
        "relay_anthropic_base_url": stub.root,
        "relay_anthropic_api_key": "sk-secret-of-the-server",
        "relay_anthropic_models": "stub-1,stub-2",
        "runner_drain_s": 0.1,
    }
    async with whole(keys, service_database, clean_redis, tmp_path, **told) as (runner, memories):
        with runner.act_as("person:ann"):
            yield runner, memories


def said(final: Json) -> str:
    return "".join(
        part["text"] for item in final["output"] if item["type"] == "message" for part in item["content"]
    )


def shown(stub: ModelStub) -> list[str]:
    """What the model was shown, one text a request."""
    return [body.decode() for body in stub.bodies]


def bash(command: str) -> Answer:
    return Answer(calls=[("Bash", json.dumps({"command": command, "description": "look"}))])


def sleepers(mark: str) -> list[str]:
    return [
        one.parent.name
        for one in Path("/proc").glob("[0-9]*/cmdline")
        if mark.encode() in (one.read_bytes() if one.exists() else b"")
    ]


async def test_a_task_runs_its_tools_in_its_folder_and_a_second_one_goes_on(
    claude: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, _ = claude
    harness = await runner.harness(base="claude-code", system_prompt="You are kind-of-a-marker.")
    stub.say(
        bash("pwd; echo kept > note.txt; env | cut -d= -f1"), Answer("It is done.", reasoning="So be it.")
    )
    made = await runner.create("Write the note.", harness_id=harness.id)
    events = await runner.events(made.id)
    check_rules(events)
    final = events[-1]["response"]
    assert final["status"] == "completed", final
    assert said(final) == "It is done."
    kinds = [item["type"] for item in final["output"]]
    assert kinds == ["function_call", "function_call_output", "reasoning", "message"]
    assert final["output"][0]["name"] == "Bash"
    output = final["output"][1]["output"]
    assert "/workspace" in output
    assert "GROVE" not in output
    assert final["usage"] is not None
    assert final["model"] == "stub-1"
    assert any("kind-of-a-marker" in one for one in shown(stub))
    assert "sk-secret-of-the-server" in stub.keys[-1]

    stub.say(bash("cat note.txt"), Answer("It says kept."))
    again = await runner.run("Read it.", harness_id=harness.id, previous_response_id=made.id)
    assert again["status"] == "completed", again
    assert again["output"][1]["output"].strip() == "kept"
    # The program has the conversation itself: it was not told of it as a text.
    assert "Write the note." in shown(stub)[-1]
    assert "begun elsewhere" not in shown(stub)[-1]


async def test_a_conversation_the_program_has_not_is_told_as_text(
    claude: tuple[Runner, Memories], stub: ModelStub, tmp_path: Path
) -> None:
    runner, _ = claude
    harness = await runner.harness(base="claude-code")
    stub.say(Answer("Noted."))
    first = await runner.run("My colour is teal.", harness_id=harness.id)
    for marker in (tmp_path / "sessions").glob("*/conversation"):
        marker.unlink()
    stub.say(Answer("Teal."))
    again = await runner.run("Which?", harness_id=harness.id, previous_response_id=first["id"])
    assert said(again) == "Teal."
    assert "begun elsewhere" in shown(stub)[-1]
    assert "My colour is teal." in shown(stub)[-1]


async def test_nothing_is_left_of_a_turn_that_is_cancelled_in_the_middle_of_a_tool(
    claude: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, _ = claude
    harness = await runner.harness(base="claude-code")
    mark = f"4321.{time.monotonic_ns()}"
    stub.say(bash(f"setsid sleep {mark} & sleep {mark}"), Answer("Never said."))
    made = await runner.create("Sleep.", harness_id=harness.id)
    async with asyncio.timeout(30):
        while len(sleepers(mark)) < 2:  # noqa: ASYNC110 - nobody tells when a process is there
            await asyncio.sleep(0.05)
    await runner.cancel(made.id)
    final = (await runner.events(made.id))[-1]["response"]
    assert final["status"] == "cancelled"
    assert not sleepers(mark)
    stub.say(Answer("Here again."))
    again = await runner.run("Go on.", harness_id=harness.id, previous_response_id=made.id)
    assert said(again) == "Here again."


@pytest.mark.parametrize(
    ("answers", "status", "told"),
    [
        ([Answer(status=401)], "failed", "provider_error"),
        ([Answer("")], "failed", "harness_error"),
        ([bash("true"), bash("true"), bash("true"), Answer("Done.")], "incomplete", "max_step"),
    ],
)
async def test_how_a_turn_ends_is_what_became_of_it_and_not_an_exit_code(
    claude: tuple[Runner, Memories], stub: ModelStub, answers: list[Answer], status: str, told: str
) -> None:
    runner, _ = claude
    harness = await runner.harness(base="claude-code", max_step=2)
    stub.say(*answers)
    final = await runner.run("Do.", harness_id=harness.id)
    assert final["status"] == status, final
    assert told == (final["error"]["code"] if final["error"] else final["incomplete_details"]["reason"])


async def test_disabled_tools_are_not_there_and_memory_tools_are(
    claude: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = claude
    memory = await memories.create("Team")
    await memories.remember(memory, "The launch is on Friday.")
    harness = await runner.harness(base="claude-code", disabled_tools=["Bash", "memory_forget"])
    await attach(runner, harness.id, entry(memory, "read"))
    stub.say(Answer(calls=[("mcp__memory__memory_recall", '{"query": "launch"}')]), Answer("On Friday."))
    final = await runner.run("When is the launch?", harness_id=harness.id)
    assert said(final) == "On Friday.", final
    call, output = final["output"][:2]
    assert call["name"] == "memory_recall"
    assert "Friday" in output["output"]
    tools = {tool["name"] for tool in stub.requests[-1]["tools"]}
    assert "mcp__memory__memory_recall" in tools
    assert not {"Bash", "mcp__memory__memory_forget"} & tools
    assert "Team" in str(stub.requests[-1]["system"])
