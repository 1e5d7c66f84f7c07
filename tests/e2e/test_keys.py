"""``Idempotency-Key`` on every write of the Memories chapter, over HTTP."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person

MISMATCH = (422, "grovekeeper_idempotency_mismatch")


@dataclass(frozen=True)
class Place:
    """Somewhere to write."""

    memory: str
    record: str
    grant: str


@dataclass(frozen=True)
class Write:
    """A write, and how it is another one. ``effects`` counts what it did."""

    method: str
    path: str
    body: Json | None
    other: Json
    effects: Callable[[Person, Place], int]


def _versions(caller: Person, at: Place) -> int:
    return len(caller.get(f"/v1/memories/{at.memory}/records/{at.record}/history")["data"]) - 1


def _closed(caller: Person, at: Place) -> int:
    status = caller.send("GET", f"/v1/memories/{at.memory}/records/{at.record}")
    return int(status.status_code == 404 or status.json()["status"] == "forgotten")


def _grants(caller: Person, at: Place) -> int:
    return len(caller.get(f"/v1/memories/{at.memory}/grants")["data"]) - 2


def _written(kind: str) -> Callable[[Person, Place], int]:
    return lambda caller, at: len(
        [one for one in caller.records(at.memory, f"types={kind}") if one["id"] != at.record]
    )


def _named(caller: Person, at: Place) -> int:
    return int(caller.get(f"/v1/memories/{at.memory}")["name"] == "Renamed")


def _deleted(caller: Person, at: Place) -> int:
    return int(caller.send("GET", f"/v1/memories/{at.memory}").status_code == 404)


def _children(caller: Person, at: Place) -> int:
    return len(caller.listing(f"parent={at.memory}"))


WRITES = {
    "create": Write(
        "POST", "/v1/memories", {"name": "Child", "parent_id": "{memory}"}, {"name": "Another"}, _children
    ),
    "update": Write("PUT", "/v1/memories/{memory}", {"name": "Renamed"}, {"name": "Otherwise"}, _named),
    "delete": Write("DELETE", "/v1/memories/{memory}", None, {"a": 1}, _deleted),
    "grant": Write(
        "POST",
        "/v1/memories/{memory}/grants",
        {"principal": "person:carol", "privileges": ["read"]},
        {"privileges": ["write"]},
        _grants,
    ),
    "revoke": Write(
        "DELETE", "/v1/memories/{memory}/grants/{grant}", None, {"a": 1}, lambda p, at: -_grants(p, at)
    ),
    "remember": Write(
        "POST",
        "/v1/memories/{memory}/records",
        {"type": "fact", "content": "Once."},
        {"content": "Twice."},
        _written("fact"),
    ),
    "observe": Write(
        "POST",
        "/v1/memories/{memory}/observe",
        {"episodes": [{"content": "Hello there."}]},
        {"episodes": [{"content": "Good bye."}]},
        _written("episode"),
    ),
    "revise": Write(
        "PATCH",
        "/v1/memories/{memory}/records/{record}",
        {"content": "Revised."},
        {"content": "Otherwise."},
        _versions,
    ),
    "forget": Write("DELETE", "/v1/memories/{memory}/records/{record}", None, {"a": 1}, _closed),
    "erase": Write(
        "POST",
        "/v1/memories/{memory}/erase",
        {"record_ids": ["{record}"]},
        {"record_ids": ["{record}", "{record}"]},
        _closed,
    ),
}


def _place(caller: Person) -> Place:
    memory = caller.plant("Place")
    return Place(memory, caller.fact(memory), str(caller.grant(memory, "person:dora", "read")["id"]))


def _filled(value: object, at: Place) -> object:
    if isinstance(value, str):
        return value.format(memory=at.memory, record=at.record, grant=at.grant)
    if isinstance(value, list):
        return [_filled(one, at) for one in cast("list[object]", value)]
    return value


def _request(write: Write, at: Place, changed: bool = False) -> tuple[str, str, Json | None]:
    body = (write.body or {}) | (write.other if changed else {})
    filled = {name: _filled(value, at) for name, value in body.items()}
    return write.method, str(_filled(write.path, at)), filled or None


def _settled(answer: Json) -> Json:
    """An answer without how far the job of an observe has come since."""
    return {"job": {"id": answer["job"]["id"]}} if "job" in answer else answer


@pytest.mark.requirement("ME-5.1-07")
@pytest.mark.parametrize("name", WRITES)
def test_a_write_sent_again_under_its_key_answers_the_same_and_is_done_once(alice: Person, name: str):
    write, at, key = WRITES[name], _place(alice), uuid.uuid4().hex
    request = _request(write, at)
    first = alice.call(*request, key=key)
    assert write.effects(alice, at) == 1
    again = [alice.call(*request, key=key) for _ in range(2)]
    assert [_settled(one) for one in again] == [_settled(first)] * 2
    assert write.effects(alice, at) == 1
    refused = alice.send(*_request(write, at, changed=True), headers={"Idempotency-Key": key})
    # Of a memory that is gone, a key does not tell what else it was used for.
    expected = (404, "memory_not_found") if name == "delete" else MISMATCH
    assert (refused.status_code, refused.json()["error"]["code"]) == expected
    assert write.effects(alice, at) == 1


@pytest.mark.requirement("ME-5.1-07")
@pytest.mark.parametrize("name", WRITES)
def test_ten_of_a_write_at_once_under_one_key_are_one_write_with_one_answer(alice: Person, name: str):
    write, at, key = WRITES[name], _place(alice), uuid.uuid4().hex
    request, at_once = _request(write, at), threading.Barrier(10)

    def send() -> Json:
        at_once.wait()
        return _settled(alice.call(*request, key=key))

    with ThreadPoolExecutor(10) as pool:
        answers = [future.result() for future in [pool.submit(send) for _ in range(10)]]
    assert answers == [answers[0]] * 10
    assert write.effects(alice, at) == 1


@pytest.mark.parametrize("name", WRITES)
def test_a_key_is_its_principals_own_and_of_one_route(alice: Person, bob: Person, name: str):
    write, mine, his, key = WRITES[name], _place(alice), _place(bob), uuid.uuid4().hex
    alice.call(*_request(write, mine), key=key)
    bob.call(*_request(write, his), key=key)
    assert (write.effects(alice, mine), write.effects(bob, his)) == (1, 1)
    elsewhere = _place(alice)
    for other in WRITES.values():
        if other is not write:
            answer = alice.send(*_request(other, elsewhere), headers={"Idempotency-Key": key})
            assert answer.status_code != 422, answer.text


@pytest.mark.parametrize("name", [one for one in WRITES if one not in ("create", "delete")])
def test_who_lost_all_access_is_answered_as_for_a_memory_that_never_was(
    alice: Person, bob: Person, name: str
):
    write, at, key = WRITES[name], _place(alice), uuid.uuid4().hex
    held = alice.give(at.memory, bob, "read", "write", "create", "delete")
    request = _request(write, at)
    bob.call(*request, key=key)
    alice.delete(f"/v1/memories/{at.memory}/grants/{held}")
    assert alice.send("GET", f"/v1/memories/{at.memory}").status_code == 200
    headers = {"Idempotency-Key": key}
    hidden = bob.send(*request, headers=headers)
    unknown = bob.send(*_request(write, Place(f"hmem_{uuid.uuid4().hex}", at.record, at.grant)))
    told = [one.json()["error"] | {"detail": None} for one in (hidden, unknown)]
    assert told[0] == told[1]
    assert (hidden.status_code, told[0]["code"]) == (404, "memory_not_found")
    alice.delete(f"/v1/memories/{at.memory}")
    assert bob.send(*request, headers=headers).json()["error"] | {"detail": None} == told[0]


def test_a_created_memory_that_is_gone_is_not_made_again_by_a_late_repeat(alice: Person):
    key, body = uuid.uuid4().hex, {"name": "Short-lived"}
    made = alice.post("/v1/memories", body, key)["id"]
    alice.delete(f"/v1/memories/{made}")
    late = alice.send("POST", "/v1/memories", body, {"Idempotency-Key": key})
    assert (late.status_code, late.json()["error"]["code"]) == (404, "memory_not_found")
    assert made not in {one["id"] for one in alice.listing()}
