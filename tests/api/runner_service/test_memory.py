import asyncio
import json
from typing import Any

import pytest

from protos.authz.v1 import authz_pb2
from protos.runner.v1 import runner_pb2 as wire
from runner_service.clients import projection
from runner_service.domain.fence import unfenced
from service_kit.ids import new_id
from tests.api.runner_service.cluster import Memories, Runner
from tests.api.runner_service.test_tasks import refused
from tests.fixtures.model_stub import Answer, ModelStub

Json = dict[str, Any]
READ, WRITE = authz_pb2.PRIVILEGE_READ, authz_pb2.PRIVILEGE_WRITE


def entry(memory_id: str, access: str, *, default: bool = False) -> wire.Attachment:
    return wire.Attachment(memory_id=memory_id, access=access, is_default=default)


async def attach(runner: Runner, harness_id: str, *memories: wire.Attachment) -> list[wire.Attachment]:
    request = wire.SetMemoriesRequest(harness_id=harness_id, memories=memories)
    return list((await runner.harnesses.SetMemories(request)).memories)


def items(final: Json, kind: str) -> list[Json]:
    return [item for item in final["output"] if item["type"] == kind]


def data(output: Json) -> Json:
    """What a tool's fenced answer encloses."""
    enclosed = unfenced(output["output"])
    assert enclosed is not None, output
    return enclosed


def answer(final: Json) -> str:
    return "\n".join(part["text"] for item in items(final, "message") for part in item["content"])


# -- attaching ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("ME-9-04")
async def test_attaching_is_granting_for_whoever_may_grant(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    team = await memories.create("Team")
    harness = await runner.harness()
    attached = await attach(runner, harness.id, entry(team, "write", default=True))
    assert [(one.memory_id, one.access, one.is_default) for one in attached] == [(team, "write", True)]
    again = await attach(runner, harness.id, entry(team, "write", default=True))
    assert again == attached
    read = await runner.harnesses.GetMemories(wire.GetMemoriesRequest(harness_id=harness.id))
    assert list(read.memories) == attached
    grants = await memories.grants.ListGrants(authz_pb2.ListGrantsRequest(memory_id=team))
    assert f"harness:{harness.id}" in {one.principal for one in grants.grants}


@pytest.mark.requirement("ME-9-05")
async def test_one_memory_that_may_not_be_attached_attaches_none(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    mine = await memories.create("Mine")
    with runner.act_as("person:bob"):
        theirs = await memories.create("Theirs")
        seen = await memories.create("Seen")
        await memories.grant(seen, "person:alice", READ)
    harness = await runner.harness()
    for other, code in (
        (theirs, "memory_not_found"),
        (seen, "memory_forbidden"),
        ("hmem_none", "memory_not_found"),
    ):
        error = await refused(attach(runner, harness.id, entry(mine, "read"), entry(other, "read")))
        assert error.code == code
    read = wire.GetMemoriesRequest(harness_id=harness.id)
    assert (await refused(runner.harnesses.GetMemories(read))).code == "memories_not_attached"
    grants = await memories.grants.ListGrants(authz_pb2.ListGrantsRequest(memory_id=mine))
    assert f"harness:{harness.id}" not in {one.principal for one in grants.grants}


# -- prime and tools ---------------------------------------------------------------------------------------


async def test_a_turn_recalls_from_what_it_is_attached_to(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    team = await memories.create("Team")
    await memories.remember(team, "Bertie at the porters' desk has the freezer room key.")
    harness = await runner.harness()
    await attach(runner, harness.id, entry(team, "read"))
    final = await runner.run("Recall: Who has the key to the freezer room?", harness_id=harness.id)
    assert final["status"] == "completed"
    (call,) = items(final, "function_call")
    assert (call["name"], json.loads(call["arguments"])) == (
        "memory_recall",
        {"query": "Who has the key to the freezer room?"},
    )
    (output,) = items(final, "function_call_output")
    assert output["call_id"] == call["call_id"]
    first = data(output)["results"][0]
    assert first["written_by"] == "person:alice"
    assert first["trust"] == "untrusted"
    assert "Bertie" in answer(final)
    assert "person:alice" in answer(final)
    (primed,) = final["metadata"]["grovekeeper_primed"]
    assert primed["memory_id"] == team
    assert primed["tokens"] > 0
    assert primed["tokenizer"] == "o200k_base"


@pytest.mark.requirement("ME-9.1-08", "ME-9-09")
async def test_a_turn_remembers_as_the_harness(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    team, notes = await memories.create("Team"), await memories.create("Notes")
    harness = await runner.harness()
    await attach(runner, harness.id, entry(team, "write", default=True), entry(notes, "write"))
    await runner.run("Remember: The alarm limit is four degrees.", harness_id=harness.id)
    final = await runner.run("Remember in notes: Call Noor first.", harness_id=harness.id)
    assert json.loads(items(final, "function_call")[0]["arguments"])["memory"] == notes
    said = "The alarm limit is four degrees."
    (kept,) = [one for one in await memories.list(team) if one.content[0].text == said and one.type == "fact"]
    assert (kept.written_by.kind, kept.written_by.id) == ("harness", harness.id)
    assert "Call Noor first." in {one.content[0].text for one in await memories.list(notes)}


@pytest.mark.requirement("ME-9.1-08")
async def test_a_record_is_revised_and_forgotten_by_a_turn(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    team = await memories.create("Team")
    kept = await memories.remember(team, "Open from nine.")
    harness = await runner.harness()
    await attach(runner, harness.id, entry(team, "write"))
    final = await runner.run(f"Revise {kept.id}: Open from eight.", harness_id=harness.id)
    assert "version 2: Open from eight." in answer(final)
    final = await runner.run(f"Forget {kept.id}", harness_id=harness.id)
    assert "Forgot" in answer(final)
    assert kept.id not in {one.id for one in await memories.list(team)}


@pytest.mark.requirement("ME-9-08", "ME-9.1-12")
async def test_a_harness_attached_to_read_is_offered_no_tool_that_writes(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team, lab = await memories.create("Team"), await memories.create("Lab")
    stub.say(Answer("ok"))
    reading = await runner.harness(base="loop")
    await attach(runner, reading.id, entry(team, "read"))
    await runner.run("hi", harness_id=reading.id)
    assert _offered(stub) == {
        "memory_list",
        "memory_recall",
        "memory_get",
        "memory_query",
        "memory_operate",
    }
    writing = await runner.harness(base="loop", disabled_tools=["memory_forget"])
    await attach(runner, writing.id, entry(team, "read"), entry(lab, "write"))
    stub.say(Answer("ok"))
    await runner.run("hi", harness_id=writing.id)
    assert _offered(stub) == {
        "memory_list",
        "memory_recall",
        "memory_get",
        "memory_query",
        "memory_operate",
        "memory_remember",
        "memory_revise",
    }
    bare = await runner.harness(base="loop")
    stub.say(Answer("ok"))
    await runner.run("hi", harness_id=bare.id)
    assert _offered(stub) == set()


@pytest.mark.requirement("ME-9-07", "ME-9-08")
async def test_access_read_narrows_what_the_harness_may_write(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team, lab = await memories.create("Team"), await memories.create("Lab")
    below = await memories.create("Below", lab)
    harness = await runner.harness(base="loop")
    await memories.grant(lab, f"harness:{harness.id}", READ, WRITE)
    await attach(runner, harness.id, entry(team, "write", default=True), entry(lab, "read"))
    for memory in (lab, below):
        call = ("memory_remember", json.dumps({"memory": memory, "content": "no"}))
        stub.say(Answer(calls=[call]), Answer("done"))
        final = await runner.run("write there", harness_id=harness.id)
        assert items(final, "function_call_output")[0]["output"].startswith("memory_forbidden: ")
    assert await memories.list(lab) == []


@pytest.mark.requirement("ME-3.3-01", "ME-9.1-14", "ME-13-03")
async def test_a_grant_that_is_gone_is_gone_at_the_next_call(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team = await memories.create("Team")
    await memories.remember(team, "The code is 4417.")
    harness = await runner.harness(base="loop")
    grant = await memories.grant(team, f"harness:{harness.id}", READ)
    await attach(runner, harness.id, entry(team, "read"))
    call = ("memory_recall", json.dumps({"query": "the code"}))
    hold = asyncio.Event()
    stub.say(Answer(calls=[call]), Answer("first, ", calls=[call], hold=hold), Answer("done"))
    made = await runner.create("look twice", harness_id=harness.id)
    async for event in runner.follow(made.id):
        if event["type"] == "response.output_text.delta" and not hold.is_set():
            await memories.revoke(team, grant.id)
            hold.set()
        if event["type"] in ("response.completed", "response.failed"):
            first, second = items(event["response"], "function_call_output")
            assert "4417" in first["output"]
            assert second["output"].startswith("memory_not_found: ")


@pytest.mark.requirement("ME-9.1-13", "ME-13-03", "ME-9.1-19", "ME-9.1-20")
async def test_an_agent_walks_as_far_as_its_harness_reaches(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    root = await memories.create("Root")
    open_child, closed = (
        await memories.create("Open", root),
        await memories.create("Closed", root, restricted=True),
    )
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(root, "read"))
    calls = [
        ("memory_list", "{}"),
        ("memory_list", json.dumps({"memory": open_child})),
        ("memory_list", json.dumps({"memory": closed})),
        ("memory_get", json.dumps({"record": "hrec_none"})),
        ("memory_recall", json.dumps({"question": "?"})),
        ("memory_erase", "{}"),
    ]
    stub.say(*(Answer(calls=[call]) for call in calls), Answer("done"))
    final = await runner.run("walk", harness_id=harness.id)
    found = items(final, "function_call_output")
    outputs = [item["output"] for item in found]
    (top,), child = data(found[0])["memories"], data(found[1])
    assert [one["name"] for one in top["children"]] == ["Open"]
    assert (child["name"], child["parent"]["id"]) == ("Open", root)
    assert (child["parent"]["name"], child["parent"]["description"]) == ("Root", "About Root.")
    assert outputs[2].startswith("memory_not_found: ")
    assert outputs[3].startswith("memory_record_not_found: ")
    assert outputs[4].startswith("invalid_input: ")
    assert "memory_erase" in outputs[5]
    assert final["status"] == "completed"


@pytest.mark.requirement("ME-6.3-03", "ME-9.1-07", "ME-9.1-08")
async def test_the_tools_do_what_their_schemas_offer(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team = await memories.create("Team")
    lab = await memories.create("Lab", team)
    old = await memories.remember(team, "Lee has the key.")
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(team, "write", default=True))
    remember = {
        "content": "Acme renews in March.",
        "type": "note",
        "memory": lab,
        "attributes": {"account": "acme", "seats": 12},
        "valid_from": "2026-09-30T00:00:00Z",
        "valid_to": "2027-03-31T00:00:00+02:00",
        "references": [{"rel": "derived_from", "memory": team, "record": old.id}],
    }
    account = {"field": "attributes.account", "op": "eq", "value": "acme"}
    seats = {"field": "attributes.seats", "op": "gte", "value": 10}
    recall = {
        "query": "When does Acme renew?",
        "filters": {
            "and": [account, {"not": {"or": [{"field": "type", "op": "eq", "value": "fact"}]}}, seats]
        },
        "types": ["note"],
        "depth": -1,
        "limit": 1,
    }
    wrong = {"filters": {"field": "type", "op": "like", "value": "x"}}
    both: Json = {"filters": {"field": "type", "and": []}}
    revise: Json = {
        "record": old.id,
        "content": "Bertie has the key.",
        "attributes": {"since": "monday"},
        "valid_from": "2026-10-01T00:00:00Z",
        "references": [],
        "expected_version": 1,
    }
    calls: list[tuple[str, Json]] = [
        ("memory_remember", remember),
        ("memory_recall", recall),
        ("memory_revise", revise),
        ("memory_revise", revise),
        ("memory_get", {"record": old.id, "history": True}),
        ("memory_get", {"record": old.id, "as_of": "2026-01-01T00:00:00Z"}),
        ("memory_get", {"record": old.id, "history": True, "as_of": projection.moment(old.written_at)}),
        ("memory_recall", wrong),
        ("memory_recall", both),
        ("memory_remember", {"content": "x", "valid_from": "yesterday"}),
    ]
    stub.say(*(Answer(calls=[(name, json.dumps(call))]) for name, call in calls), Answer("done"))
    final = await runner.run("go", harness_id=harness.id)
    outputs = items(final, "function_call_output")
    kept = data(outputs[0])
    assert kept["attributes"] == {"account": "acme", "seats": 12}
    assert (kept["valid_from"], kept["valid_to"]) == ("2026-09-30T00:00:00Z", "2027-03-30T22:00:00Z")
    assert kept["references"] == [{"rel": "derived_from", "memory": team, "record": old.id}]
    (hit,) = data(outputs[1])["results"]
    assert (hit["record"], hit["memory"], hit["memory_name"]) == (kept["record"], lab, "Lab")
    assert data(outputs[2])["version"] == 2
    assert outputs[3]["output"].startswith("grovekeeper_conflict: ")
    versions = data(outputs[4])["versions"]
    assert [(one["version"], one["status"]) for one in versions] == [(1, "superseded"), (2, "active")]
    assert outputs[5]["output"].startswith("memory_record_not_found: ")
    (then,) = data(outputs[6])["versions"]
    assert (then["version"], then["status"], then["content"]) == (1, "active", "Lee has the key.")
    assert all(one["output"].startswith("invalid_input: ") for one in outputs[7:])


@pytest.mark.requirement("ME-13-01", "ME-9.1-01", "ME-9.1-02", "ME-9.1-04", "ME-9.1-06")
async def test_instructions_are_primed_once_and_fenced(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team = await memories.create("Team")
    lab = await memories.create("Lab", team)
    await memories.remember(team, "Ring twice.")
    harness = await runner.harness(base="loop", system_prompt="You are the desk.")
    await attach(runner, harness.id, entry(team, "write", default=True))
    stub.say(Answer("one"))
    first = await runner.run("hi", harness_id=harness.id, instructions="Be brief.")
    await memories.create("Later", team)
    await runner.run("again", previous_response_id=first["id"], instructions="Be brief.")
    before, after = (_system(one) for one in stub.requests)
    assert before == after
    assert before.startswith("You are the desk.")
    assert before.endswith("Be brief.")
    lines = before.split("\n")
    begin = next(n for n, line in enumerate(lines) if line.startswith("<memory-data-"))
    told = json.loads(lines[begin + 1])["memories"]
    (relevant,) = told[0].pop("always_relevant")
    assert (relevant["content"], relevant["written_by"]) == ("Ring twice.", "person:alice")
    assert told == [
        {
            "id": team,
            "name": "Team",
            "description": "About Team.",
            "may": ["read", "write"],
            "records": 1,
            "children": [{"id": lab, "name": "Lab", "description": "About Lab.", "records": 0}],
            "default": True,
        }
    ]


# -- a task's own memory -----------------------------------------------------------------------------------


@pytest.mark.requirement("ME-9-10", "ME-9-11")
async def test_a_task_brings_a_memory_its_harness_holds(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    team, ann = await memories.create("Team"), await memories.create("Ann")
    harness = await runner.harness()
    await attach(runner, harness.id, entry(team, "write", default=True))
    await memories.grant(ann, f"harness:{harness.id}", READ, WRITE)
    first = await runner.run("Remember: Ann likes tea.", harness_id=harness.id, memory_id=ann)
    assert first["metadata"]["memory"] == ann
    assert {one["memory_id"] for one in first["metadata"]["grovekeeper_primed"]} == {team, ann}
    assert "Ann likes tea." in {one.content[0].text for one in await memories.list(ann) if one.type == "fact"}
    second = await runner.run("Recall: What does Ann like?", previous_response_id=first["id"])
    assert "Ann likes tea." in answer(second)
    other = await refused(runner.create("hi", previous_response_id=first["id"], memory_id=team))
    assert (other.code, other.param) == ("invalid_input", "metadata.memory")


@pytest.mark.requirement("ME-9-12")
async def test_a_memory_the_harness_holds_nothing_on_is_refused_before_the_start(
    product: tuple[Runner, Memories],
) -> None:
    runner, memories = product
    ann = await memories.create("Ann")
    harness = await runner.harness()
    for memory_id in (ann, new_id("hmem"), "hmem_none"):
        error = await refused(runner.create("hi", harness_id=harness.id, memory_id=memory_id))
        assert (error.code, error.param) == ("memory_not_found", "metadata.memory")


async def test_a_memory_it_may_only_read_is_read_and_not_written(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    ann = await memories.create("Ann")
    await memories.remember(ann, "Ann likes tea.")
    harness = await runner.harness()
    await memories.grant(ann, f"harness:{harness.id}", READ)
    final = await runner.run("Recall: What does Ann like?", harness_id=harness.id, memory_id=ann)
    assert "Ann likes tea." in answer(final)
    final = await runner.run("Remember: no", harness_id=harness.id, memory_id=ann)
    assert items(final, "function_call") == []


# -- observe -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("ME-9.1-15", "ME-9-09")
async def test_a_turn_is_observed_without_what_it_recalled(
    product: tuple[Runner, Memories], stub: ModelStub
) -> None:
    runner, memories = product
    team, lab = await memories.create("Team"), await memories.create("Lab")
    await memories.remember(team, "The lamp of the porch is green.")
    await memories.remember(lab, "The code is 4417.")
    harness = await runner.harness(base="loop")
    await attach(runner, harness.id, entry(team, "write", default=True), entry(lab, "read"))
    calls = [("memory_recall", json.dumps({"memory": one, "query": "What is it?"})) for one in (team, lab)]
    stub.say(Answer(calls=calls), Answer("Looked up."))
    final = await runner.run("Look both up.", harness_id=harness.id)
    shown = "\n".join(str(one["content"]) for one in stub.requests[1]["messages"])
    assert shown.count("The lamp of the porch is green.") == 2  # in the instructions, and recalled
    assert shown.count("The code is 4417.") == 2
    episodes = await _episodes(memories, team, 3)
    assert [(one.content[0].role, one.content[0].text) for one in episodes] == [
        ("user", "Look both up."),
        ("tool", "Tools that ran: memory_recall."),
        ("assistant", "Looked up."),
    ]
    assert {(one.written_by.kind, one.written_by.id) for one in episodes} == {("harness", harness.id)}
    assert json.loads(episodes[0].attributes)["response_id"] == final["id"]
    asked, ran, answered = (one.valid_from.ToSeconds() for one in episodes)
    assert (asked, ran, answered) == (final["created_at"], final["completed_at"], final["completed_at"])


async def test_a_turn_without_a_default_memory_is_observed_nowhere(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    lab, team = await memories.create("Lab"), await memories.create("Team")
    harness, other = await runner.harness(), await runner.harness()
    await attach(runner, harness.id, entry(lab, "read"))
    await attach(runner, other.id, entry(team, "write", default=True))
    await runner.run("Reply with exactly: ok", harness_id=harness.id)
    await runner.run("Reply with exactly: ok", harness_id=other.id)
    await _episodes(memories, team, 2)
    assert [one for one in await memories.list(lab) if one.type == "episode"] == []


async def test_a_cancelled_turn_is_not_observed(product: tuple[Runner, Memories]) -> None:
    runner, memories = product
    team = await memories.create("Team")
    harness = await runner.harness()
    await attach(runner, harness.id, entry(team, "write", default=True))
    made = await runner.create("Count slowly from 1 to 3000, one number per line.", harness_id=harness.id)
    await runner.cancel(made.id)
    await runner.events(made.id)
    after = await runner.run("Reply with exactly: ok", previous_response_id=made.id)
    assert after["status"] == "completed"
    episodes = await _episodes(memories, team, 2)
    assert [one.content[0].text for one in episodes] == ["Reply with exactly: ok", "ok"]


async def _episodes(memories: Memories, memory_id: str, count: int) -> list[Any]:
    """The episodes of a memory in the order they were sent, once there are so many."""
    async with asyncio.timeout(20):
        while True:
            found = [one for one in await memories.list(memory_id) if one.type == "episode"]
            if len(found) >= count:
                return sorted(found, key=lambda one: (one.written_at.ToNanoseconds(), one.id))
            await asyncio.sleep(0.1)


def _offered(stub: ModelStub) -> set[str]:
    return {tool["function"]["name"] for tool in stub.requests[0].get("tools", [])}


def _system(request: Json) -> str:
    return "\n".join(one["content"] for one in request["messages"] if one["role"] == "system")
