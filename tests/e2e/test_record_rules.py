"""The rules of records over HTTP: bytes kept, versions in order, references that say nothing (sections 4, 5)."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.caller import Caller, Json
from tests.e2e.people import Person

ODD = (
    b'{ "b":1.10,"a":-0.0, "big":123456789012345678901234567890,"e":1e400 ,"n":null,"a":2,'
    b'"\\u00e9":"\\u0000\\/","deep":{"x":[1.0,{"y":[ ]}]} }'
)
"""Attributes that come back changed from whatever parses and prints them."""


def raw(caller: Caller, method: str, path: str, body: bytes | None = None) -> bytes:
    answer = caller.http.request(method, path, content=body)
    assert answer.is_success, answer.text
    return answer.content


def revised_at_once(caller: Caller, path: str, headers: dict[str, str] | None = None) -> list[httpx.Response]:
    """Twenty revisions, begun together."""
    with ThreadPoolExecutor(20) as pool:
        begun = [
            pool.submit(caller.send, "PATCH", path, {"content": f"Text {number}."}, headers)
            for number in range(20)
        ]
        return [one.result() for one in begun]


def test_attributes_are_the_same_bytes_in_every_read(alice: Person):
    memory = alice.plant("Bytes")
    path = f"/v1/memories/{memory}"
    written = raw(
        alice, "POST", f"{path}/records", b'{"type":"fact","content":"Odd bytes.","attributes":' + ODD + b"}"
    )
    assert ODD in written
    record = alice.records(memory)[0]["id"]
    other = b'{"z" : 1 }'
    assert other in raw(alice, "PATCH", f"{path}/records/{record}", b'{"attributes":' + other + b"}")
    revised = raw(
        alice, "PATCH", f"{path}/records/{record}", b'{"attributes":' + ODD + b',"content":"Odd again."}'
    )
    assert ODD in revised
    for method, where, body in (
        ("GET", f"{path}/records/{record}", None),
        ("GET", f"{path}/records", None),
        ("GET", f"{path}/records?include=all", None),
        ("POST", f"{path}/recall", b'{"query":"odd bytes"}'),
    ):
        assert ODD in raw(alice, method, where, body), where
    history = raw(alice, "GET", f"{path}/records/{record}/history")
    assert (history.count(ODD), history.count(other)) == (2, 1)
    job = alice.http.post(
        f"{path}/observe", content=b'{"episodes":[{"content":"They are odd.","attributes":' + ODD + b"}]}"
    ).json()["job"]["id"]
    alice.finished(memory, job)
    assert ODD in raw(alice, "GET", f"{path}/jobs/{job}")
    assert ODD in raw(alice, "DELETE", f"{path}/records/{record}")


@pytest.mark.parametrize("odd", [b'"\\ud800"', b'"\\udc00\\ud800"'])
def test_half_a_surrogate_pair_is_refused_and_not_kept(alice: Person, odd: bytes):
    memory = alice.plant("Bytes")
    body = b'{"type":"fact","content":"a","attributes":{"x":' + odd + b"}}"
    answer = alice.http.post(f"/v1/memories/{memory}/records", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    assert alice.records(memory) == []


@pytest.mark.requirement("ME-5.3-01", "ME-4-05", "SU-memories-04")
def test_twenty_revisions_at_once_are_twenty_versions_and_one_latest(alice: Person):
    memory = alice.plant("Versions")
    path = f"/v1/memories/{memory}/records/{alice.fact(memory)}"
    answers = revised_at_once(alice, path)
    assert sorted(one.json()["version"] for one in answers) == list(range(2, 22))
    history = alice.get(f"{path}/history")["data"]
    assert [one["version"] for one in history] == list(range(1, 22))
    assert [one["status"] for one in history] == ["superseded"] * 20 + ["active"]
    times = [one["time"]["written_at"] for one in history]
    assert times == sorted(set(times))
    assert [one["time"]["invalidated_at"] for one in history] == [*times[1:], None]


def test_of_twenty_that_expect_the_same_version_one_wins(alice: Person):
    memory = alice.plant("Versions")
    path = f"/v1/memories/{memory}/records/{alice.fact(memory)}"
    answers = revised_at_once(alice, path, {"If-Match": '"1"'})
    assert sorted(one.status_code for one in answers) == [200] + [409] * 19
    assert {one.json()["error"]["code"] for one in answers if one.status_code == 409} == {
        "grovekeeper_conflict"
    }
    assert len(alice.get(f"{path}/history")["data"]) == 2


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize(
    "etag", ['W/"1"', '"1', '1"', "'1'", '"1", "2"', "0", '"0"', '"-1"', '"01"', '"x"', '"9999999999"']
)
def test_an_etag_that_names_no_one_version_is_refused(alice: Person, method: str, etag: str):
    memory = alice.plant("Versions")
    path = f"/v1/memories/{memory}/records/{alice.fact(memory)}"
    answer = alice.send(
        method, path, {"content": "Other."} if method == "PATCH" else None, {"If-Match": etag}
    )
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "If-Match")
    assert alice.get(path)["version"] == 1
    assert alice.get(path)["status"] == "active"


@pytest.mark.parametrize("etag", ['"1"', "1", "*"])
def test_an_etag_that_holds_lets_a_change_through(alice: Person, etag: str):
    memory = alice.plant("Versions")
    path = f"/v1/memories/{memory}/records/{alice.fact(memory)}"
    assert alice.send("PATCH", path, {"content": "Other."}, {"If-Match": etag}).headers["etag"] == '"2"'
    stale = alice.send("DELETE", path, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["error"]["detail"]["version"]) == (409, 2)
    assert alice.send("DELETE", path, headers={"If-Match": '"2"'}).json()["status"] == "forgotten"


@pytest.mark.requirement("ME-5-02")
def test_a_cursor_goes_on_in_its_own_listing_and_in_no_other(alice: Person):
    memory, other = alice.plant("Pages"), alice.plant("Others")
    for number in range(3):
        alice.fact(memory, f"Fact {number}.")
        alice.fact(other, f"Fact {number}.")
    cursor = alice.get(f"/v1/memories/{memory}/records?limit=1")["next_cursor"]
    assert len(alice.get(f"/v1/memories/{memory}/records?limit=2&cursor={cursor}")["data"]) == 2
    for path in (f"{memory}/records?types=fact", f"{memory}/records?include=all", f"{other}/records?limit=1"):
        answer = alice.send("GET", f"/v1/memories/{path}&cursor={cursor}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "cursor")


def _gone(alice: Person, bob: Person) -> dict[str, Json]:
    """Targets that cannot be followed, each for another reason."""
    here, hidden, deleted = alice.plant("Here"), bob.plant("Hidden"), alice.plant("Deleted")
    erased = alice.fact(here, "Erased.")
    targets = {
        "hidden": {"memory_id": hidden, "record_id": bob.fact(hidden)},
        "hidden, no such record": {"memory_id": hidden, "record_id": f"hrec_{uuid.uuid4().hex}"},
        "deleted": {"memory_id": deleted, "record_id": alice.fact(deleted)},
        "erased": {"memory_id": here, "record_id": erased},
        "never was": {"memory_id": f"hmem_{uuid.uuid4().hex}", "record_id": f"hrec_{uuid.uuid4().hex}"},
        "in another memory": {"memory_id": here, "record_id": alice.fact(alice.plant("Elsewhere"))},
    }
    alice.post(f"/v1/memories/{here}/erase", {"record_ids": [erased]})
    alice.delete(f"/v1/memories/{deleted}")
    return targets


@pytest.mark.requirement("ME-4.2-02", "ME-4.2-04", "ME-13-05")
def test_a_reference_that_cannot_be_followed_says_the_same_for_every_reason_in_every_read(
    alice: Person, bob: Person
):
    targets = _gone(alice, bob)
    memory = alice.plant("Reading")
    path = f"/v1/memories/{memory}"
    there = alice.fact(memory, "It is there.")
    followed = {"memory_id": memory, "record_id": there}
    stated = [{**one, "rel": "about"} for one in [*targets.values(), followed]]
    answered = [{**one, "available": False} for one in targets.values()]
    answered.append({"rel": "about", **followed})
    made = alice.post(f"{path}/records", {"type": "note", "content": "Pointing.", "references": stated})
    record = made["id"]
    body = {"episodes": [{"content": "Pointing also.", "references": stated}]}
    job = alice.post(f"{path}/observe", body)["job"]["id"]
    alice.finished(memory, job)
    (hit,) = alice.recall(memory, "", filters={"field": "type", "op": "eq", "value": "note"})["results"]
    reads = {
        "remember": made,
        "get": alice.get(f"{path}/records/{record}"),
        "list": alice.records(memory, "types=note")[0],
        "history": alice.get(f"{path}/records/{record}/history")["data"][0],
        "recall": hit["record"],
        "job": alice.get(f"{path}/jobs/{job}")["records"][0],
        "as of": alice.get(f"{path}/records/{record}?as_of={made['time']['written_at']}"),
        "revise": alice.call("PATCH", f"{path}/records/{record}", {"content": "Pointing still."}),
        "forget": alice.delete(f"{path}/records/{record}"),
    }
    assert {name: one["references"] for name, one in reads.items()} == dict.fromkeys(reads, answered)
