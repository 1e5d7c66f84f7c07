"""A memory as it stood: names for instants, and ``as_of`` wherever a read takes it (Memories, section 5.3)."""

import uuid
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person, envelope


def snapshot(who: Person, memory: str, name: str, **more: object) -> Json:
    return who.post(f"/v1/memories/{memory}/snapshots", {"name": name, **more})


def contents(who: Person, memory: str, at: str) -> list[str]:
    """The texts listed as of an instant."""
    listed = who.get(f"/v1/memories/{memory}/records?include=all&as_of={quote(at)}")
    return [one["content"] for one in listed["data"]]


@pytest.mark.requirement("ME-5.3-05", "ME-5.3-06")
def test_a_snapshot_names_an_instant_that_is_read_as_of(alice: Person):
    memory = alice.plant("Sales")
    record = alice.fact(memory, "Acme renews in March.")
    made = snapshot(alice, memory, "Before the call", message="Ruth asked.")
    assert made == {
        "id": made["id"],
        "object": "memory.snapshot",
        "memory_id": memory,
        "name": "Before the call",
        "message": "Ruth asked.",
        "at": made["at"],
        "written_by": {"kind": "person", "id": alice.principal.removeprefix("person:")},
    }
    assert made["id"].startswith("hsnap_")
    path = f"/v1/memories/{memory}/records/{record}"
    alice.call("PATCH", path, {"content": "Acme renews in May."})
    alice.fact(memory, "Bolt signed.")
    alice.delete(path)
    at = made["at"]
    then = alice.get(f"{path}?as_of={quote(at)}")
    assert (then["content"], then["version"], then["status"]) == ("Acme renews in March.", 1, "active")
    assert then["time"]["invalidated_at"] is None
    assert contents(alice, memory, at) == ["Acme renews in March."]
    found = alice.post(f"/v1/memories/{memory}/recall", {"text": "renews", "as_of": at})
    assert [one["record"]["content"] for one in found["results"]] == ["Acme renews in March."]
    assert found["degraded"] == []
    history = alice.get(f"{path}/history?as_of={quote(at)}")["data"]
    assert [(one["version"], one["status"]) for one in history] == [(1, "active")]
    assert len(alice.get(f"{path}/history")["data"]) == 2


def test_snapshots_are_listed_newest_first_and_forgotten_by_name_only(alice: Person):
    memory = alice.plant("Sales")
    ids = [snapshot(alice, memory, f"Number {n}")["id"] for n in range(3)]
    path = f"/v1/memories/{memory}/snapshots"
    first = alice.get(f"{path}?limit=2")
    rest = alice.get(f"{path}?limit=2&cursor={first['next_cursor']}")
    assert [one["id"] for one in first["data"] + rest["data"]] == ids[::-1]
    assert rest["next_cursor"] is None
    kept = alice.get(f"{path}/{ids[0]}")
    assert alice.delete(f"{path}/{ids[0]}") == kept
    gone = alice.send("GET", f"{path}/{ids[0]}")
    assert (gone.status_code, envelope(gone)["code"]) == (404, "grovekeeper_not_found")
    assert snapshot(alice, memory, "Number 0")["id"] not in ids


def test_a_name_stands_for_one_instant_of_a_memory(alice: Person):
    memory, other = alice.plant("Sales"), alice.plant("Support")
    snapshot(alice, memory, "Monday")
    again = alice.send("POST", f"/v1/memories/{memory}/snapshots", {"name": "Monday"})
    assert (again.status_code, envelope(again)["code"], envelope(again)["param"]) == (
        422,
        "memory_invalid",
        "name",
    )
    snapshot(alice, other, "Monday")
    for body in ({}, {"name": ""}, {"name": " "}, {"name": "x" * 201}, {"name": "x", "message": "x" * 4001}):
        assert alice.send("POST", f"/v1/memories/{memory}/snapshots", body).status_code == 400


def test_a_snapshot_is_not_reached_through_another_memory(alice: Person):
    memory, other = alice.plant("Sales"), alice.plant("Support")
    made = snapshot(alice, memory, "Monday")["id"]
    for method in ("GET", "DELETE"):
        refused = alice.send(method, f"/v1/memories/{other}/snapshots/{made}")
        assert (refused.status_code, envelope(refused)["code"]) == (404, "grovekeeper_not_found")


@pytest.mark.requirement("ME-5.1-07")
def test_a_repeat_under_a_key_names_no_second_instant(alice: Person):
    memory, path = alice.plant("Sales"), "/v1/memories/{}/snapshots"
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"name": "Monday"}
    first = alice.send("POST", path.format(memory), body, key)
    assert alice.send("POST", path.format(memory), body, key).text == first.text
    assert len(alice.get(path.format(memory))["data"]) == 1
    other = alice.send("POST", path.format(memory), {"name": "Tuesday"}, key)
    assert (other.status_code, envelope(other)["code"]) == (422, "grovekeeper_idempotency_mismatch")
    one, key = f"{path.format(memory)}/{first.json()['id']}", {"Idempotency-Key": uuid.uuid4().hex}
    assert alice.send("DELETE", one, None, key).text == alice.send("DELETE", one, None, key).text


def test_a_snapshot_goes_with_its_memory(alice: Person):
    memory = alice.plant("Sales")
    made = snapshot(alice, memory, "Monday")["id"]
    alice.delete(f"/v1/memories/{memory}")
    assert (
        envelope(alice.send("GET", f"/v1/memories/{memory}/snapshots/{made}"))["code"] == "memory_not_found"
    )


@pytest.mark.parametrize("offset", ["Z", "+00:00", "+05:30", "-08:00"])
def test_an_instant_is_the_same_in_every_offset(alice: Person, offset: str):
    memory = alice.plant("Sales")
    alice.fact(memory, "Before.")
    at = datetime.fromisoformat(snapshot(alice, memory, "Now")["at"])
    alice.fact(memory, "After.")
    sign, hours, minutes = offset[:1], offset[1:3] or "0", offset[4:6] or "0"
    shift = timedelta(hours=int(hours) if offset != "Z" else 0, minutes=int(minutes) if offset != "Z" else 0)
    local = at + (shift if sign == "+" else -shift if sign == "-" else timedelta())
    assert contents(alice, memory, local.strftime("%Y-%m-%dT%H:%M:%S.%f") + offset) == ["Before."]


def test_as_of_is_exact_to_the_microsecond_and_takes_any_year(alice: Person):
    memory = alice.plant("Sales")
    record = alice.get(f"/v1/memories/{memory}/records/{alice.fact(memory, 'Now.')}")
    written = datetime.fromisoformat(record["time"]["written_at"])
    before = (written - timedelta(microseconds=1)).isoformat()
    assert contents(alice, memory, written.isoformat()) == ["Now."]
    assert contents(alice, memory, before) == []
    assert contents(alice, memory, "0001-01-01T00:00:00Z") == []
    assert contents(alice, memory, "9999-12-31T23:59:59.999999Z") == ["Now."]
    path = f"/v1/memories/{memory}/records/{record['id']}"
    for address in (path, f"{path}/history"):
        early = alice.send("GET", f"{address}?as_of={quote(before)}")
        assert (early.status_code, envelope(early)["code"]) == (404, "memory_record_not_found")
    for odd in ("0001-01-01T00:00:00+10:00", "yesterday", "2026-10-01T00:00:00"):
        assert alice.send("GET", f"{path}/history?as_of={quote(odd)}").status_code == 400


def test_a_memory_that_moved_since_is_read_where_it_is(alice: Person):
    parent, other = alice.plant("Company"), alice.plant("Archive")
    memory = alice.plant("Sales", parent)
    alice.fact(memory, "Acme renews.")
    at = snapshot(alice, memory, "Before the move")["at"]
    alice.fact(memory, "Bolt signed.")
    alice.put(f"/v1/memories/{memory}", {"parent_id": other, "name": "Old sales"})
    assert contents(alice, memory, at) == ["Acme renews."]
    recall = {"filters": {"field": "type", "op": "eq", "value": "fact"}, "as_of": at, "depth": 2}
    gone = alice.post(f"/v1/memories/{parent}/recall", recall)
    assert (gone["results"], gone["degraded"]) == ([], ["as_of:structure_not_kept"])
    here = alice.post(f"/v1/memories/{other}/recall", recall)
    assert [(one["record"]["content"], one["memory"]["name"]) for one in here["results"]] == [
        ("Acme renews.", "Old sales")
    ]
    assert here["degraded"] == ["as_of:structure_not_kept"]
    shallow = alice.post(f"/v1/memories/{other}/recall", {**recall, "depth": 0})
    assert shallow["degraded"] == []
