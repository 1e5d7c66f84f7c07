"""Sentences of the specification that no test of a larger matter shows by the way."""

import httpx
import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person
from tests.e2e.shapes import ok, refusal


@pytest.mark.requirement("ME-5-01", "ME-11-01")
def test_the_ten_operations_answer_at_their_addresses(alice: Person):
    assert alice.get("/v1/uhp")["capabilities"]["memories"] is True
    memory = f"/v1/memories/{alice.plant('Ten')}"
    observed = alice.post(f"{memory}/observe", {"episodes": [{"content": "Owls fly at night."}]})
    assert alice.get(f"{memory}/jobs/{observed['job']['id']}")["id"] == observed["job"]["id"]
    record = alice.post(f"{memory}/records", {"type": "fact", "content": "Penguins swim."})
    path = f"{memory}/records/{record['id']}"
    found = alice.post(f"{memory}/recall", {"text": "penguins"})["results"]
    assert [one["record"]["id"] for one in found] == [record["id"]]
    assert record["id"] in {one["id"] for one in alice.get(f"{memory}/records")["data"]}
    assert alice.get(path) == record
    assert alice.call("PATCH", path, {"content": "Penguins swim well."})["version"] == 2
    assert alice.delete(path)["status"] == "forgotten"
    assert len(alice.get(f"{path}/history")["data"]) == 2
    assert alice.post(f"{memory}/erase", {"record_ids": [record["id"]]})["erased"] == [record["id"]]


@pytest.mark.requirement("ME-4-02")
def test_a_records_id_is_the_providers_and_anything_may_stand_in_its_place(alice: Person):
    memory = f"/v1/memories/{alice.plant('Ids')}"
    body = {"id": "hrec_mine", "type": "fact", "content": "Penguins swim."}
    assert alice.post(f"{memory}/records", body)["id"] != "hrec_mine"
    for ident in ("hrec_mine", "1", "ü", "a b", "x" * 500, "%25", "'; --"):
        refusal(alice.send("GET", f"{memory}/records/{ident}"), 404, "memory_record_not_found")


@pytest.mark.requirement("ME-4.1-01", "ME-4.1-04", "ME-8-07")
def test_core_types_and_extensions_are_written_and_others_refused(alice: Person):
    memory = f"/v1/memories/{alice.plant('Types')}"
    for kind in ("episode", "fact", "note", "procedure", "link", "x.anything.at-all_5"):
        body = {"type": kind, "content": "Penguins swim.", "attributes": {"url": "https://example.org"}}
        assert alice.post(f"{memory}/records", body)["type"] == kind
    for kind in ("memo", "Fact", "x", "x.", "X.y"):
        body = {"type": kind, "content": "Penguins swim."}
        assert (
            refusal(alice.send("POST", f"{memory}/records", body), 400, "invalid_input").error.param == "type"
        )


@pytest.mark.requirement("ME-9-01", "ME-9-02", "ME-12-04", "ME-12-06")
def test_a_list_of_memories_replaces_the_one_before_and_an_empty_one_detaches_all(alice: Person):
    one, two, three = (alice.plant(name) for name in ("One", "Two", "Three"))
    first = {"memories": [{"memory_id": one, "access": "read"}, {"memory_id": two, "access": "read"}]}
    path = f"/v1/harnesses/{alice.harness('Desk')}/memories"
    refusal(alice.send("GET", path), 404, "memories_not_attached")
    for body in (
        first,
        {"memories": [{"memory_id": three, "access": "write", "default": True}, first["memories"][1]]},
    ):
        assert alice.put(path, body) == alice.get(path) == body
        defaults = [{"memory_id": name, "access": "write", "default": True} for name in (one, two)]
        refusal(alice.send("PUT", path, {"memories": defaults}), 422, "memory_invalid")
        assert alice.get(path) == body
    assert alice.put(path, {"memories": []}) == {"memories": []}
    refusal(alice.send("GET", path), 404, "memories_not_attached")


@pytest.mark.requirement("ME-9-06")
def test_detaching_leaves_the_grant(alice: Person):
    memory = alice.plant("Desk")
    harness = alice.harness("Desk", {"memory_id": memory, "access": "read"})
    held = [one for one in grants(alice, memory) if one["principal"] == f"harness:{harness}"]
    assert [set(one["privileges"]) for one in held] == [{"read"}]
    ok(alice.send("PUT", f"/v1/harnesses/{harness}/memories", {"memories": []}))
    refusal(alice.send("GET", f"/v1/harnesses/{harness}/memories"), 404, "memories_not_attached")
    assert [one for one in grants(alice, memory) if one["principal"] == f"harness:{harness}"] == held


def grants(owner: Person, memory: str) -> list[Json]:
    return owner.get(f"/v1/memories/{memory}/grants")["data"]


@pytest.mark.requirement("ME-9-13")
def test_a_memory_is_named_by_its_id_and_by_nothing_else(alice: Person):
    memory = alice.plant("Desk")
    harness = alice.harness("Desk", {"memory_id": memory, "access": "read"})
    for named in ("Desk", alice.principal, memory.upper(), f" {memory}"):
        task: Json = {"input": "Hi.", "metadata": {"harness_id": harness, "memory": named}}
        refusal(alice.send("POST", "/v1/responses", task), 404, "memory_not_found")
    # Nothing else a request says of whom it is for is acted on: it is named as what was left aside.
    more: Json = {"harness_id": harness, "person": "Desk", "user": "Desk"}
    done = alice.post("/v1/responses", {"input": "Reply with exactly: ok", "metadata": more})
    assert done["metadata"]["ignored_fields"] == ["metadata.person", "metadata.user"]
    assert "memory" not in done["metadata"]


@pytest.mark.requirement("ME-11-02", "ME-10.2-04")
def test_what_is_optional_is_reported_by_provider(alice: Person):
    for provider in alice.get("/v1/memories/providers")["data"]:
        assert provider["queries"].keys() >= {"named", "free"}
        for optional in ("types", "files", "snapshots"):
            assert isinstance(provider[optional], bool)
        assert provider["consolidate"] in {"runs", "trigger", False}
        assert provider["erase"] in ({"unreachable": "reported"}, False)


@pytest.mark.requirement("AR-3-01", "AR-3-02")
def test_an_object_names_its_type_and_its_id_says_it_too(alice: Person):
    memory = alice.get(f"/v1/memories/{alice.plant('Kinds')}")
    harness = alice.get(f"/v1/harnesses/{alice.harness('Kinds')}")
    response = alice.run("Reply with exactly: ok", harness["id"])
    session = alice.post(f"/v1/sessions/{response['metadata']['session_id']}/cancel", {})
    record = alice.remember(memory["id"], "Penguins swim.")
    for made, kind, prefix in (
        (memory, "memory", "hmem_"),
        (record, "memory.record", "hrec_"),
        (harness, "harness", "chrn_"),
        (response, "response", "resp_"),
        (session, "session", "hsess"),
    ):
        assert (made["object"], made["id"][: len(prefix)]) == (kind, prefix)


@pytest.mark.requirement("AR-4-02", "AR-4-04")
def test_without_accept_the_answer_is_json(alice: Person):
    memory = alice.plant("Media")
    for path in ("/v1/uhp", "/v1/memories", f"/v1/memories/{memory}", "/v1/harnesses", "/v1/nowhere"):
        with httpx.Client(base_url=alice.url) as client:
            asked = client.build_request("GET", path, headers={"Authorization": f"Bearer {alice.token}"})
            del asked.headers["accept"]
            answer = client.send(asked)
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.json()


@pytest.mark.requirement("AR-1-01", "AR-1-02", "AR-6-01")
def test_a_task_needs_no_harness_and_its_answer_shows_no_machinery(alice: Person):
    streamed = [alice.stream("Reply with exactly: ok", alice.harness("Desk")).response]
    plain = alice.post("/v1/responses", {"input": "Reply with exactly: ok"})
    for response in (plain, *streamed):
        assert response["metadata"].keys() == {"session_id", "harness_id"}
        text = str(response)
        assert not any(
            word in text for word in ("127.0.0.1", "localhost", "pid", "/home", "runner", "worker")
        )
    assert plain.keys() == streamed[0].keys()


@pytest.mark.requirement("SU-harnesses-09")
def test_a_disabled_tool_is_kept_and_withheld_from_the_agent(alice: Person):
    memory = alice.plant("Desk")
    entry = {"memory_id": memory, "access": "write", "default": True}
    harness = alice.harness("Desk", entry, disabled_tools=["memory_remember"])
    assert alice.get(f"/v1/harnesses/{harness}")["disabledTools"] == ["memory_remember"]
    done = alice.run("Remember: Owls fly at night.", harness)
    assert done["status"] == "completed"
    assert "fact" not in {one["type"] for one in alice.records(memory)}
    free = alice.harness("Free", entry)
    alice.run("Remember: Owls fly at night.", free)
    assert "fact" in {one["type"] for one in alice.records(memory)}


@pytest.mark.requirement("ME-9.1-06")
def test_what_was_placed_is_recorded_in_tokens_by_memory(alice: Person):
    memory = alice.plant("Desk")
    alice.post(f"/v1/memories/{memory}/records", {"type": "note", "content": "Ring twice."})
    done = alice.run("Reply with exactly: ok", alice.harness("Desk", {"memory_id": memory, "access": "read"}))
    (primed,) = done["metadata"]["grovekeeper_primed"]
    assert primed["memory_id"] == memory
    assert primed["tokens"] > 0
    assert primed["tokenizer"] == "o200k_base"


@pytest.mark.requirement("ME-2-07", "ME-2-11")
def test_a_memory_is_made_of_what_was_given_and_needs_a_name_only(alice: Person):
    (native,) = [one for one in alice.get("/v1/memories/providers")["data"] if one["id"] == "native"]
    bare = alice.post("/v1/memories", {"name": "Bare"})
    assert (bare["name"], bare["description"], bare["parent_id"], bare["restricted"]) == (
        "Bare",
        "",
        None,
        False,
    )
    given: Json = {
        "name": "Whole",
        "description": "All that can be said.",
        "parent_id": bare["id"],
        "restricted": True,
        "provider": native["id"],
    }
    made = alice.post("/v1/memories", given)
    assert {name: made[name] for name in given} == given
    answer = alice.send("POST", "/v1/memories", given | {"provider": "nowhere"})
    refusal(answer, 422, "memory_unsupported")
    refusal(alice.send("POST", "/v1/memories", {"description": "Nameless."}), 400, "invalid_input")


@pytest.mark.requirement("ME-2-03")
def test_what_the_server_writes_of_a_memory_cannot_be_supplied(alice: Person):
    forged: Json = {
        "id": "hmem_mine",
        "ancestors": ["hmem_other"],
        "privileges": ["read"],
        "records": {"count": 7},
        "createdAt": 1,
        "updatedAt": 1,
    }
    made = alice.post(
        "/v1/memories", {"name": "Mine", "description": "All mine.", "restricted": True, **forged}
    )
    assert (made["name"], made["description"], made["restricted"]) == ("Mine", "All mine.", True)
    for memory in (made, alice.put(f"/v1/memories/{made['id']}", {"description": "Still mine.", **forged})):
        assert not {name for name in forged if memory[name] == forged[name]}


VOCABULARY = {
    *(
        "response.created",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ),
    *("response.output_item.added", "response.output_item.done"),
    *("response.content_part.added", "response.content_part.done"),
    *("response.output_text.delta", "response.output_text.done", "response.output_text.annotation.added"),
    *("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
    "response.reasoning_summary_text.delta",
    *("response.function_call_arguments.delta", "response.function_call_arguments.done", "error"),
}


@pytest.mark.requirement("SU-streaming-08")
def test_only_events_of_the_vocabulary_are_streamed(alice: Person):
    harness = alice.harness("Desk", {"memory_id": alice.plant("Desk"), "access": "write", "default": True})
    for text in ("Remember: Owls fly at night.", "Recall: What do owls do?", "Reply with exactly: ok"):
        assert {event["type"] for event in alice.stream(text, harness).events} <= VOCABULARY
