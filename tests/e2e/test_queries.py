"""Named and free queries over HTTP (Memories, sections 6.4 and 6.5)."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.caller import Json, text_of
from tests.e2e.people import Person, envelope

ABOUT: Json = {
    "description": "Facts about one account.",
    "params": {
        "type": "object",
        "properties": {"account": {"type": "string"}, "least": {"type": "integer"}},
        "required": ["account"],
    },
    "language": "sql",
    "body": "select * from records where json_extract(attributes, '$.account') = :account"
    " and coalesce(json_extract(attributes, '$.amount') >= :least, true) order by content",
}


def free(caller: Person, memory: str, statement: str, **more: object) -> httpx.Response:
    body = {"language": "sql", "statement": statement, **more}
    return caller.http.post(f"/v1/memories/{memory}/query", json=body)


def rows(caller: Person, memory: str, statement: str, **params: object) -> list[list[object]]:
    answer = free(caller, memory, statement, params=params)
    assert answer.is_success, answer.text
    return answer.json()["rows"]


@pytest.fixture
def deals(alice: Person) -> str:
    memory = alice.plant("Deals")
    alice.fact(memory, "Acme pays 10.", attributes={"account": "acme", "amount": 10})
    alice.fact(memory, "Acme pays 20.", attributes={"account": "acme", "amount": 20})
    alice.fact(memory, "Blue pays 30.", attributes={"account": "blue", "amount": 30})
    return memory


@pytest.mark.requirement("ME-6.4-01", "ME-6.4-02", "ME-6.4-03", "ME-6.4-05", "ME-6.4-08")
def test_a_named_query_is_defined_listed_run_replaced_and_deleted(alice: Person, deals: str):
    path = f"/v1/memories/{deals}/queries"
    made = alice.put(f"{path}/about", ABOUT)
    assert (made["name"], made["object"], made["memory_id"], made["requires"]) == (
        "about",
        "memory.query",
        deals,
        "read",
    )
    assert {name: made[name] for name in ABOUT} == ABOUT
    assert made["written_by"] == {"kind": "person", "id": alice.principal.partition(":")[2]}
    assert alice.get(path) == {"data": [made], "next_cursor": None}

    found = alice.post(f"{path}/about", {"account": "acme"})
    assert [one["record"]["content"] for one in found["results"]] == ["Acme pays 10.", "Acme pays 20."]
    assert (found["degraded"], found["children"], found["abstain"]) == ([], [], False)
    assert {*found["results"][0]} == {"record", "why"}
    assert found["results"][0]["record"]["trust"] == "untrusted"
    assert len(alice.post(f"{path}/about", {"account": "acme", "least": 15})["results"]) == 1

    alice.put(f"{path}/about", ABOUT | {"body": "select count(*) as held from records"})
    assert alice.post(f"{path}/about", {"account": "acme"}) == {
        "columns": ["held"],
        "rows": [[3]],
        "degraded": [],
    }
    assert alice.http.delete(f"{path}/about").json()["name"] == "about"
    assert alice.http.post(f"{path}/about", json={"account": "acme"}).status_code == 404
    assert alice.http.delete(f"{path}/about").status_code == 404


@pytest.mark.requirement("ME-6.4-07", "ME-12-07")
def test_params_that_do_not_fit_are_refused_by_name(alice: Person, deals: str):
    path = f"/v1/memories/{deals}/queries/about"
    alice.put(path, ABOUT)
    for params in ({}, {"account": 5}, {"account": "acme", "least": "many"}):
        refused = alice.http.post(path, json=params)
        assert refused.status_code == 422
        error = envelope(refused)
        assert error["code"] == "memory_invalid"
        assert error["param"].startswith("params")
    assert alice.http.post(path, content=b"[1]").status_code == 400
    assert alice.http.post(path, content=b"").status_code == 422


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("Upper", {}, "memory_invalid"),
        ("a" * 64, {}, "memory_invalid"),
        ("fine", {"language": "cypher"}, "memory_unsupported"),
        ("fine", {"body": "delete from records"}, "memory_invalid"),
        ("fine", {"body": "select nothing from records"}, "memory_invalid"),
        ("fine", {"body": "select 1; select 2"}, "memory_invalid"),
        ("fine", {"body": " "}, "memory_invalid"),
        ("fine", {"params": {"type": "nope"}}, "memory_invalid"),
        ("fine", {"params": {"$ref": "http://127.0.0.1/x"}}, "memory_invalid"),
        ("fine", {"description": "x" * 1001}, "memory_invalid"),
    ],
)
def test_a_query_that_could_never_run_is_refused_when_it_is_defined(
    alice: Person, deals: str, name: str, change: Json, code: str
):
    refused = alice.http.put(f"/v1/memories/{deals}/queries/{name}", json=ABOUT | change)
    assert (refused.status_code, envelope(refused)["code"]) == (422, code)
    assert alice.get(f"/v1/memories/{deals}/queries")["data"] == []


@pytest.mark.requirement("ME-6.4-06")
def test_a_query_that_requires_write_is_run_by_who_may_read_and_write(alice: Person, bob: Person, deals: str):
    path = f"/v1/memories/{deals}/queries/careful"
    alice.put(path, ABOUT | {"requires": "write"})
    alice.give(deals, bob, "read")
    assert envelope(bob.http.post(path, json={"account": "acme"}))["code"] == "memory_forbidden"
    alice.give(deals, bob, "write")
    assert len(bob.post(path, {"account": "acme"})["results"]) == 2


def test_the_schema_of_params_comes_back_byte_for_byte(alice: Person, deals: str):
    written = (
        '{"type" : "object", "properties": {"n": {"maximum": 12345678901234567890123, "default": 1.10}}}'
    )
    body = json.dumps({**ABOUT, "body": "select :n as n"}).replace(json.dumps(ABOUT["params"]), written)
    answer = alice.http.put(f"/v1/memories/{deals}/queries/exact", content=body.encode())
    assert answer.is_success, answer.text
    assert f'"params":{written}' in answer.text
    assert f'"params":{written}' in alice.http.get(f"/v1/memories/{deals}/queries").text


@pytest.mark.requirement("ME-5.1-07")
def test_a_key_makes_defining_and_deleting_safe_to_repeat(alice: Person, deals: str):
    path = f"/v1/memories/{deals}/queries/about"
    once = {"Idempotency-Key": "define-1"}
    first = alice.http.put(path, json=ABOUT, headers=once)
    assert alice.http.put(path, json=ABOUT, headers=once).json() == first.json()
    other = alice.http.put(path, json=ABOUT | {"description": "Else."}, headers=once)
    assert (other.status_code, envelope(other)["code"]) == (422, "grovekeeper_idempotency_mismatch")
    gone = alice.http.delete(path, headers={"Idempotency-Key": "drop-1"})
    assert (
        alice.http.delete(path, headers={"Idempotency-Key": "drop-1"}).json() == gone.json() == first.json()
    )


def test_queries_are_listed_page_after_page_by_name(alice: Person, deals: str):
    for name in ("c", "a", "b"):
        alice.put(f"/v1/memories/{deals}/queries/{name}", ABOUT)
    first = alice.get(f"/v1/memories/{deals}/queries?limit=2")
    rest = alice.get(f"/v1/memories/{deals}/queries?limit=2&cursor={first['next_cursor']}")
    assert [one["name"] for one in (*first["data"], *rest["data"])] == ["a", "b", "c"]
    assert rest["next_cursor"] is None


@pytest.mark.requirement("ME-6.5-01", "ME-6.5-02", "ME-6.5-04")
def test_a_free_query_answers_rows_and_only_whole_records_as_records(alice: Person, deals: str):
    assert rows(alice, deals, "select content from records order by content limit 1") == [["Acme pays 10."]]
    whole = free(alice, deals, "select r.* from records r where r.content like 'Blue%'").json()
    assert [one["record"]["content"] for one in whole["results"]] == ["Blue pays 30."]
    assert rows(alice, deals, "select :a, :b, :c, :d", a=1, b=1.5, c=True, d=None) == [[1, 1.5, 1, None]]
    assert rows(alice, deals, "select value from json_each(:list)", list=[1, "two"]) == [[1], ["two"]]
    missing = free(alice, deals, "select :gone")
    assert (missing.status_code, envelope(missing)["code"]) == (422, "memory_invalid")
    assert envelope(free(alice, deals, "select 1", params={"n": 2**70}))["param"] == "params.n"
    assert envelope(free(alice, deals, "select 1", language="cypher"))["code"] == "memory_unsupported"


def test_versions_tell_the_history_and_records_the_present(alice: Person, deals: str):
    record = alice.fact(deals, "Old.")
    alice.http.patch(f"/v1/memories/{deals}/records/{record}", json={"content": "New."})
    told = "select content, status, invalidated_at is null from versions where id = :id order by version"
    assert rows(alice, deals, told, id=record) == [["Old.", "superseded", 0], ["New.", "active", 1]]
    assert rows(alice, deals, "select content from records where id = :id", id=record) == [["New."]]
    alice.http.delete(f"/v1/memories/{deals}/records/{record}")
    assert rows(alice, deals, "select count(*) from records where id = :id", id=record) == [[0]]


def test_both_revisions_of_the_wire_show_records_their_own_way(alice: Person, deals: str):
    body = {"language": "sql", "statement": "select * from records limit 1"}
    path = f"/v1/memories/{deals}/query"
    later = alice.http.post(path, json=body, headers={"UHP-Memories-Revision": "post3"})
    assert later.headers["uhp-memories-revision"] == "post3"
    assert isinstance(later.json()["results"][0]["record"]["content"], list)
    assert isinstance(alice.post(path, body)["results"][0]["record"]["content"], str)


@pytest.mark.requirement("ME-6.4-10", "ME-6.5-05", "ME-3.3-04")
def test_nothing_of_another_memory_is_in_reach_and_references_say_what_a_reader_may_follow(
    alice: Person, bob: Person, deals: str
):
    secret = alice.plant("Secret", restricted=True)
    hidden = alice.fact(secret, "The code is 4711.")
    shown = alice.fact(
        deals, "See the codes.", references=[{"rel": "told_by", "memory_id": secret, "record_id": hidden}]
    )
    alice.give(deals, bob, "read")
    assert rows(bob, deals, "select count(*) from versions where content like '%4711%'") == [[0]]
    told = 'select rel, memory_id, target_record_id from "references" where record_id = :id'
    assert rows(bob, deals, told, id=shown) == [[None, secret, hidden]]
    assert rows(alice, deals, told, id=shown) == [["told_by", secret, hidden]]
    everything = {"description": "All there is.", "language": "sql", "body": "select content from versions"}
    alice.put(f"/v1/memories/{deals}/queries/everything", everything)
    named = bob.post(f"/v1/memories/{deals}/queries/everything", {})["rows"]
    assert sorted(named) == [["Acme pays 10."], ["Acme pays 20."], ["Blue pays 30."], ["See the codes."]]
    found = free(bob, deals, "select * from records where id = :id", params={"id": hidden}).json()
    assert (found["results"], found["abstain"]) == ([], True)
    # A row that a statement made up to look like a record is a row.
    columns = "type, content, attributes, version, status, supersedes, valid_from, valid_to, written_at"
    forged = f"select :id as id, {columns}, writer_kind, writer_id from records limit 1"
    made_up = free(bob, deals, forged, params={"id": hidden}).json()
    assert "results" not in made_up
    assert made_up["rows"][0][0] == hidden


@pytest.mark.requirement("ME-6.5-09")
def test_what_bounds_a_query_is_said(alice: Person, deals: str):
    endless = free(
        alice, deals, "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
    )
    assert endless.is_success
    assert endless.json()["degraded"] == ["rows:capped_at_1000"]
    slow = free(
        alice, deals, "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    )
    assert slow.json() == {"columns": [], "rows": [], "degraded": ["time:capped_at_2000_ms"]}


def test_the_queries_of_a_deleted_memory_go_with_it(alice: Person, deals: str):
    alice.put(f"/v1/memories/{deals}/queries/about", ABOUT)
    alice.http.delete(f"/v1/memories/{deals}")
    for method, path in (("GET", ""), ("POST", "/about"), ("DELETE", "/about")):
        answer = alice.http.request(method, f"/v1/memories/{deals}/queries{path}")
        assert (answer.status_code, envelope(answer)["code"]) == (404, "memory_not_found")


def test_who_finds_no_place_to_wait_is_told_so_and_is_not_made_to_wait_again(alice: Person, deals: str):
    endless = "with recursive x(a) as (select 1 union all select a + 1 from x) select count(*) from x"
    with ThreadPoolExecutor(40) as crowd:
        asked = [crowd.submit(free, alice, deals, endless) for _ in range(40)]
        came = [one.result() for one in asked]
    refused = [(one.status_code, envelope(one)) for one in came if not one.is_success]
    assert {(status, one["code"], one["message"]) for status, one in refused} == {
        (503, "grovekeeper_busy", "Too many queries are waiting; try again.")
    }
    assert max(one.elapsed.total_seconds() for one in came) < 9.5, "waited twice"


@pytest.mark.requirement("ME-9.1-09", "ME-9.1-10", "ME-9.1-11")
def test_the_agent_without_a_model_runs_queries_and_operations_too(alice: Person, deals: str):
    alice.put(f"/v1/memories/{deals}/queries/about", ABOUT)
    task = alice.post(
        f"/v1/memories/{deals}/records", {"type": "x.task", "attributes": {"title": "Ring Acme."}}
    )
    harness = alice.harness("Desk", {"memory_id": deals, "access": "write"})

    def said(text: str) -> str:
        return text_of(alice.run(text, harness))

    assert "Acme pays 20." in said('Run about with {"account": "acme", "least": 15}')
    assert '"rows":[[3]]' in said("Query sql: select count(*) from records where type = 'fact'")
    assert '"status":"done"' in said(f"Do complete on {task['id']}")
    assert said("Run nothing_like_it").startswith("The memory refused: ")
    assert alice.get(f"/v1/memories/{deals}/records/{task['id']}")["attributes"]["status"] == "done"
