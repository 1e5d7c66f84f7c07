"""Consolidation runs over HTTP (Memories, section 9.2): started, read, listed, undone, and whose they are."""

import psycopg
import pytest

from tests.e2e.people import Person, envelope
from tests.e2e.runs import consolidated, ended
from tests.fixtures.stack import Stack


def doubled(who: Person, pairs: int = 1) -> str:
    """A memory in which facts are stated twice."""
    memory = who.plant("Sales")
    for n in range(pairs):
        for _ in range(2):
            who.fact(memory, f"Account {n} renews in March.")
    return memory


@pytest.mark.requirement("ME-9.2-01", "ME-9.2-02", "ME-9.2-03")
def test_a_run_is_read_as_the_chapter_prints_it(alice: Person):
    memory = doubled(alice)
    done = consolidated(alice, memory)
    assert done["id"].startswith("hcon_")
    assert isinstance(done["started_at"], int)
    assert done["finished_at"] >= done["started_at"]
    assert done["read"]["episodes"] == 0
    assert done["read"]["through"].endswith("Z")
    assert {
        name: value for name, value in done.items() if name not in ("started_at", "finished_at", "read", "id")
    } == {
        "object": "memory.consolidation",
        "memory_id": memory,
        "status": "completed",
        "trigger": "api",
        "changes": {"created": 0, "superseded": 1, "forgotten": 0},
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "budget": {"limit": 600, "unit": "seconds", "exhausted": False},
        "written_by": {"kind": "consolidator", "id": "native"},
        "error": "",
    }
    again = consolidated(alice, memory, {"budget": {"limit": 9, "unit": "tokens"}})
    runs = f"/v1/memories/{memory}/consolidations"
    first = alice.get(f"{runs}?limit=1")
    assert [one["id"] for one in first["data"]] == [again["id"]]
    assert alice.get(f"{runs}?limit=1&cursor={first['next_cursor']}")["data"] == [done]
    (change,) = alice.get(f"{runs}/{done['id']}/changes")["data"]
    assert (change["change"], change["reason"], change["reverted"]) == ("superseded", "duplicate", False)
    assert change["record"]["written_by"] == done["written_by"]
    (link,) = change["record"]["references"]
    assert (link["rel"], link["record_id"], link.get("available", True)) == (
        "duplicate_of",
        change["replaced_by"],
        True,
    )


@pytest.mark.requirement("ME-9.2-04")
def test_revert_appends_and_answers_the_same_again(alice: Person):
    memory = doubled(alice, 3)
    listed = alice.get(f"/v1/memories/{memory}/records?limit=50")["data"]
    done = consolidated(alice, memory)
    path = f"/v1/memories/{memory}/consolidations/{done['id']}"
    page = alice.get(f"{path}/changes?limit=2")
    rest = alice.get(f"{path}/changes?limit=2&cursor={page['next_cursor']}")
    gone = [one["record"]["id"] for one in page["data"] + rest["data"]]
    assert (len(page["data"]), len(rest["data"]), rest["next_cursor"]) == (2, 1, None)
    alice.delete(f"/v1/memories/{memory}/records/{gone[0]}")
    undone = alice.post(f"{path}/revert", {}, key="undo")
    assert undone["reversal"]["by"] == {"kind": "person", "id": alice.principal.removeprefix("person:")}
    assert (undone["reversal"]["restored"], undone["reversal"]["left_count"]) == (2, 1)
    assert undone["reversal"]["left"] == [{"record_id": gone[0], "reason": "forgotten"}]
    for key in ("undo", None):
        assert alice.post(f"{path}/revert", {}, key=key) == undone
    assert alice.get(path) == undone
    now = {one["id"]: one for one in alice.get(f"/v1/memories/{memory}/records?limit=50")["data"]}
    for one in listed:
        if one["id"] != gone[0]:
            for same in ("content", "attributes", "references", "written_by", "status"):
                assert now[one["id"]][same] == one[same]
    history = alice.get(f"/v1/memories/{memory}/records/{gone[1]}/history")["data"]
    assert [one["written_by"]["kind"] for one in history] == ["person", "consolidator", "person"]


@pytest.mark.requirement("ME-9.2-06")
def test_a_budget_is_checked_and_kept(alice: Person):
    memory = doubled(alice, 3)
    for budget in (
        {"limit": 0, "unit": "tokens"},
        {"limit": 1, "unit": "cats"},
        {"limit": 86_401, "unit": "seconds"},
        {},
    ):
        refused = alice.send("POST", f"/v1/memories/{memory}/consolidations", {"budget": budget})
        assert (refused.status_code, envelope(refused)["code"]) == (400, "invalid_input"), budget
    stopped = consolidated(alice, memory, {"budget": {"limit": 2, "unit": "records"}})
    assert (stopped["status"], stopped["budget"]["exhausted"], stopped["changes"]["superseded"]) == (
        "stopped",
        True,
        1,
    )
    on = consolidated(alice, memory)
    assert (on["status"], on["changes"]["superseded"]) == ("completed", 2)
    assert on["read"]["through"] > stopped["read"]["through"]


def test_a_repeated_start_is_one_run_and_another_body_is_refused(alice: Person):
    memory, key = doubled(alice), "start"
    runs = f"/v1/memories/{memory}/consolidations"
    first = alice.post(runs, {}, key=key)
    assert alice.post(runs, {}, key=key)["id"] == first["id"]
    refused = alice.send(
        "POST", runs, {"budget": {"limit": 1, "unit": "tokens"}}, headers={"Idempotency-Key": key}
    )
    assert (refused.status_code, envelope(refused)["code"]) == (422, "grovekeeper_idempotency_mismatch")
    ended(alice, memory, first["id"])
    assert len(alice.get(runs)["data"]) == 1
    alice.delete(f"/v1/memories/{memory}")


def test_a_run_of_another_memory_is_no_run_of_this_one(alice: Person):
    memory, other = doubled(alice), alice.plant("Other")
    run = consolidated(alice, memory)["id"]
    path = f"/v1/memories/{other}/consolidations"
    for method, rest in (("GET", ""), ("GET", "/changes"), ("POST", "/revert")):
        for asked in (run, f"hcon_{'0' * 32}", "no-id"):
            refused = alice.send(method, f"{path}/{asked}{rest}")
            assert (refused.status_code, envelope(refused)["code"]) == (404, "grovekeeper_not_found")


def test_after_an_erase_the_changes_say_nothing_of_it(alice: Person):
    memory = doubled(alice)
    run = consolidated(alice, memory)["id"]
    path = f"/v1/memories/{memory}/consolidations/{run}/changes"
    (change,) = alice.get(path)["data"]
    stands, closed = change["replaced_by"], change["record"]["id"]
    erased = alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [stands]})
    assert (set(erased["erased"]), erased["unreachable"]) == ({stands, closed}, [])
    assert alice.get(path)["data"] == []
    reversal = alice.post(path.replace("/changes", "/revert"), {})["reversal"]
    assert (reversal["restored"], reversal["left"]) == (0, [])
    assert alice.records(memory, "include=all") == []


def test_after_an_erase_the_changes_name_what_is_gone_no_more(alice: Person):
    memory = alice.plant("Sales")
    for day, town in enumerate(("Berlin", "Oslo")):
        said = {"content": f"I live in {town} with Tom.", "attributes": {"speaker": "Anna"}}
        time = {"valid_from": f"2026-10-0{day + 1}T09:00:00Z"}
        job = alice.post(f"/v1/memories/{memory}/observe", {"episodes": [{**said, "time": time}]})["job"][
            "id"
        ]
        alice.finished(memory, job)
    path = f"/v1/memories/{memory}/consolidations/{consolidated(alice, memory)['id']}/changes"
    (change,) = alice.get(path)["data"]
    erased = alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [change["replaced_by"]]})["erased"]
    assert erased == [change["replaced_by"]]
    (left,) = alice.get(path)["data"]
    assert left["replaced_by"] is None
    assert left["record"]["references"][-1]["available"] is False
    alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [change["record"]["id"]]})
    assert alice.get(path)["data"] == []


def test_a_run_that_finds_no_vectors_says_what_it_left(stack: Stack, alice: Person):
    memory, other = alice.plant("Sales"), alice.plant("Other")
    for one in (memory, other):
        for _ in range(2):
            alice.fact(one, "Account 1 renews in March.")
        said = {"content": "I live in the old town of Berlin.", "attributes": {"speaker": "Anna"}}
        job = alice.post(f"/v1/memories/{one}/observe", {"episodes": [said]})["job"]["id"]
        alice.finished(one, job)
    url = stack.state().database_url
    assert url is not None
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("delete from provider.embedding where memory_id = %s", (memory,))
    done = consolidated(alice, memory)
    assert (done["status"], done["changes"]["superseded"]) == ("completed", 1)
    assert done["degraded"] == ["changed:embedding_pending", "similar:embedding_pending"]
    assert "degraded" not in consolidated(alice, other)
