"""Filters are true or false for every record, compared by type, and safe whatever is put into them (6.2)."""

from datetime import UTC, datetime

import pytest

from provider_workers.domain.filters import All, Any, Condition, Filter, Not, condition
from provider_workers.domain.model import Draft, Include, Page, Selection, Stamp
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, Subject, found, words

RECORDS = {
    "a": b'{"account":"acme","size":3,"tags":["x","y"],"deep":{"er":{"n":1}},"flag":true,"none":null}',
    "b": b'{"account":"Beta","size":10,"price":12345678901234567890.5,"deep":{"er":{"n":2}},"flag":false}',
    "c": b'{"account":"acme","size":"10","when":"2026-10-01","odd.key":1}',
    "d": b'{"account":null,"nul":"a\\u0000"}',  # Postgres' jsonb refuses it: nothing of it can be looked at
    "e": b"",
}


def where(field: str, op: str, value: str) -> Condition:
    return condition(field, op, value.encode())


CASES: list[tuple[Filter, str]] = [
    (where("attributes.account", "eq", '"acme"'), "ac"),
    (where("attributes.account", "ne", '"acme"'), "be"),
    (where("attributes.account", "in", '["acme","Beta"]'), "abc"),
    (where("attributes.account", "nin", '["acme"]'), "be"),
    (where("attributes.account", "in", "[]"), ""),
    (where("attributes.account", "eq", "null"), "e"),
    (where("attributes.none", "eq", "null"), "abce"),
    (where("attributes.none", "exists", "true"), "a"),
    (where("attributes.none", "exists", "false"), "bce"),
    (where("attributes.account", "exists", ""), "abc"),
    (where("attributes.account", "in", '["Beta",null]'), "be"),
    (where("attributes.size", "eq", "10"), "b"),
    (where("attributes.size", "eq", "10.0"), "b"),
    (where("attributes.size", "eq", '"10"'), "c"),
    (where("attributes.size", "gt", "3"), "b"),
    (where("attributes.size", "gte", "3"), "ab"),
    (where("attributes.size", "lt", "10.5"), "ab"),
    (where("attributes.size", "lte", "3"), "a"),
    (where("attributes.size", "gt", '"1"'), "c"),
    (where("attributes.price", "eq", "12345678901234567890.5"), "b"),
    (where("attributes.price", "gt", "12345678901234567890.4"), "b"),
    (where("attributes.price", "gt", "12345678901234567890.6"), ""),
    (where("attributes.when", "gte", '"2026-09-30"'), "c"),
    (where("attributes.account", "gt", '"Z"'), "ac"),  # by code point: capitals first
    (where("attributes.flag", "eq", "true"), "a"),
    (where("attributes.deep.er.n", "gte", "2"), "b"),
    (where("attributes.deep.er", "eq", '{ "n" : 1 }'), "a"),
    (where("attributes.tags", "eq", '["x", "y"]'), "a"),
    (where("attributes.tags.1", "eq", '"y"'), "a"),
    (where("attributes.account", "eq", '"\' or true --"'), ""),
    (where("attributes.account'; drop table version; --", "exists", "true"), ""),
    (where("attributes.{a,b}", "exists", "true"), ""),
    (where("attributes.%(p0)s", "exists", "true"), ""),
    (where("type", "eq", '"fact"'), "abcd"),
    (where("type", "ne", '"fact"'), "e"),
    (where("type", "in", '["note","procedure"]'), "e"),
    (where("type", "exists", "true"), "abcde"),
    (where("time.valid_from", "gte", '"2026-03-02"'), "bcde"),
    (where("time.valid_from", "lt", '"2026-03-02T00:00:00Z"'), "a"),
    (where("time.valid_from", "eq", '"2026-03-03T01:00:00+01:00"'), "c"),
    (where("time.valid_to", "exists", "true"), "a"),
    (where("time.valid_to", "eq", "null"), "bcde"),
    (where("time.valid_to", "ne", "null"), "a"),
    (where("time.written_at", "gt", '"2020-01-01"'), "abcde"),
    (where("time.written_at", "gt", '"2100-01-01"'), ""),
    (where("time.invalidated_at", "exists", "false"), "abcde"),
    (All((where("attributes.account", "eq", '"acme"'), where("attributes.size", "eq", "3"))), "a"),
    (Any((where("attributes.size", "eq", "3"), where("attributes.flag", "eq", "false"))), "ab"),
    (Not(where("attributes.account", "eq", '"acme"')), "be"),
    (Not(where("attributes.size", "gt", "3")), "ace"),
    (All(()), "abcde"),
    (Any(()), ""),
    (where(r"attributes.odd\.key", "eq", "1"), "c"),
    (where("attributes.odd.key", "exists", "true"), ""),
    (where('attributes.ключ "with" quotes', "exists", "false"), "abce"),
    # What cannot be decided is neither true nor false, and a tree is where the rest of it decides.
    (Any((where("attributes.account", "eq", '"acme"'), where("type", "eq", '"fact"'))), "abcd"),
    (All((where("attributes.account", "eq", '"acme"'), where("type", "eq", '"note"'))), ""),
    (Not(All((where("attributes.account", "ne", "1"), where("type", "eq", '"note"')))), "abcd"),
]


@pytest.fixture
async def memory(subject: Subject) -> str:
    """Records named by their text; ``e`` is a note, the others facts; ``valid_from`` rises by a day."""
    made = subject.memory()
    for day, (name, attributes) in enumerate(RECORDS.items(), start=1):
        kind, end = (
            ("note" if name == "e" else "fact"),
            (datetime(2026, 4, 1, tzinfo=UTC) if name == "a" else None),
        )
        draft = Draft(kind, words(name), attributes, datetime(2026, 3, day, tzinfo=UTC), end)
        await subject.adapter.remember(made, draft, Stamp(ALICE))
    return made


@pytest.mark.requirement("ME-6.2-03", "SU-memories-09")
async def test_every_operation_on_every_kind_of_field(subject: Subject, memory: str):
    wrong = dict[str, tuple[str, str]]()
    for tree, expected in CASES:
        listed = "".join(sorted(await subject.listed(memory, where=tree)))
        recalled = "".join(sorted(found(await subject.ask(memory, filter=tree, limit=50))))
        if not listed == recalled == expected:
            wrong[str(tree)] = (listed, recalled)
    assert wrong == {}


async def test_filters_alone_answer_the_newest_first(subject: Subject, memory: str):
    answer = await subject.ask(memory, filter=where("type", "eq", '"fact"'), limit=3)
    assert found(answer) == ["d", "c", "b"]
    assert {hit.why for hit in answer.hits} == {("filters",)}
    assert (answer.degraded, answer.abstain) == ((), False)


@pytest.mark.requirement("ME-6.2-05")
async def test_filters_restrict_the_other_signals(subject: Subject, memory: str):
    answer = await subject.ask(memory, "a", text="a b c", filter=where("attributes.size", "lte", "10"))
    assert sorted(found(answer)) == ["a", "b"]
    assert all(hit.why[-1] == "filters" for hit in answer.hits)


async def test_a_filter_looks_at_the_moment_asked_for(subject: Subject, memory: str):
    page = await subject.adapter.list(memory, Selection(filter=where("attributes.size", "eq", "3")), Page())
    (one,) = page.records
    closed = await subject.forget(one)
    assert closed.invalidated_at is not None
    instant = closed.invalidated_at.isoformat()
    still_open = where("time.invalidated_at", "exists", "false")
    before = await subject.ask(memory, filter=still_open, as_of=one.written_at, include=Include.ALL)
    assert found(before) == ["a"]
    after = where("time.invalidated_at", "eq", f'"{instant}"')
    assert await subject.listed(memory, include=Include.ALL, where=after) == ["a"]


async def test_a_value_the_database_cannot_compare_is_the_callers_fault(subject: Subject, memory: str):
    for tree in (where("attributes.account", "eq", '"a\\u0000"'), where("type", "eq", '"a\\u0000"')):
        with pytest.raises(GroveError) as refused:
            await subject.ask(memory, filter=tree)
        assert refused.value.code == "invalid_input"


UNDECIDED = ("filters:attributes_not_comparable",)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (where("attributes.account", "ne", '"acme"'), UNDECIDED),
        (Not(where("attributes.account", "eq", '"acme"')), UNDECIDED),
        (All((where("attributes.account", "exists", "false"), where("type", "eq", '"fact"'))), UNDECIDED),
        (All((where("attributes.account", "exists", "false"), where("type", "eq", '"note"'))), ()),
        (Any((where("attributes.account", "exists", "false"), where("type", "eq", '"fact"'))), ()),
        (where("type", "eq", '"fact"'), ()),
    ],
)
async def test_records_a_filter_cannot_be_decided_for_are_left_out_and_that_is_said(
    subject: Subject, memory: str, asked: Filter, said: tuple[str, ...]
):
    page = await subject.adapter.list(memory, Selection(filter=asked), Page())
    assert page.degraded == said
    assert (await subject.ask(memory, filter=asked)).degraded == said
    empty = await subject.adapter.list(subject.memory(), Selection(filter=asked), Page())
    assert empty.degraded == ()


@pytest.mark.parametrize(
    ("field", "op", "value", "message"),
    [
        (
            "attributes.n",
            "gt",
            "true",
            "The filter gt on attributes.n takes a number or a string, not a boolean.",
        ),
        (
            "attributes.n",
            "lte",
            "null",
            "The filter lte on attributes.n takes a number or a string, not null.",
        ),
        ("attributes.n", "in", "1", "The filter in on attributes.n takes a list."),
        ("attributes.n", "exists", "1", "The filter exists on attributes.n takes true or false."),
        (
            "attributes.n",
            "eq",
            "1e99999",
            "The number in the filter on attributes.n is too large to compare.",
        ),
        ("attributes.n", "eq", "{", "The value of the filter on attributes.n is not JSON."),
        (
            "attributes.n",
            "like",
            "1",
            "The filter on attributes.n takes one of eq, ne, in, nin, gt, gte, lt, lte,",
        ),
        ("type", "gt", "1", "The filter gt on type takes a string, not a number."),
        (
            "time.valid_from",
            "gt",
            '"noon"',
            "The filter gt on time.valid_from takes a time such as 2026-10-01T",
        ),
        (
            "time.valid_to",
            "lt",
            '"2026-10-01T10:00:00"',
            "The filter lt on time.valid_to takes a time such as",
        ),
        ("time.valid_to", "lt", "5", "The filter lt on time.valid_to takes a string, not a number."),
        ("time.created", "eq", "1", "A filter cannot look at the field 'time.created': it is type,"),
        (
            "attributes",
            "eq",
            "1",
            "A filter cannot look at the field 'attributes': it is type, attributes.<name>",
        ),
        ("content", "eq", "1", "A filter cannot look at the field 'content'"),
    ],
)
def test_a_refused_condition_says_what_of_it_is_wrong(field: str, op: str, value: str, message: str):
    with pytest.raises(GroveError) as refused:
        where(field, op, value)
    assert refused.value.code == "invalid_input"
    assert refused.value.message.startswith(message)
