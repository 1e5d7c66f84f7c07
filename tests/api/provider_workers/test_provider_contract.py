"""protos/provider/v1 as its callers meet it: every RPC over the wire, identity, errors and limits."""

import asyncio

import psycopg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.common.v1 import common_pb2, record_pb2
from protos.provider.v1 import provider_pb2 as wire
from provider_workers.domain import limits
from provider_workers.settings import Settings
from service_kit.errors import GroveError
from service_kit.identity import set_passport, use_passport
from service_kit.ids import is_id, new_id
from tests.api.provider_workers.conftest import Served

ALICE = record_pb2.Writer(kind="person", id="alice")


def address(memory: str = "", provider: str = "native") -> wire.Address:
    return wire.Address(provider=provider, memory_id=memory or new_id("hmem"))


def draft(text: str, **more: object) -> record_pb2.Draft:
    made = record_pb2.Draft(type="fact", content=[record_pb2.Part(type="text", text=text)])
    made.MergeFrom(record_pb2.Draft(**more))  # pyright: ignore[reportArgumentType]
    return made


async def remember(provider: Served, where: wire.Address, text: str, **more: object) -> record_pb2.Record:
    request = wire.RememberRequest(address=where, draft=draft(text, **more), written_by=ALICE)
    return await provider.stub.Remember(request)


@pytest.mark.requirement("ME-10.2-01")
async def test_describe_gives_the_capability_document(provider: Served):
    answer = await provider.stub.Describe(wire.DescribeRequest())
    (native,) = answer.providers
    assert (native.id, answer.default_provider) == ("native", "native")
    assert (native.isolation, native.derivation, native.observe_answers) == (
        "enforced_filter",
        "background",
        "job",
    )
    assert list(native.recall_signals) == ["query", "text", "filters"]
    assert (native.history_content, native.history_structure) == ("versions", "none")
    assert (native.files, native.types, native.named_queries, native.consolidate) == (
        False,
        True,
        True,
        "runs",
    )


@pytest.mark.requirement("ME-10.1-01")
async def test_a_records_life_over_the_wire(provider: Served):
    where = address()
    valid_from = Timestamp(seconds=1_790_000_000, nanos=123_456_000)
    one = await remember(
        provider, where, "Acme renews in March.", attributes=b'{"n":1.50}', valid_from=valid_from
    )
    assert is_id("hrec", one.id)
    assert (one.version, one.status, one.written_by, one.valid_from) == (
        1,
        record_pb2.STATUS_ACTIVE,
        ALICE,
        valid_from,
    )
    assert not one.HasField("valid_to")
    assert not one.HasField("invalidated_at")
    got = await provider.stub.GetRecord(wire.GetRecordRequest(address=where, record_id=one.id))
    assert got == one

    changes = record_pb2.Changes(
        replace_content=True,
        content=[record_pb2.Part(type="text", text="Acme renews in April.", role="user")],
        clear=["valid_from"],
    )
    two = await provider.stub.Revise(
        wire.ReviseRequest(
            address=where, record_id=one.id, changes=changes, expected_version=1, written_by=ALICE
        )
    )
    assert (two.version, two.content[0].role, two.attributes) == (2, "user", b'{"n":1.50}')
    assert not two.HasField("valid_from")
    then = await provider.stub.GetRecord(
        wire.GetRecordRequest(address=where, record_id=one.id, as_of=one.written_at)
    )
    assert then == one

    closed = await provider.stub.Forget(wire.ForgetRequest(address=where, record_id=one.id, written_by=ALICE))
    assert closed.status == record_pb2.STATUS_FORGOTTEN
    history = await provider.stub.History(wire.HistoryRequest(address=where, record_id=one.id))
    assert [version.status for version in history.versions] == [
        record_pb2.STATUS_SUPERSEDED,
        record_pb2.STATUS_FORGOTTEN,
    ]
    erased = await provider.stub.Erase(wire.EraseRequest(address=where, record_ids=[one.id]))
    assert (list(erased.erased), list(erased.unreachable)) == ([one.id], [])
    with pytest.raises(GroveError) as refused:
        await provider.stub.GetRecord(wire.GetRecordRequest(address=where, record_id=one.id))
    assert refused.value.code == "memory_record_not_found"


async def test_an_observe_and_its_job_over_the_wire(provider: Served):
    where = address()
    said = wire.Episode(
        content=[record_pb2.Part(type="text", text="The hub is plugged in there.", role="user")],
        attributes=b'{"speaker":"Sam"}',
    )
    key = common_pb2.Idempotency(key="k", request_sha256=b"h")
    request = wire.ObserveRequest(address=where, episodes=[said], written_by=ALICE, idempotency=key)
    observed = await provider.stub.Observe(request)
    assert (observed.job.status, list(observed.records)) == ("pending", [])
    assert await provider.stub.Observe(request) == observed
    async with asyncio.timeout(60):
        while True:
            job = await provider.stub.GetJob(wire.GetJobRequest(address=where, job_id=observed.job.id))
            if job.status != "pending":
                break
            await asyncio.sleep(0.05)
    assert (job.status, job.error, job.HasField("finished_at")) == ("completed", "", True)
    assert [record.type for record in job.records] == ["episode", "fact"]
    assert job.records[1].references[0].record_id == job.records[0].id


@pytest.mark.requirement("ME-10.1-01")
async def test_recall_list_count_exist_and_prime_over_the_wire(provider: Served):
    where, other = address(), address()
    one = await remember(provider, where, "Acme renews in March.", attributes=b'{"account":"acme"}')
    two = await remember(provider, other, "Acme pays late.")
    condition = record_pb2.Condition(field="attributes.account", op="eq", value=b'"acme"')
    negated = record_pb2.Filter(negation=record_pb2.Filter(condition=condition))
    either = record_pb2.Filter(
        any=record_pb2.FilterList(filters=[record_pb2.Filter(condition=condition), negated])
    )
    asked = record_pb2.RecallQuery(query="when does Acme renew?", text="Acme", filter=either)
    memories = [where.memory_id, other.memory_id]
    answer = await provider.stub.Recall(
        wire.RecallRequest(provider="native", memory_ids=memories, recall=asked)
    )
    assert [hit.record.id for hit in answer.hits] == [one.id, two.id]
    assert list(answer.hits[0].why) == ["query", "text", "filters"]
    assert (answer.abstain, list(answer.degraded)) == (False, [])

    listed = await provider.stub.ListRecords(wire.ListRecordsRequest(address=where, filter=negated))
    assert (list(listed.records), listed.next_cursor) == ([], "")
    listed = await provider.stub.ListRecords(
        wire.ListRecordsRequest(address=where, types=["fact"], page=common_pb2.Page(limit=1))
    )
    assert list(listed.records) == [one]
    counted = await provider.stub.Count(wire.CountRequest(provider="native", memory_ids=memories))
    assert dict(counted.counts) == {where.memory_id: 1, other.memory_id: 1}
    existing = await provider.stub.Exist(
        wire.ExistRequest(
            provider="native",
            records=[
                wire.RecordAddress(memory_id=where.memory_id, record_id=one.id),
                wire.RecordAddress(memory_id=where.memory_id, record_id=two.id),
            ],
        )
    )
    assert [record.record_id for record in existing.records] == [one.id]
    primed = await provider.stub.Prime(wire.PrimeRequest(address=where))
    assert list(primed.records) == [one]
    await provider.stub.Purge(wire.PurgeRequest(address=where))
    assert not (await provider.stub.ListRecords(wire.ListRecordsRequest(address=where))).records


async def test_no_call_is_answered_without_a_passport(provider: Served):
    set_passport(None)
    for call in (
        provider.stub.Describe(wire.DescribeRequest()),
        provider.stub.Recall(wire.RecallRequest(provider="native")),
    ):
        with pytest.raises(GroveError) as refused:
            await call
        assert refused.value.code == "missing_credential"


@pytest.mark.requirement("ME-4-09")
async def test_the_writer_is_whoever_holds_the_passport(provider: Served):
    request = wire.RememberRequest(address=address(), draft=draft("Written by itself."))
    assert (await provider.stub.Remember(request)).written_by == ALICE
    request.written_by.CopyFrom(record_pb2.Writer(kind="person", id="mallory"))
    with pytest.raises(GroveError) as refused:
        await provider.stub.Remember(request)
    assert (refused.value.code, refused.value.param) == ("invalid_input", "written_by")
    with use_passport(provider.service("memory")):
        assert (await provider.stub.Remember(request)).written_by.id == "mallory"


@pytest.mark.requirement("ME-12-10")
async def test_a_provider_that_is_not_connected_is_unavailable(provider: Served):
    request = wire.GetRecordRequest(address=address(provider="graph"), record_id=new_id("hrec"))
    with pytest.raises(GroveError) as refused:
        await provider.stub.GetRecord(request)
    assert refused.value.code == "memory_unavailable"


def part(**fields: object) -> record_pb2.Part:
    return record_pb2.Part(**fields)  # pyright: ignore[reportArgumentType]


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "no content": ({"content": []}, "memory_invalid"),
    "an empty part": ({"content": [part(type="text")]}, "memory_invalid"),
    "an unknown part": ({"content": [part(type="movie", text="x")]}, "memory_invalid"),
    "an unknown role": ({"content": [part(type="text", text="x", role="king")]}, "memory_invalid"),
    "a file": ({"content": [part(type="file", file=record_pb2.File(id="file_1"))]}, "memory_unsupported"),
    "an unknown type": ({"type": "wish"}, "invalid_input"),
    "an extension without a name": ({"type": "x."}, "invalid_input"),
    "attributes that are a list": ({"attributes": b"[]"}, "invalid_input"),
    "attributes that are no JSON": ({"attributes": b"{"}, "invalid_input"),
    "attributes that are no text": ({"attributes": b'{"a":"\xff"}'}, "invalid_input"),
    "attributes of endless depth": (
        {"attributes": b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}"},
        "invalid_input",
    ),
    "attributes too large": (
        {"attributes": b'{"a":"' + b"x" * limits.MAX_ATTRIBUTES_BYTES + b'"}'},
        "grovekeeper_too_large",
    ),
    "content too large": (
        {"content": [part(type="text", text="x" * (limits.MAX_CONTENT_BYTES + 1))]},
        "grovekeeper_too_large",
    ),
    "too many references": (
        {"references": [record_pb2.Reference(rel="r", memory_id="m", record_id="r")] * 101},
        "invalid_input",
    ),
    "a reference to nothing": ({"references": [record_pb2.Reference(rel="r")]}, "invalid_input"),
    "an end before the start": (
        {"valid_from": Timestamp(seconds=2), "valid_to": Timestamp(seconds=1)},
        "invalid_input",
    ),
    "a time beyond time": ({"valid_from": Timestamp(seconds=10**15)}, "invalid_input"),
}


@pytest.mark.parametrize(("fields", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_draft_no_record_can_be_is_refused_in_words(
    provider: Served, fields: dict[str, object], code: str
):
    where = address()
    stated: dict[str, object] = {"type": "fact", "content": [part(type="text", text="Fine.")], **fields}
    request = wire.RememberRequest(address=where, draft=record_pb2.Draft(**stated))  # pyright: ignore[reportArgumentType]
    with pytest.raises(GroveError) as refused:
        await provider.stub.Remember(request)
    assert refused.value.code == code, refused.value.message
    assert refused.value.message.endswith(".") or code == "memory_unsupported"
    assert not (await provider.stub.ListRecords(wire.ListRecordsRequest(address=where))).records


async def test_questions_and_filters_out_of_bounds_are_refused(provider: Served):
    deep = record_pb2.Filter(condition=record_pb2.Condition(field="type", op="exists"))
    for _ in range(limits.MAX_FILTER_DEPTH):
        deep = record_pb2.Filter(negation=deep)
    wide = record_pb2.Filter(
        all=record_pb2.FilterList(
            filters=[record_pb2.Filter(condition=record_pb2.Condition(field="type", op="exists"))]
            * limits.MAX_FILTER_NODES
        )
    )
    for asked, code in (
        (record_pb2.RecallQuery(), "memory_invalid"),
        (record_pb2.RecallQuery(query="x", limit=101), "invalid_input"),
        (record_pb2.RecallQuery(query="x", limit=-1), "invalid_input"),
        (record_pb2.RecallQuery(query="x" * (limits.MAX_QUESTION + 1)), "grovekeeper_too_large"),
        (record_pb2.RecallQuery(filter=deep), "invalid_input"),
        (record_pb2.RecallQuery(filter=wide), "invalid_input"),
        (record_pb2.RecallQuery(filter=record_pb2.Filter()), "invalid_input"),
    ):
        with pytest.raises(GroveError) as refused:
            await provider.stub.Recall(
                wire.RecallRequest(provider="native", memory_ids=[new_id("hmem")], recall=asked)
            )
        assert refused.value.code == code, refused.value.message


async def test_an_observe_of_nothing_or_of_too_much_is_refused(provider: Served):
    said = wire.Episode(content=[part(type="text", text="x" * 500_000)])
    for episodes, code in (([], "invalid_input"), ([said] * 10, "grovekeeper_too_large")):
        with pytest.raises(GroveError) as refused:
            await provider.stub.Observe(wire.ObserveRequest(address=address(), episodes=episodes))
        assert refused.value.code == code


async def test_as_many_memories_as_one_recall_searches_fit_one_message_and_no_more_are_taken(
    provider: Served,
):
    where, asked = address(), record_pb2.RecallQuery(query="When does Acme renew?")
    one = await remember(provider, where, "Acme renews in March.")
    memories = [where.memory_id, *(new_id("hmem") for _ in range(limits.MAX_MEMORIES - 1))]
    request = wire.RecallRequest(provider="native", memory_ids=memories, recall=asked)
    assert [hit.record.id for hit in (await provider.stub.Recall(request)).hits] == [one.id]
    request.memory_ids.append(new_id("hmem"))
    with pytest.raises(GroveError) as refused:
        await provider.stub.Recall(request)
    assert (refused.value.code, refused.value.param) == ("invalid_input", "memory_ids")


async def test_a_statement_ends_with_the_call_it_is_for(provider: Served, settings: Settings):
    where = address()
    one = await remember(provider, where, "Acme renews in March.")

    async def waiting(count: int) -> None:
        statement = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database() and query like '%from version%'"
        )
        async with asyncio.timeout(settings.db_statement_timeout_s / 3):
            while await (await watching.execute(statement)).fetchone() != (count,):  # noqa: ASYNC110 - Postgres' view
                await asyncio.sleep(0.02)

    watching = await psycopg.AsyncConnection.connect(settings.dsn(), autocommit=True)
    async with watching, await psycopg.AsyncConnection.connect(settings.dsn()) as other:
        await other.execute("lock table version in access exclusive mode")
        request = wire.GetRecordRequest(address=where, record_id=one.id)
        asked = asyncio.ensure_future(provider.stub.GetRecord(request, timeout=1.5))
        await waiting(1)
        with pytest.raises(GroveError) as refused:
            await asked
        assert refused.value.code == "grovekeeper_deadline"
        await waiting(0)
