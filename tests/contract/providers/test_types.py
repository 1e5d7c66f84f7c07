"""Extension types and their operations (Memories, section 8), of every provider that declares them."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from provider_workers.domain.model import (
    Draft,
    Operate,
    Operated,
    Operation,
    Record,
    RecordType,
    Stamp,
    Status,
)
from service_kit.attributes import projection
from service_kit.errors import GroveError
from service_kit.json_schema import json_schema
from tests.contract.providers.subject import ALICE, BOB, Subject

COUNTER = RecordType(
    type="x.counter",
    description="",
    schema=b'{"type":"object","properties":{"n":{"type":"number"},"by":{"type":"string"}}}',
    text="",
    projection=("attributes.by",),
    operations=(
        Operation(
            "sign",
            "",
            b"{}",
            "write",
            b'{"set":{"attributes.by":{"input":"who"},"attributes.n":{"input":"n"},"attributes.at":{"now":true}}}',
        ),
    ),
)


def known(subject: Subject, name: str) -> RecordType:
    return next(one for one in (*subject.adapter.types, COUNTER) if one.type == name)


async def made(subject: Subject, memory: str, kind: str, attributes: bytes) -> Record:
    draft = Draft(kind, (), attributes, projection=projection(attributes, known(subject, kind).projection))
    return await subject.adapter.remember(memory, draft, Stamp(ALICE))


async def operate(
    subject: Subject, record: Record, name: str, given: bytes = b"{}", expected: int = 0, key: str = ""
) -> Operated:
    kind = known(subject, record.type)
    operation = next(one for one in kind.operations if one.name == name)
    asked = Operate(kind.type, operation, given, kind.schema, kind.projection, expected)
    stamp = Stamp(BOB, key, given if key else b"")
    return await subject.adapter.operate(record.memory_id, record.id, asked, stamp)


async def event(subject: Subject, memory: str, **fields: object) -> Record:
    return await made(subject, memory, "x.calendar.event", json.dumps(fields).encode())


async def slots(subject: Subject, record: Record, **asked: object) -> dict[str, Any]:
    return json.loads((await operate(subject, record, "free_slots", json.dumps(asked).encode())).result)


def spans(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["starts_at"], one["ends_at"]) for one in result["slots"]]


@pytest.mark.requirement("ME-8-08")
async def test_the_types_a_provider_has_are_well_made(subject: Subject):
    for kind in subject.adapter.types:
        assert kind.type.startswith("x.")
        json_schema(kind.schema, "schema")
        for operation in kind.operations:
            json_schema(operation.input, "input")
            assert operation.description
    assert subject.adapter.capabilities.types or not subject.adapter.types


async def test_an_operation_is_one_version_and_leaves_every_other_byte(subject: Subject):
    raw = b'{"price": 1.10, "title":"Call \\u0041cme", "big":123456789012345678901234567890}'
    task = await made(subject, subject.memory(), "x.task", raw)
    done = (await operate(subject, task, "complete")).record
    assert done.attributes.startswith(
        b'{"price":1.10,"title":"Call \\u0041cme","big":123456789012345678901234567890,"status":"done","completed_at":'
    )
    assert (done.version, done.written_by, done.status) == (2, BOB, Status.ACTIVE)
    again = (await operate(subject, done, "reopen")).record
    assert json.loads(again.attributes)["status"] == "open"
    assert "completed_at" not in json.loads(again.attributes)
    history = await subject.adapter.history(task.memory_id, task.id)
    assert [one.attributes for one in history[:2]] == [raw, done.attributes]


async def test_two_operations_at_once_are_both_done(subject: Subject):
    record = await made(subject, subject.memory(), "x.counter", b'{"n":0}')
    answers = await asyncio.gather(
        *(operate(subject, record, "sign", b'{"n":%d}' % n) for n in range(6)),
    )
    assert sorted(one.record.version for one in answers) == list(range(2, 8))
    history = await subject.adapter.history(record.memory_id, record.id)
    assert sorted(json.loads(one.attributes)["n"] for one in history) == [0, 0, 1, 2, 3, 4, 5]


async def test_an_operation_may_expect_a_version_and_a_key_makes_it_once(subject: Subject):
    record = await made(subject, subject.memory(), "x.counter", b'{"n":0}')
    first = await operate(subject, record, "sign", b'{"n":1}', expected=1, key="k")
    assert await operate(subject, record, "sign", b'{"n":1}', expected=1, key="k") == first
    for given, key, code in (
        (b'{"n":2}', "", "grovekeeper_conflict"),
        (b'{"n":2}', "k", "grovekeeper_idempotency_mismatch"),
    ):
        with pytest.raises(GroveError) as refused:
            await operate(subject, record, "sign", given, expected=1, key=key)
        assert refused.value.code == code


async def test_a_record_never_stops_satisfying_its_schema(subject: Subject):
    record = await made(subject, subject.memory(), "x.counter", b'{"n":0}')
    with pytest.raises(GroveError) as refused:
        await operate(subject, record, "sign", b'{"n":"many"}')
    assert (refused.value.code, refused.value.param) == ("memory_invalid", "attributes.n")
    assert (await subject.adapter.get(record.memory_id, record.id, None)).version == 1


async def test_an_operation_reaches_records_of_its_type_in_its_memory_only(subject: Subject):
    memory = subject.memory()
    task = await made(subject, memory, "x.task", b'{"title":"Call"}')
    fact = await subject.state(memory, "A fact.")
    for wrong in (replace(task, memory_id=subject.memory()), replace(fact, type="x.task")):
        with pytest.raises(GroveError) as refused:
            await operate(subject, wrong, "complete")
        assert refused.value.code == "memory_record_not_found"
    await subject.forget(task)
    with pytest.raises(GroveError) as refused:
        await operate(subject, task, "complete")
    assert refused.value.code == "grovekeeper_conflict"


async def test_a_record_is_found_by_its_projection_as_it_is_now(subject: Subject):
    memory = subject.memory()
    record = await made(subject, memory, "x.counter", b'{"by":"Hildegard"}')
    await subject.state(memory, "Something else entirely.")
    for question in ({"text": "Hildegard"}, {"query": "Hildegard"}):
        hits = (await subject.ask(memory, **question)).hits
        assert hits[0].record == record
    revised = await subject.revise(record, "Signed in ink.")
    assert [one.record for one in (await subject.ask(memory, text="Hildegard")).hits] == [revised]
    assert [one.record for one in (await subject.ask(memory, text="ink")).hits] == [revised]
    signed = (await operate(subject, revised, "sign", b'{"who":"Wolfram"}')).record
    assert (await subject.ask(memory, text="Hildegard")).hits == ()
    assert [one.record for one in (await subject.ask(memory, text="Wolfram")).hits] == [signed]
    assert [one.record for one in (await subject.ask(memory, text="ink")).hits] == [signed]


DAY = {"from": "2026-10-05T08:00:00Z", "to": "2026-10-05T18:00:00Z"}


async def test_slots_are_what_no_other_event_takes(subject: Subject):
    memory = subject.memory()
    own = await event(subject, memory, starts_at="2026-10-05T09:00:00Z", ends_at="2026-10-05T10:00:00Z")
    for begins, ends in (
        ("10:00:00Z", "11:30:00Z"),
        ("11:00:00Z", "12:00:00Z"),  # overlaps
        ("14:00:00+02:00", "15:00:00+02:00"),  # at noon
        ("17:30:00Z", "19:00:00Z"),  # reaches out
    ):
        await event(subject, memory, starts_at=f"2026-10-05T{begins}", ends_at=f"2026-10-05T{ends}")
    await event(
        subject,
        memory,
        starts_at="2026-10-05T14:00:00Z",
        ends_at="2026-10-05T15:00:00Z",
        status="cancelled",
    )
    await event(subject, subject.memory(), starts_at="2026-10-05T08:00:00Z", ends_at="2026-10-05T18:00:00Z")
    odd = await event(subject, memory, starts_at="2026-02-30T08:00:00Z", ends_at="2026-10-05T18:00:00Z")
    found = await slots(subject, own, **DAY)
    assert spans(found) == [
        ("2026-10-05T08:00:00Z", "2026-10-05T10:00:00Z"),
        ("2026-10-05T13:00:00Z", "2026-10-05T17:30:00Z"),
    ]
    assert [one["minutes"] for one in found["slots"]] == [120, 270]
    assert (found["more"], found["not_understood"]) == (False, [odd.id])
    assert spans(await slots(subject, own, **DAY, minutes=121)) == [
        ("2026-10-05T13:00:00Z", "2026-10-05T17:30:00Z")
    ]


async def test_what_lasts_all_day_takes_the_day_of_its_time_zone(subject: Subject):
    memory = subject.memory()
    own = await event(subject, memory, starts_at="2026-10-25T09:00:00+02:00", time_zone="Europe/Zurich")
    # The clocks go back on that day: it has 25 hours.
    await event(subject, memory, starts_at="2026-10-25", time_zone="Europe/Zurich")
    found = await slots(subject, own, **{"from": "2026-10-24T20:00:00Z", "to": "2026-10-26T00:00:00Z"})
    assert spans(found) == [
        ("2026-10-24T22:00:00+02:00", "2026-10-25T00:00:00+02:00"),
        ("2026-10-26T00:00:00+01:00", "2026-10-26T01:00:00+01:00"),
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"from": "2026-10-05T08:00:00Z", "to": "2026-10-05T08:00:00Z"},
        {"from": "2026-10-06T08:00:00Z", "to": "2026-10-05T08:00:00Z"},
        {"from": "2026-10-05T08:00:00Z", "to": "2028-10-05T08:00:00Z"},
        {"from": "2026-13-05T08:00:00Z", "to": "2026-10-05T08:00:00Z"},
    ],
)
async def test_a_span_that_is_none_has_no_slots(subject: Subject, asked: dict[str, object]):
    own = await event(subject, subject.memory(), starts_at="2026-10-05T09:00:00Z")
    with pytest.raises(GroveError) as refused:
        await slots(subject, own, **asked)
    assert refused.value.code == "memory_invalid"


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York", "Etc/Nowhere", "../../etc", ""])
@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
async def test_a_day_at_either_end_of_the_calendar_keeps_no_slots_from_being_computed(
    subject: Subject, day: str, zone: str
):
    memory = subject.memory()
    own = await event(subject, memory, starts_at="2026-10-05T09:00:00Z", time_zone=zone)
    await made(
        subject,
        memory,
        "x.calendar.event",
        f'{{"starts_at":"{day}","time_zone":"{zone}","n":1e400}}'.encode(),
    )
    own_day = {"from": f"{day}T00:00:00Z", "to": f"{day}T23:59:59Z"}
    assert (await slots(subject, own, **own_day))["not_understood"] == []
    today = await slots(subject, own, **{"from": "2026-10-05T00:00:00Z", "to": "2026-10-06T00:00:00Z"})
    assert [one["minutes"] for one in today["slots"]] == [24 * 60]


@pytest.mark.parametrize(
    ("minutes", "found"), [("600.0", 1), ("1e3", 1), ("1441", 0), ("1e300", 0), ("1e400", 0), ("9" * 400, 0)]
)
async def test_the_shortest_slot_worth_naming_is_any_whole_number(subject: Subject, minutes: str, found: int):
    own = await event(subject, subject.memory(), starts_at="2026-10-05T09:00:00Z")
    asked = f'{{"from":"2026-10-05T00:00:00Z","to":"2026-10-06T00:00:00Z","minutes":{minutes}}}'
    answer = json.loads((await operate(subject, own, "free_slots", asked.encode())).result)
    assert len(answer["slots"]) == found


async def test_a_moved_event_keeps_its_length_and_its_other_bytes(subject: Subject):
    raw = b'{"title":"Sync","starts_at":"2026-10-05T09:00:00+02:00","n":1.10,"ends_at":"2026-10-05T10:30:00+02:00"}'
    record = await made(subject, subject.memory(), "x.calendar.event", raw)
    moved = (
        await operate(subject, record, "reschedule", b'{"starts_at":"2026-10-06T13:00:00+02:00"}')
    ).record
    assert moved.attributes == raw.replace(b"05T09:00", b"06T13:00").replace(b"05T10:30", b"06T14:30")
    for given in (
        b'{"starts_at":"2026-10-06T13:00:00Z","ends_at":"2026-10-06T12:00:00Z"}',
        b'{"starts_at":"2026-10-06"}',
        b'{"starts_at":"2026-02-30"}',
    ):
        with pytest.raises(GroveError) as refused:
            await operate(subject, moved, "reschedule", given)
        assert refused.value.code == "memory_invalid"
