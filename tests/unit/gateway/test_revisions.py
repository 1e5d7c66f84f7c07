import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gateway.revisions import REVISIONS, revision
from gateway.schemas.base import Count, Raw
from gateway.schemas.content import File, Part, parts_of
from gateway.schemas.memories import Place
from gateway.schemas.records import (
    Found,
    Job,
    Observed,
    Recalled,
    Record,
    Reference,
    Times,
    Writer,
)
from service_kit.errors import GroveError

ORIGINAL, POST3 = REVISIONS["original"], REVISIONS["post3"]
PNG = File(id="file_1", name="a.png", media_type="image/png", bytes=70, version="v1")
WRITTEN = datetime(2026, 10, 1, 17, 2, 11, tzinfo=UTC)


def record(*content: Part, attributes: bytes = b"", supersedes: str = "") -> Record:
    return Record(
        id="hrec_1",
        memory_id="hmem_1",
        type="fact",
        content=list(content),
        attributes=attributes,
        version=2,
        status="active",
        supersedes=supersedes,
        time=Times(
            valid_from=datetime(2026, 9, 30, tzinfo=UTC),
            valid_to=None,
            written_at=WRITTEN.replace(microsecond=123456),
            invalidated_at=None,
        ),
        written_by=Writer(kind="harness", id="chrn_41c0"),
        references=[
            Reference(rel="derived_from", memory_id="hmem_2", record_id="hrec_2"),
            Reference(memory_id="hmem_3", record_id="hrec_3", available=False),
        ],
    )


def read(value: object) -> Any:
    return json.loads(msgspec.json.encode(value))


def text(words: str, role: str = "") -> Part:
    return Part(type="text", text=words, role=role)


@pytest.mark.requirement("ME-4-01", "ME-4-07")
def test_a_record_reads_as_the_chapter_prints_it():
    printed = msgspec.json.encode(
        ORIGINAL.record(record(text("Acme renews."), attributes=b'{"account": "acme", "price": 1.10}'))
    )
    assert printed == (
        b'{"id":"hrec_1","object":"memory.record","memory_id":"hmem_1","type":"fact","content":"Acme renews.",'
        b'"attributes":{"account": "acme", "price": 1.10},"version":2,"status":"active",'
        b'"time":{"valid_from":"2026-09-30T00:00:00Z","valid_to":null,'
        b'"written_at":"2026-10-01T17:02:11.123456Z","invalidated_at":null},'
        b'"written_by":{"kind":"harness","id":"chrn_41c0"},'
        b'"references":[{"rel":"derived_from","memory_id":"hmem_2","record_id":"hrec_2"},'
        b'{"memory_id":"hmem_3","record_id":"hrec_3","available":false}],"trust":"untrusted"}'
    )


@pytest.mark.requirement("ME-4-06")
def test_what_a_record_supersedes_is_there_only_when_it_was_named():
    assert "supersedes" not in read(ORIGINAL.record(record(text("a"))))
    assert read(ORIGINAL.record(record(text("a"), supersedes="hrec_0")))["supersedes"] == "hrec_0"


def test_attributes_nobody_wrote_read_as_an_empty_object():
    assert read(POST3.record(record(text("a"))))["attributes"] == {}


@pytest.mark.requirement("SU-revisions-02", "SU-revisions-09")
@pytest.mark.parametrize(
    ("parts", "content", "beside"),
    [
        ([text("a")], "a", None),
        ([], "", None),
        (
            [Part(type="file", file=PNG)],
            {
                "file": {
                    "id": "file_1",
                    "name": "a.png",
                    "media_type": "image/png",
                    "bytes": 70,
                    "version": "v1",
                }
            },
            None,
        ),
        (
            [text("a"), text("b", "user")],
            "a\n\nb",
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "role": "user"}],
        ),
        ([text("a", "tool")], "a", [{"type": "text", "text": "a", "role": "tool"}]),
        (
            [Part(type="file", file=File(id="file_1"), text="a chart", text_source="writer")],
            {"file": {"id": "file_1"}},
            [{"type": "file", "file": {"id": "file_1"}, "text": "a chart", "text_source": "writer"}],
        ),
        ([Part(type="x.a.b", raw=b'{"type":"x.a.b","n":1}')], "", [{"type": "x.a.b", "n": 1}]),
    ],
)
def test_the_original_revision_reads_text_or_a_file_and_loses_nothing(
    parts: list[Part], content: object, beside: object
):
    answer = read(ORIGINAL.record(record(*parts)))
    assert answer["content"] == content
    assert answer.get("parts") == beside


@pytest.mark.requirement("SU-revisions-02", "SU-revisions-10")
def test_the_later_revision_always_reads_parts():
    raw = b'{"type": "x.form", "fields": {"n": 1.10, "b": 1, "a": 2}}'
    answer = msgspec.json.encode(
        POST3.record(
            record(text("a", "user"), Part(type="file", file=PNG, text="w"), Part(type="x.form", raw=raw))
        )
    )
    assert (
        b'"content":[{"type":"text","text":"a","role":"user"},'
        b'{"type":"file","file":{"id":"file_1","name":"a.png","media_type":"image/png","bytes":70,"version":"v1"},'
        b'"text":"w"},' + raw + b"]"
    ) in answer
    assert b'"parts"' not in answer


@pytest.mark.requirement("SU-revisions-03")
@pytest.mark.parametrize("name", ["original", "post3"])
def test_what_one_revision_reads_the_other_writes(name: str):
    parts = [text("a", "user"), text("b"), Part(type="x.n", raw=b'{"type":"x.n","v":1e400}')]
    answer = msgspec.json.decode(
        msgspec.json.encode(REVISIONS[name].record(record(*parts))), type=dict[str, Raw]
    )
    assert parts_of(answer.get("parts", answer["content"])) == parts


def place(name: str) -> Place:
    return Place(id=f"hmem_{name}", name=name, description="d", records=Count(count=3))


def recalled(parent: Place | None = None) -> Recalled:
    found = Found(record=record(text("a")), score=0.91, why=["query"], memory=place("1"))
    return Recalled(results=[found], parent=parent, children=[place("2")], degraded=[], abstain=False)


def test_the_original_revision_names_a_results_memory_where_several_were_asked():
    assert "memory" not in read(ORIGINAL.recalled(recalled(), depth_asked=False))["results"][0]
    assert read(ORIGINAL.recalled(recalled(), depth_asked=True))["results"][0]["memory"] == {
        "id": "hmem_1",
        "name": "1",
    }


@pytest.mark.requirement("SU-revisions-06")
def test_the_later_revision_always_names_a_results_memory():
    assert read(POST3.recalled(recalled(), depth_asked=False))["results"][0]["memory"]["id"] == "hmem_1"


def test_a_recall_answers_where_to_go_from_here():
    answer = read(ORIGINAL.recalled(recalled(place("0")), depth_asked=False))
    assert list(answer) == ["results", "parent", "children", "degraded", "abstain"]
    assert answer["parent"] == {"id": "hmem_0", "name": "0", "description": "d", "records": {"count": 3}}
    assert "parent" not in read(ORIGINAL.recalled(recalled(), depth_asked=False))


@pytest.mark.requirement("SU-revisions-05")
def test_only_the_later_revision_looks_below_unasked():
    assert (ORIGINAL.depth, POST3.depth) == (None, -1)


def test_a_job_says_when_it_ended_only_once_it_has():
    job = Job(
        id="hjob_1",
        status="pending",
        records=[],
        created_at=WRITTEN,
        finished_at=None,
        error="",
    )
    assert read(ORIGINAL.job("hmem_1", job)) == {
        "id": "hjob_1",
        "object": "memory.job",
        "memory_id": "hmem_1",
        "status": "pending",
        "records": [],
        "created_at": "2026-10-01T17:02:11Z",
    }
    assert read(ORIGINAL.observed(Observed(job=job, records=[]))) == {
        "job": {"id": "hjob_1", "status": "pending"},
        "records": [],
    }


def test_a_revision_nobody_speaks_is_refused_with_those_we_do():
    assert revision(None, "post3") is POST3
    assert revision("original", "post3") is ORIGINAL
    with pytest.raises(GroveError) as refused:
        revision("post4", "original")
    assert refused.value.code == "invalid_input"
    assert refused.value.detail == {"supported": ["original", "post3"]}


@pytest.mark.requirement("SU-revisions-03")
@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b'"a"', [text("a")]),
        (b'[{"type":"text","text":"a","role":"assistant"}]', [text("a", "assistant")]),
        (b'{"file":{"id":"file_1"}}', [Part(type="file", file=File(id="file_1"))]),
        (
            b'[{"type":"file","file":{"id":"file_1"},"text":"w","role":"user"}]',
            [Part(type="file", file=File(id="file_1"), text="w", role="user")],
        ),
        (
            b'[{"type":"x.a","text":5,"role":9}]',
            [Part(type="x.a", raw=b'{"type":"x.a","text":5,"role":9}')],
        ),
    ],
)
def test_content_is_read_in_the_forms_of_both_revisions(raw: bytes, parts: list[Part]):
    assert parts_of(Raw(raw)) == parts


@pytest.mark.requirement("SU-revisions-04")
@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b"5", "content"),
        (b"null", "content"),
        (b"{}", "content"),
        (b"[]", "content"),
        (b'""', "content"),
        (b'[{"text":"a"}]', "content.0"),
        (b'[{"type":"text","text":"a"},{"type":"image"}]', "content.1.type"),
        (b'[{"type":"x."}]', "content.0.type"),
        (b'[{"type":"text"}]', "content.0.text"),
        (b'[{"type":"text","text":""}]', "content.0.text"),
        (b'[{"type":"text","text":5}]', "content.0"),
        (b'[{"type":"text","text":"a","role":"robot"}]', "content.0.role"),
        (b'[{"type":"text","text":"a\\u0000"}]', "content.0.text"),
        (b'[{"type":"file"}]', "content.0.file.id"),
        (b'[{"type":"file","file":{"name":"a"}}]', "content.0.file.id"),
        (b'{"file":{}}', "content.file.id"),
        (b'["a"]', "content.0"),
    ],
)
def test_a_bad_part_is_unprocessable_and_named(raw: bytes, param: str):
    with pytest.raises(GroveError) as refused:
        parts_of(Raw(raw))
    assert (refused.value.code, refused.value.param) == ("memory_invalid", param)
    assert refused.value.rule.http == 422


def test_each_revision_is_pure():
    project: list[Callable[[list[Part]], object]] = [ORIGINAL.content, POST3.content]
    for one in project:
        parts = [text("a"), text("b", "user")]
        assert one(parts) == one(parts)
        assert parts == [text("a"), text("b", "user")]
