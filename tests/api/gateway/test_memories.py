import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.authz.v1 import authz_pb2
from protos.common.v1 import record_pb2
from protos.memory.v1 import memory_pb2, types_pb2
from tests.api.gateway.backends import Script
from tests.api.gateway.test_every_request import fault

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY = [authz_pb2.PRIVILEGE_DELETE, authz_pb2.PRIVILEGE_READ, authz_pb2.PRIVILEGE_WRITE]


def at(*when: int) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(datetime(*when, tzinfo=UTC))
    return made


SALES = memory_pb2.Memory(
    id="hmem_7c",
    name="Sales",
    description="What the sales team knows.",
    parent_id="hmem_0a",
    ancestors=["hmem_0a"],
    provider="native",
    privileges=EVERY,
    records_count=412,
    children_count=3,
    created_at=at(2026, 9, 28, 1, 2, 3),
    updated_at=at(2026, 9, 28, 1, 2, 4),
)
FACT = record_pb2.Record(
    id="hrec_1",
    memory_id="hmem_7c",
    type="fact",
    content=[record_pb2.Part(type="text", text="Acme renews.")],
    attributes=b'{"price":1.10,"big":123456789012345678901234567890,"b":1,"a":2}',
    version=3,
    status=record_pb2.STATUS_ACTIVE,
    written_at=at(2026, 10, 1, 17, 2, 11),
    written_by=record_pb2.Writer(kind="person", id="alice"),
)


@pytest.mark.requirement("ME-2-01")
async def test_a_memory_reads_as_the_chapter_prints_it(alice: httpx.AsyncClient, script: Script):
    script.answers["GetMemory"] = SALES
    answer = await alice.get("/v1/memories/hmem_7c")
    assert answer.status_code == 200
    assert list(answer.json().items()) == [
        ("id", "hmem_7c"),
        ("object", "memory"),
        ("name", "Sales"),
        ("description", "What the sales team knows."),
        ("parent_id", "hmem_0a"),
        ("ancestors", ["hmem_0a"]),
        ("restricted", False),
        ("provider", "native"),
        ("privileges", ["read", "write", "delete"]),
        ("records", {"count": 412}),
        ("children", {"count": 3}),
        ("createdAt", 1790557323000),
        ("updatedAt", 1790557324000),
    ]


async def test_a_root_says_that_it_has_no_parent(alice: httpx.AsyncClient, script: Script):
    script.answers["CreateMemory"] = memory_pb2.Memory(id="hmem_1", name="Root", created_at=at(2026, 1, 1))
    answer = await alice.post("/v1/memories", json={"name": "Root"}, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 200
    assert answer.json()["parent_id"] is None
    assert answer.json()["ancestors"] == []
    sent = script.only("CreateMemory")
    assert (sent.name, sent.description, sent.parent_id, sent.restricted) == ("Root", "", "", False)
    assert sent.idempotency.key == "k"
    assert len(sent.idempotency.request_sha256) == 32


@pytest.mark.requirement("ME-2-12", "ME-2-14")
@pytest.mark.parametrize(
    ("query", "where", "value"),
    [("", None, ""), ("?parent=hmem_1", "parent", "hmem_1"), ("?ancestor=hmem_2", "ancestor", "hmem_2")],
)
async def test_a_listing_is_one_level_or_everything_below(
    alice: httpx.AsyncClient, script: Script, query: str, where: str | None, value: str
):
    script.answers["ListMemories"] = memory_pb2.ListMemoriesResponse(memories=[SALES], next_cursor="more")
    body = (await alice.get(f"/v1/memories{query}")).json()
    assert (list(body), body["next_cursor"], len(body["data"])) == (["data", "next_cursor"], "more", 1)
    sent = script.only("ListMemories")
    assert sent.WhichOneof("where") == where
    assert where is None or getattr(sent, where) == value


async def test_the_last_page_says_so_with_null(alice: httpx.AsyncClient, script: Script):
    script.answers["ListMemories"] = memory_pb2.ListMemoriesResponse()
    assert (await alice.get("/v1/memories?limit=3&cursor=c")).json() == {"data": [], "next_cursor": None}
    assert (script.only("ListMemories").page.limit, script.only("ListMemories").page.cursor) == (3, "c")


async def test_a_listing_of_both_kinds_is_refused(alice: httpx.AsyncClient):
    assert fault(await alice.get("/v1/memories?parent=a&ancestor=b"))["param"] == "ancestor"


async def test_an_update_changes_only_what_it_names(alice: httpx.AsyncClient, script: Script):
    script.answers["UpdateMemory"] = SALES
    assert (await alice.put("/v1/memories/hmem_7c", json={"parent_id": None})).status_code == 200
    sent = script.only("UpdateMemory")
    assert (sent.HasField("parent_id"), sent.parent_id) == (True, "")
    assert not any(sent.HasField(name) for name in ("name", "description", "restricted", "provider"))


@pytest.mark.requirement("ME-3.1-09")
async def test_grants_read_with_the_node_they_sit_on(alice: httpx.AsyncClient, script: Script):
    grant = authz_pb2.Grant(
        id="hgrt_1",
        memory_id="hmem_0a",
        principal="group:sales",
        privileges=EVERY,
        inherited=True,
    )
    script.answers["ListGrants"] = authz_pb2.ListGrantsResponse(grants=[grant])
    script.answers["AddGrant"] = grant
    script.answers["RevokeGrant"] = authz_pb2.RevokeGrantResponse(grant=grant)
    read = {
        "id": "hgrt_1",
        "memory_id": "hmem_0a",
        "principal": "group:sales",
        "privileges": ["read", "write", "delete"],
        "inherited": True,
        "creator": False,
    }
    path = "/v1/memories/hmem_7c/grants"
    assert (await alice.get(path)).json() == {"data": [read], "next_cursor": None}
    added = await alice.post(path, json={"principal": "group:sales", "privileges": ["delete", "read"]})
    assert added.json() == read
    assert list(script.only("AddGrant").privileges) == [4, 1]
    assert (await alice.delete(f"{path}/hgrt_1")).json() == read


@pytest.mark.requirement("ME-10.2-01", "ME-10.2-02", "ME-10.2-03", "ME-10.2-04", "SU-revisions-08")
@pytest.mark.parametrize("revision", ["original", "post3"])
async def test_a_capability_document_has_the_fields_of_both_revisions(
    alice: httpx.AsyncClient, script: Script, revision: str
):
    native = record_pb2.Capabilities(
        id="native",
        isolation="enforced_filter",
        derivation="background",
        observe_keeps_episodes=True,
        observe_answers="job",
        recall_signals=["query", "text", "filters"],
        recall_abstain=True,
        recall_max_depth=8,
        history_content="versions",
        history_structure="none",
        revise="native",
        forget="none",
        erase_unreachable="reported",
        prime=True,
        named_queries=True,
        named_query_languages=["sql"],
        free_query_languages=["sql"],
        snapshots=True,
        content_media=["text/plain"],
        content_bytes="kept",
        outside=True,
    )
    script.answers["ListProviders"] = memory_pb2.ListProvidersResponse(providers=[native])
    answer = await alice.get("/v1/memories/providers", headers={"UHP-Memories-Revision": revision})
    assert answer.json() == {
        "data": [
            {
                "id": "native",
                "isolation": "enforced_filter",
                "derivation": "background",
                "observe": {"keeps_episodes": True, "answers": "job"},
                "recall": {"signals": ["query", "text", "filters"], "abstain": True, "max_depth": 8},
                "history": {"content": "versions", "structure": "none"},
                "revise": "native",
                "forget": False,
                "erase": {"unreachable": "reported"},
                "prime": True,
                "consolidate": False,
                "queries": {
                    "named": True,
                    "languages": ["sql"],
                    "free": {"languages": ["sql"], "write": False},
                },
                "types": False,
                "files": False,
                "snapshots": True,
                "content": {"media": ["text/plain"], "bytes": "kept", "describes": False},
                "outside": True,
            }
        ]
    }


DEAL = b'{"type":"object", "properties":{"price":{"maximum":1.10}}}'


@pytest.mark.requirement("ME-8-01")
async def test_types_cross_the_gateway_with_their_schemas_byte_for_byte(
    alice: httpx.AsyncClient, script: Script
):
    operation = record_pb2.OperationDescription(
        name="win", description="Won.", input=b'{ "type":"object"}', requires="write"
    )
    described = record_pb2.TypeDescription(
        type="x.deal", description="A deal.", schema=DEAL, text="title", operations=[operation]
    )
    one = types_pb2.RegisteredType(type=described, source="provider")
    script.answers["ListTypes"] = types_pb2.ListTypesResponse(types=[one])
    answer = await alice.get("/v1/memories/types")
    (shown,) = answer.json()["data"]
    assert (shown["type"], shown["source"]) == ("x.deal", "provider")
    assert "definition" not in shown["operations"][0]
    assert b'"schema":' + DEAL in answer.content
    assert b'"input":{ "type":"object"}' in answer.content


async def test_an_operation_takes_any_object_and_shows_what_it_found(
    alice: httpx.AsyncClient, script: Script
):
    script.answers["Operate"] = types_pb2.OperateResponse(record=FACT, result=b'{ "n":1.10 }')
    path = "/v1/memories/hmem_7c/records/hrec_3b/operations/win"
    answer = await alice.post(path, content=b'{ "price":1.10}', headers={"If-Match": '"2"'})
    asked = script.only("Operate")
    assert (asked.operation, asked.input, asked.expected_version) == ("win", b'{ "price":1.10}', 2)
    assert b'"result":{ "n":1.10 }' in answer.content
    assert answer.json()["record"]["trust"] == "untrusted"
    script.answers["Operate"] = types_pb2.OperateResponse(record=FACT)
    assert "result" not in (await alice.post(path)).json()
    for odd in (b"[]", b"1", b"{", b'"x"'):
        assert (await alice.post(path, content=odd)).status_code == 400


async def test_attributes_cross_the_gateway_byte_for_byte(alice: httpx.AsyncClient, script: Script):
    script.answers["Remember"] = FACT
    raw = (
        b'{ "price" : 1.10, "big": 123456789012345678901234567890, "e": 1e400, "b":1, "a":"\\u00e9\xc3\xa9" }'
    )
    answer = await alice.post(
        "/v1/memories/hmem_7c/records", content=b'{"type":"fact","content":"a","attributes":' + raw + b"}"
    )
    assert script.only("Remember").draft.attributes == raw
    assert b'"attributes":' + FACT.attributes in answer.content
    assert answer.headers["etag"] == '"3"'


@pytest.mark.requirement("ME-4-09")
async def test_what_a_writer_may_not_state_is_left_behind(alice: httpx.AsyncClient, script: Script):
    script.answers["Remember"] = FACT
    body: dict[str, Any] = {
        "type": "fact",
        "content": [{"type": "text", "text": "a", "role": "user"}],
        "time": {"valid_from": "2026-09-30T02:00:00+02:00", "written_at": "1999-01-01T00:00:00Z"},
        "references": [{"memory_id": "m", "record_id": "r", "rel": "derived_from", "available": True}],
        "written_by": {"kind": "person", "id": "mallory"},
        "trust": "trusted",
        "version": 9,
    }
    answer = await alice.post("/v1/memories/hmem_7c/records", json=body)
    draft = script.only("Remember").draft
    assert (draft.valid_from.ToDatetime(UTC), draft.HasField("valid_to")) == (
        datetime(2026, 9, 30, tzinfo=UTC),
        False,
    )
    assert (draft.content[0].role, draft.references[0].rel) == ("user", "derived_from")
    assert answer.json()["written_by"] == {"kind": "person", "id": "alice"}
    assert answer.json()["trust"] == "untrusted"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"type": "fact"}, "invalid_input", "content"),
        ({"content": "a"}, "invalid_input", "type"),
        ({"type": "fact", "content": ""}, "memory_invalid", "content"),
        ({"type": "fact", "content": [{"type": "sound"}]}, "memory_invalid", "content.0.type"),
        ({"type": "fact", "content": "a", "attributes": [1]}, "invalid_input", "attributes"),
        ({"type": "fact", "content": "a", "attributes": None}, "invalid_input", "attributes"),
        (
            {"type": "fact", "content": "a", "time": {"valid_to": "0001-01-01T00:00:00+10:00"}},
            "invalid_input",
            "time.valid_to",
        ),
        (
            {"type": "fact", "content": "a", "references": [{"memory_id": "m", "record_id": "r"}] * 101},
            "invalid_input",
            "references",
        ),
    ],
)
async def test_a_record_that_cannot_be_written_is_refused_by_its_field(
    alice: httpx.AsyncClient, body: dict[str, Any], code: str, param: str
):
    error = fault(await alice.post("/v1/memories/hmem_7c/records", json=body))
    assert (error["code"], error["param"]) == (code, param)


@pytest.mark.requirement("ME-4.1-03")
async def test_a_link_and_an_extension_may_have_no_content_of_their_own(
    alice: httpx.AsyncClient, script: Script
):
    script.answers["Remember"] = FACT
    for kind in ("link", "x.calendar.event"):
        answer = await alice.post("/v1/memories/m/records", json={"type": kind, "attributes": {"at": "x"}})
        assert answer.status_code == 200


async def test_a_revision_says_what_it_replaces_clears_and_leaves(alice: httpx.AsyncClient, script: Script):
    script.answers["Revise"] = FACT
    body: dict[str, Any] = {
        "time": {"valid_from": None, "valid_to": "2026-10-01T00:00:00Z"},
        "references": [],
    }
    await alice.patch("/v1/memories/m/records/r", json=body, headers={"If-Match": '"2"'})
    sent = script.only("Revise")
    assert sent.expected_version == 2
    assert (sent.changes.replace_content, sent.changes.replace_references) == (False, True)
    assert list(sent.changes.clear) == ["valid_from"]
    assert sent.changes.HasField("valid_to")
    assert not sent.changes.HasField("attributes")


async def test_a_revision_of_nothing_is_refused(alice: httpx.AsyncClient):
    body = {"expected_version": 2, "version": 7}
    assert fault(await alice.patch("/v1/memories/m/records/r", json=body))["code"] == "invalid_input"


@pytest.mark.parametrize(
    "how",
    [
        {"headers": {"If-Match": '"4"'}},
        {"params": {"expected_version": "4"}},
        {"content": b'{"expected_version": 4}'},
    ],
)
async def test_a_forget_expects_a_version_wherever_it_is_said(
    alice: httpx.AsyncClient, script: Script, how: dict[str, Any]
):
    script.answers["Forget"] = FACT
    assert (await alice.request("DELETE", "/v1/memories/m/records/r", **how)).status_code == 200
    assert script.only("Forget").expected_version == 4


@pytest.mark.requirement("ME-5.1-02")
async def test_an_observe_with_a_job_answers_202(alice: httpx.AsyncClient, script: Script):
    script.answers["Observe"] = memory_pb2.ObserveResponse(job=record_pb2.Job(id="hjob_1", status="pending"))
    body = {"episodes": [{"content": "hello", "role": "user", "attributes": {"n": 1}}]}
    answer = await alice.post("/v1/memories/hmem_7c/observe", json=body)
    assert answer.status_code == 202
    assert answer.json() == {"job": {"id": "hjob_1", "status": "pending"}, "records": []}
    (episode,) = script.only("Observe").episodes
    assert (episode.content[0].text, episode.content[0].role, episode.attributes) == (
        "hello",
        "user",
        b'{"n":1}',
    )


async def test_an_observe_derived_at_once_answers_200_with_records(alice: httpx.AsyncClient, script: Script):
    script.answers["Observe"] = memory_pb2.ObserveResponse(records=[FACT])
    answer = await alice.post("/v1/memories/hmem_7c/observe", json={"episodes": [{"content": "a"}]})
    assert (answer.status_code, list(answer.json())) == (200, ["records"])


async def test_a_job_reads_with_what_it_wrote(alice: httpx.AsyncClient, script: Script):
    script.answers["GetJob"] = record_pb2.Job(
        id="hjob_1", status="completed", records=[FACT], finished_at=at(2026, 10, 1)
    )
    body = (await alice.get("/v1/memories/hmem_7c/jobs/hjob_1")).json()
    assert (body["status"], body["records"][0]["id"]) == ("completed", "hrec_1")
    assert body["finished_at"] == "2026-10-01T00:00:00Z"


@pytest.mark.requirement("ME-5-02")
async def test_a_list_of_records_takes_types_filters_and_an_instant(alice: httpx.AsyncClient, script: Script):
    script.answers["ListRecords"] = memory_pb2.ListRecordsResponse(records=[FACT])
    query = {
        "types": "fact,note",
        "filters": '{"field":"attributes.price","op":"gte","value":1.10}',
        "as_of": "2026-10-01T00:00:00Z",
        "include": "all",
        "limit": "2",
    }
    body = (await alice.get("/v1/memories/m/records", params=query)).json()
    assert (body["data"][0]["id"], body["next_cursor"]) == ("hrec_1", None)
    sent = script.only("ListRecords")
    assert list(sent.types) == ["fact", "note"]
    assert sent.filter.condition == record_pb2.Condition(field="attributes.price", op="gte", value=b"1.10")
    assert (sent.include, sent.page.limit) == (record_pb2.INCLUDE_ALL, 2)


@pytest.mark.requirement("SU-revisions-05")
@pytest.mark.parametrize(
    ("revision", "asked", "sent_depth"),
    [(None, {}, None), (None, {"depth": 2}, 2), ("post3", {}, -1), ("post3", {"depth": 0}, 0)],
)
async def test_the_revision_says_how_deep_a_recall_looks_unasked(
    alice: httpx.AsyncClient,
    script: Script,
    revision: str | None,
    asked: dict[str, int],
    sent_depth: int | None,
):
    script.answers["Recall"] = memory_pb2.RecallResponse()
    headers = {} if revision is None else {"UHP-Memories-Revision": revision}
    answer = await alice.post("/v1/memories/m/recall", json={"query": "q", **asked}, headers=headers)
    assert answer.headers["uhp-memories-revision"] == (revision or "original")
    sent = script.only("Recall")
    assert (sent.depth if sent.HasField("depth") else None) == sent_depth


@pytest.mark.requirement("ME-6.3-01")
async def test_a_recall_reads_as_the_chapter_prints_it(alice: httpx.AsyncClient, script: Script):
    place = memory_pb2.Place(id="hmem_0a", name="Company", description="All of it", records_count=97)
    script.answers["Recall"] = memory_pb2.RecallResponse(
        results=[
            memory_pb2.RecallResult(
                hit=record_pb2.RecallHit(record=FACT, score=0.91, why=["query", "filters"]), memory=place
            )
        ],
        parent=place,
        degraded=["depth:capped_at_2"],
        abstain=True,
    )
    answer = await alice.post(
        "/v1/memories/m/recall",
        json={"query": "q", "types": ["fact"], "include": "active", "limit": 8, "as_of": None},
    )
    body = answer.json()
    assert list(body) == ["results", "parent", "children", "degraded", "abstain"]
    assert list(body["results"][0]) == ["record", "score", "why"]
    assert body["parent"] == {
        "id": "hmem_0a",
        "name": "Company",
        "description": "All of it",
        "records": {"count": 97},
    }
    assert (body["children"], body["degraded"], body["abstain"]) == ([], ["depth:capped_at_2"], True)


@pytest.mark.parametrize("body", [{}, {"query": ""}, {"types": ["fact"]}, {"query": None, "limit": 3}])
async def test_a_recall_that_asks_nothing_is_unprocessable(alice: httpx.AsyncClient, body: dict[str, Any]):
    answer = await alice.post("/v1/memories/m/recall", json=body)
    assert (answer.status_code, fault(answer)["code"]) == (422, "memory_invalid")


@pytest.mark.requirement("ME-5.2-08")
async def test_an_erase_says_what_it_could_not_reach(alice: httpx.AsyncClient, script: Script):
    script.answers["Erase"] = memory_pb2.EraseResponse(erased=["r"], unreachable=["s"])
    answer = await alice.post("/v1/memories/m/erase", json={"record_ids": ["r", "s"]})
    assert answer.json() == {"erased": ["r"], "unreachable": ["s"]}


@pytest.mark.requirement("SU-memories-03")
async def test_history_is_oldest_first_under_both_revisions(alice: httpx.AsyncClient, script: Script):
    first = record_pb2.Record()
    first.CopyFrom(FACT)
    first.version, first.status = 2, record_pb2.STATUS_SUPERSEDED
    script.answers["History"] = memory_pb2.HistoryResponse(versions=[first, FACT])
    original = await alice.get("/v1/memories/m/records/r/history")
    later = await alice.get("/v1/memories/m/records/r/history", headers={"UHP-Memories-Revision": "post3"})
    for answer in (original, later):
        assert [(one["version"], one["status"]) for one in answer.json()["data"]] == [
            (2, "superseded"),
            (3, "active"),
        ]
    assert original.json()["data"][0]["content"] == "Acme renews."
    assert later.json()["data"][0]["content"] == [{"type": "text", "text": "Acme renews."}]
    assert later.headers["uhp-memories-revision"] == "post3"


@pytest.mark.requirement("SU-revisions-01")
async def test_the_revision_is_echoed_on_errors_and_an_unknown_one_is_refused(alice: httpx.AsyncClient):
    refused = await alice.get("/v1/memories/types", headers={"UHP-Memories-Revision": "post9"})
    error = fault(refused)
    assert (error["code"], error["detail"]["supported"]) == ("invalid_input", ["original", "post3"])
    assert refused.headers["uhp-memories-revision"] == "original"
    missing = await alice.get("/v1/memories/a/b/c", headers={"UHP-Memories-Revision": "post3"})
    assert (missing.status_code, missing.headers["uhp-memories-revision"]) == (404, "post3")
    assert "uhp-memories-revision" not in (await alice.get("/v1/memoriesx")).headers


async def test_an_answer_is_json_that_python_reads_back(alice: httpx.AsyncClient, script: Script):
    script.answers["GetRecord"] = FACT
    answer = await alice.get("/v1/memories/m/records/r?as_of=2026-10-01T00:00:00Z")
    assert json.loads(answer.content)["attributes"]["big"] == 123456789012345678901234567890
    assert script.only("GetRecord").as_of.ToDatetime(UTC) == datetime(2026, 10, 1, tzinfo=UTC)
