"""Remember, revise, forget: what is written is what is read, and nothing is overwritten (sections 4 and 5)."""

from datetime import UTC, datetime

import pytest

from provider_workers.domain.model import (
    Changes,
    Draft,
    Include,
    Page,
    Part,
    Reference,
    Selection,
    Stamp,
    Status,
)
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.contract.providers.subject import ALICE, BOB, Subject, fact, found, text_of, words

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
APRIL = datetime(2026, 4, 1, 12, 30, 0, 123456, tzinfo=UTC)


@pytest.mark.requirement("ME-4-07", "ME-5.1-05", "ME-4.2-01")
async def test_what_is_remembered_reads_back_as_it_was_stated(subject: Subject):
    memory, other = subject.memory(), subject.memory()
    draft = Draft(
        "fact",
        (Part("text", "Acme renews in March.", "user"), Part("text", "  So says Ann.\n")),
        b'{ "account": "acme" }',
        MARCH,
        APRIL,
        (Reference("about", other, new_id("hrec")),),
    )
    written = await subject.adapter.remember(memory, draft, Stamp(ALICE))
    read = await subject.adapter.get(memory, written.id, None)
    assert read == written
    assert (read.type, read.content, read.attributes) == (draft.type, draft.content, draft.attributes)
    assert (read.valid_from, read.valid_to, read.references) == (MARCH, APRIL, draft.references)
    assert (read.version, read.status, read.written_by) == (1, Status.ACTIVE, ALICE)
    assert read.memory_id == memory
    assert read.invalidated_at is None


@pytest.mark.requirement("ME-4-04")
@pytest.mark.parametrize(
    "attributes",
    [
        b'{"n":12345678901234567890.1234567890,"b":1,"a":2,"b2":1e400}',
        b'{"z":1,"a":{"y":2,"b":3}, "a":"twice"}',
        '{"emoji":"🎉","cjk":"续约","esc":"\\u00e9\\ud83c\\udf89","rtl":"مرحبا"}'.encode(),
        b'{"nul":"a\\u0000b","lone":"\\ud800"}',
        b'{"deep":' + b"[" * 500 + b"]" * 500 + b"}",
        b"{\n}",
        b"",
    ],
    ids=["numbers", "order", "unicode", "refused by jsonb", "deep", "space", "empty"],
)
async def test_attributes_are_kept_byte_for_byte(subject: Subject, attributes: bytes):
    memory = subject.memory()
    one = await subject.state(memory, "Something with attributes.", attributes)
    assert (await subject.adapter.get(memory, one.id, None)).attributes == attributes
    assert (await subject.adapter.history(memory, one.id))[0].attributes == attributes
    revised = await subject.revise(one, "Something else with attributes.")
    assert revised.attributes == attributes


@pytest.mark.parametrize(
    "text",
    [
        "🎉🎉",
        "我们在三月续约",
        "مرحبا بالعالم",
        "a\0b",
        "e\u0301 \u200b",
        "'; drop table version; --",
        "%s {} \\",
    ],
)
async def test_any_text_is_kept_as_it_is(subject: Subject, text: str):
    memory = subject.memory()
    one = await subject.state(memory, text)
    assert text_of(await subject.adapter.get(memory, one.id, None)) == text
    assert found(await subject.ask(memory, text, text=text)) == [text]


@pytest.mark.requirement("ME-4.1-05", "ME-4.1-06", "SU-revisions-10")
async def test_a_record_and_a_part_of_an_unknown_type_are_carried_unchanged(subject: Subject):
    memory = subject.memory()
    part = Part("x.chart", raw=b'{"type":"x.chart","points":[1,2.50],"text":"sales went up"}')
    draft = Draft("x.board.card", (part, Part("text", "A card.")))
    one = await subject.adapter.remember(memory, draft, Stamp(ALICE))
    read = await subject.adapter.get(memory, one.id, None)
    assert (read.type, read.content) == ("x.board.card", draft.content)
    assert [hit.record.id for hit in (await subject.ask(memory, text="sales")).hits] == [one.id]


@pytest.mark.requirement("ME-4.1-03")
async def test_a_link_without_content_is_found_by_what_it_points_to(subject: Subject):
    memory = subject.memory()
    link = Draft("link", (), b'{"url":"https://example.org/handbook","description":"Warranty handbook"}')
    one = await subject.adapter.remember(memory, link, Stamp(ALICE))
    assert [hit.record.id for hit in (await subject.ask(memory, text="warranty")).hits] == [one.id]
    described = Draft("link", words("Where the spare keys hang."), b'{"address":"the hall of Mill Street 5"}')
    two = await subject.adapter.remember(memory, described, Stamp(ALICE))
    for text in ("keys", "hall"):
        assert [hit.record.id for hit in (await subject.ask(memory, text=text)).hits] == [two.id]
    with pytest.raises(GroveError) as refused:
        await subject.adapter.revise(memory, two.id, Changes(attributes=b"{}"), 0, Stamp(ALICE))
    assert (refused.value.code, refused.value.param) == ("memory_invalid", "attributes")


async def test_a_very_long_record_is_kept_and_found_by_its_last_words(subject: Subject):
    memory = subject.memory()
    text = " ".join(f"word{n}" for n in range(60_000)) + " xylophone"
    one = await subject.state(memory, text)
    assert [hit.record.id for hit in (await subject.ask(memory, text="xylophone")).hits] == [one.id]


@pytest.mark.requirement("ME-4-05", "ME-5.3-01", "ME-5.3-02")
async def test_a_revision_appends_a_version_and_closes_the_one_before(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.", b'{"account":"acme"}', valid_from=MARCH)
    two = await subject.revise(one, "Acme renews in April.")
    assert (two.id, two.version, two.status, two.written_by) == (one.id, 2, Status.ACTIVE, BOB)
    assert (two.attributes, two.valid_from, two.type) == (one.attributes, MARCH, "fact")
    first, second = await subject.adapter.history(memory, one.id)
    assert (text_of(first), first.status, first.written_by) == (text_of(one), Status.SUPERSEDED, ALICE)
    assert second == two
    assert first.invalidated_at == second.written_at > first.written_at
    assert await subject.listed(memory) == ["Acme renews in April."]


async def test_a_revision_changes_only_what_it_names(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.", b'{"a":1}', valid_from=MARCH, valid_to=APRIL)
    changes = Changes(attributes=b'{"a":2}', clear=frozenset({"valid_to"}))
    two = await subject.adapter.revise(memory, one.id, changes, 0, Stamp(BOB))
    assert (two.content, two.attributes, two.valid_from, two.valid_to) == (
        one.content,
        b'{"a":2}',
        MARCH,
        None,
    )
    reference = Reference("about", memory, one.id)
    three = await subject.adapter.revise(memory, one.id, Changes(references=(reference,)), 0, Stamp(BOB))
    assert (three.references, three.attributes) == ((reference,), b'{"a":2}')
    four = await subject.adapter.revise(memory, one.id, Changes(references=(), valid_to=APRIL), 0, Stamp(BOB))
    assert (four.references, four.valid_to, four.version) == ((), APRIL, 4)


async def test_a_revision_that_would_end_before_it_begins_is_refused(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.", valid_from=APRIL)
    with pytest.raises(GroveError, match="before it starts"):
        await subject.adapter.revise(memory, one.id, Changes(valid_to=MARCH), 0, Stamp(BOB))
    assert len(await subject.adapter.history(memory, one.id)) == 1


async def test_a_revision_that_expects_another_version_is_a_conflict_that_says_which(subject: Subject):
    one = await subject.state(subject.memory(), "Acme renews in March.")
    await subject.revise(one, "Acme renews in April.", expected=1)
    with pytest.raises(GroveError) as refused:
        await subject.revise(one, "Acme renews in May.", expected=1)
    assert (refused.value.code, refused.value.detail) == ("grovekeeper_conflict", {"version": 2})
    assert await subject.listed(one.memory_id) == ["Acme renews in April."]


@pytest.mark.requirement("ME-4.1-02")
async def test_an_episode_is_not_revised(subject: Subject):
    memory = subject.memory()
    episode = await subject.adapter.remember(memory, Draft("episode", words("It rained.")), Stamp(ALICE))
    with pytest.raises(GroveError) as refused:
        await subject.revise(episode, "It snowed.")
    assert refused.value.code == "memory_unsupported"


@pytest.mark.requirement("ME-5.2-01", "ME-5.2-02")
async def test_a_forgotten_record_leaves_every_read_that_does_not_ask_for_history(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    closed = await subject.forget(one)
    assert (closed.id, closed.version, closed.status) == (one.id, 1, Status.FORGOTTEN)
    assert closed.invalidated_at is not None
    assert await subject.adapter.get(memory, one.id, None) == closed
    assert await subject.adapter.history(memory, one.id) == (closed,)
    assert await subject.listed(memory) == []
    assert found(await subject.ask(memory, "when does Acme renew", text="March")) == []
    assert (await subject.adapter.count([memory])).get(memory, 0) == 0
    for include in (Include.FORGOTTEN, Include.ALL):
        assert await subject.listed(memory, include=include) == ["Acme renews in March."]
        assert found(await subject.ask(memory, text="March", include=include)) == ["Acme renews in March."]
    assert await subject.listed(memory, include=Include.SUPERSEDED) == []


async def test_forgetting_twice_answers_the_same_and_revising_after_is_a_conflict(subject: Subject):
    one = await subject.state(subject.memory(), "Acme renews in March.")
    assert await subject.forget(one) == await subject.forget(one)
    with pytest.raises(GroveError) as refused:
        await subject.revise(one, "Acme renews in April.")
    assert refused.value.code == "grovekeeper_conflict"
    with pytest.raises(GroveError) as refused:
        await subject.adapter.forget(one.memory_id, one.id, 7, Stamp(BOB))
    assert refused.value.code == "grovekeeper_conflict"


@pytest.mark.requirement("ME-4-06")
async def test_a_record_that_supersedes_another_takes_its_place(subject: Subject):
    memory = subject.memory()
    old = await subject.state(memory, "Acme renews in March.")
    draft = Draft("fact", words("Acme renews in April."), supersedes=old.id)
    new = await subject.adapter.remember(memory, draft, Stamp(BOB))
    replaced = await subject.adapter.get(memory, old.id, None)
    assert new.supersedes == old.id
    assert (replaced.status, replaced.invalidated_at) == (Status.SUPERSEDED, new.written_at)
    assert await subject.listed(memory) == ["Acme renews in April."]
    assert await subject.listed(memory, include=Include.SUPERSEDED) == ["Acme renews in March."]
    with pytest.raises(GroveError) as refused:
        await subject.adapter.remember(memory, draft, Stamp(BOB))
    assert (refused.value.code, refused.value.param) == ("grovekeeper_conflict", "supersedes")
    with pytest.raises(GroveError) as refused:
        await subject.revise(old, "Acme renews in May.")
    assert refused.value.code == "grovekeeper_conflict"


async def test_superseding_what_is_not_there_writes_nothing(subject: Subject):
    memory, other = subject.memory(), subject.memory()
    elsewhere = await subject.state(other, "Acme renews in March.")
    for record_id in (new_id("hrec"), elsewhere.id):
        draft = Draft("fact", words("Acme renews in April."), supersedes=record_id)
        with pytest.raises(GroveError) as refused:
            await subject.adapter.remember(memory, draft, Stamp(ALICE))
        assert (refused.value.code, refused.value.param) == ("memory_record_not_found", "supersedes")
    assert await subject.listed(memory) == []
    assert await subject.adapter.get(other, elsewhere.id, None) == elsewhere


async def test_a_superseded_record_can_still_be_forgotten(subject: Subject):
    memory = subject.memory()
    old = await subject.state(memory, "Acme renews in March.")
    await subject.adapter.remember(
        memory, Draft("fact", words("Acme renews in April."), supersedes=old.id), Stamp(ALICE)
    )
    assert (await subject.forget(old)).status is Status.FORGOTTEN
    assert await subject.listed(memory, include=Include.SUPERSEDED) == []


@pytest.mark.requirement("ME-5-02")
async def test_a_list_goes_through_everything_once_whatever_is_written_meanwhile(subject: Subject):
    memory = subject.memory()
    records = [await subject.state(memory, f"Fact {n} is that.") for n in range(7)]
    seen, cursor = list[str](), ""
    while True:
        page = await subject.adapter.list(memory, Selection(), Page(2, cursor))
        seen += [text_of(one) for one in page.records]
        cursor = page.next_cursor
        if not cursor:
            break
        await subject.state(memory, f"Written while listing, after {len(seen)}.")
        await subject.revise(records[0], f"Fact 0 is that, said {len(seen)} times.")
    assert [text.split(",")[0].rstrip(".") for text in seen] == [
        f"Fact {n} is that" for n in range(6, -1, -1)
    ]


async def test_a_page_that_ends_exactly_with_the_list_has_no_next(subject: Subject):
    memory = subject.memory()
    for n in range(4):
        await subject.state(memory, f"Fact {n} is that.")
    page = await subject.adapter.list(memory, Selection(), Page(2))
    page = await subject.adapter.list(memory, Selection(), Page(2, page.next_cursor))
    assert (len(page.records), page.next_cursor) == (2, "")


async def test_a_cursor_of_nobody_is_refused(subject: Subject):
    for cursor in ("nonsense", "WzEsMl0", "WyJ4IiwieSIsMV0", "Wzk5OTk5OTk5OTk5OTk5OTk5OTksIngiLDFd"):
        with pytest.raises(GroveError) as refused:
            await subject.adapter.list(subject.memory(), Selection(), Page(2, cursor))
        assert (refused.value.code, refused.value.param) == ("invalid_input", "cursor")


async def test_a_list_can_be_of_some_types(subject: Subject):
    memory = subject.memory()
    await subject.state(memory, "Acme renews in March.")
    await subject.adapter.remember(memory, Draft("note", words("A note.")), Stamp(ALICE))
    page = await subject.adapter.list(memory, Selection(types=("note", "procedure")), Page())
    assert [one.type for one in page.records] == ["note"]


async def test_large_records_come_in_pages_that_fit_an_answer(subject: Subject):
    memory = subject.memory()
    for n in range(10):
        await subject.adapter.remember(memory, fact(f"{n} " + "x" * 1_000_000), Stamp(ALICE))
    seen, cursor = 0, ""
    while True:
        page = await subject.adapter.list(memory, Selection(), Page(50, cursor))
        assert sum(len(text_of(one)) for one in page.records) < 16_000_000
        seen += len(page.records)
        cursor = page.next_cursor
        if not cursor:
            break
    assert seen == 10
    answer = await subject.ask(memory, where := "x", limit=50, text=where)
    assert len(answer.hits) < 10
    assert "limit:capped_by_size" in answer.degraded


async def test_a_history_too_large_for_one_answer_says_so(subject: Subject):
    one = await subject.adapter.remember(subject.memory(), fact("x" * 1_000_000), Stamp(ALICE))
    for n in range(9):
        await subject.revise(one, f"{n} " + "x" * 1_000_000)
    with pytest.raises(GroveError) as refused:
        await subject.adapter.history(one.memory_id, one.id)
    assert refused.value.code == "grovekeeper_too_large"
    assert (await subject.adapter.get(one.memory_id, one.id, one.written_at)).version == 1
