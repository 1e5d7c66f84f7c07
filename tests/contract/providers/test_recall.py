"""Recall by meaning, by words and by fields, fused; honest about why, and about not knowing (section 6)."""

import pytest

from provider_workers.domain import limits
from provider_workers.domain.filters import condition
from provider_workers.domain.model import Changes, Draft, Include, Stamp
from tests.contract.providers.subject import ALICE, BOB, Subject, fact, found, text_of, words

DESK = (
    "Acme renews in March and wants the annual discount kept.",
    "The hub at Mill Street blinks amber because it cannot join the Wi-Fi.",
    "Greta prefers to be called after four in the afternoon.",
    "Invoices for the bakery go to accounts@halden.example.",
    "The warranty of a sensor puck is two years.",
    "Sam is allergic to walnuts.",
)


@pytest.fixture
async def desk(subject: Subject) -> str:
    memory = subject.memory()
    for text in DESK:
        await subject.state(memory, text)
    return memory


@pytest.mark.requirement("ME-6.2-01", "ME-6.2-02")
async def test_a_record_is_recalled_by_meaning_and_by_words_the_moment_it_is_remembered(
    subject: Subject, desk: str
):
    text = "The zebra enclosure opens at nine."
    await subject.state(desk, text)
    assert found(await subject.ask(desk, "when can I see the striped animals?"))[0] == text
    assert found(await subject.ask(desk, text="zebra")) == [text]
    await subject.adapter.remember(desk, fact("The zebra enclosure stays closed today."), Stamp(BOB))
    assert len((await subject.ask(desk, text="zebra")).hits) == 2


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("when does the contract with Acme end?", DESK[0]),
        ("why is the light of the hub orange?", DESK[1]),
        ("what time should I phone Greta?", DESK[2]),
        ("where do I send bills?", DESK[3]),
        ("how long is the guarantee on the hardware?", DESK[4]),
        ("can Sam eat nut cake?", DESK[5]),
    ],
)
async def test_a_question_in_other_words_finds_its_answer_first(
    subject: Subject, desk: str, question: str, answer: str
):
    assert found(await subject.ask(desk, question))[0] == answer


async def test_words_are_found_in_any_form_case_and_accent(subject: Subject):
    memory = subject.memory()
    await subject.state(memory, "The cafés were RENEWING their contracts.")
    for asked in ("cafe", "Café", "renewal renew", "contract"):
        assert len((await subject.ask(memory, text=asked)).hits) == 1, asked
    assert (await subject.ask(memory, text="bakery")).hits == ()


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("我们在三月续约合同", "续约"),
        ("私は東京に住んでいます", "東京"),
        ("한국어로 이야기합시다", "한국어"),
        ("สวัสดีชาวโลก", "ชาวโลก"),
        ("مرحبا بالعالم الجديد", "بالعالم"),
        ("Привет, большой мир", "МИР"),
        ("हिन्दी में लिखा हुआ", "हिन्दी"),
        ("Release day 🎉 is here", "🎉"),
        ("call f(x) -> y here", "->"),
        ("to be or not to be", "to be"),
        ("the C++ compiler", "c++"),
        ("version 12345678901234567890", "12345678901234567890"),
        ("mail anna@acme.example now", "acme"),
    ],
)
async def test_words_are_found_in_every_script(subject: Subject, said: str, asked: str):
    memory = subject.memory()
    await subject.state(memory, "Something else altogether.")
    await subject.state(memory, said)
    answer = await subject.ask(memory, text=asked)
    assert found(answer) == [said]
    assert answer.hits[0].why == ("text",)


async def test_text_that_nobody_wrote_finds_nothing_and_breaks_nothing(subject: Subject, desk: str):
    for asked in ("xylophone", "🦑", "龘", "!!!", "& | ! :* <-> ( )", "\\", "'", "\0", "a" * 9_000):
        answer = await subject.ask(desk, text=asked)
        assert (answer.hits, answer.abstain) == ((), True), asked
        await subject.ask(desk, asked)


async def test_the_date_and_speaker_help_a_question_and_are_no_match_of_a_text(subject: Subject):
    memory = subject.memory()
    for speaker in ("Noor", "Greta"):
        await subject.state(memory, "The delivery came late again.", f'{{"speaker":"{speaker}"}}'.encode())
    first = (await subject.ask(memory, "what did Noor say about the delivery?")).hits[0].record
    assert first.attributes == b'{"speaker":"Noor"}'
    assert (await subject.ask(memory, text="Noor")).hits == ()


@pytest.mark.requirement("ME-6.2-05")
async def test_signals_given_together_are_one_ranking(subject: Subject, desk: str):
    answer = await subject.ask(desk, "when does the contract with Acme end?", text="walnuts")
    assert set(found(answer)[:2]) == {DESK[0], DESK[5]}
    why = {text_of(hit.record): hit.why for hit in answer.hits}
    assert "text" in why[DESK[5]]
    assert why[DESK[0]] == ("query",)
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.requirement("ME-6.3-01")
async def test_why_names_a_signal_only_where_it_found_something(subject: Subject, desk: str):
    answer = await subject.ask(
        desk, "hub light", text="amber", filter=condition("type", "eq", b'"fact"'), limit=6
    )
    assert len(answer.hits) == 6
    for hit in answer.hits:
        assert ("text" in hit.why) == ("amber" in text_of(hit.record))
        assert hit.why[-1] == "filters"


async def test_rarer_words_weigh_more(subject: Subject):
    memory = subject.memory()
    for n in range(6):
        await subject.state(memory, f"The meeting about budget number {n}.")
    await subject.state(memory, "The walrus was mentioned.")
    assert found(await subject.ask(memory, text="meeting walrus"))[0] == "The walrus was mentioned."


@pytest.mark.requirement("ME-6.2-06")
async def test_the_limit_is_kept(subject: Subject, desk: str):
    for limit in (1, 3, 100):
        assert len((await subject.ask(desk, "anything at all", limit=limit)).hits) == min(limit, len(DESK))


async def test_the_current_value_answers_and_the_old_one_does_not(subject: Subject, desk: str):
    one = await subject.state(desk, "The door code is 4711.")
    await subject.revise(one, "The door code is 8122.")
    old = await subject.state(desk, "The alarm code is 1000.")
    await subject.adapter.remember(
        desk, Draft("fact", words("The alarm code is 2000."), supersedes=old.id), Stamp(BOB)
    )
    texts = found(
        await subject.ask(desk, "what is the door code? what is the alarm code?", text="code 4711 1000")
    )
    assert set(texts[:2]) == {"The door code is 8122.", "The alarm code is 2000."}
    assert not {"The door code is 4711.", "The alarm code is 1000."} & set(texts)


async def test_what_was_closed_never_outranks_what_is_current(subject: Subject, desk: str):
    one = await subject.state(desk, "The door code is 4711.")
    await subject.revise(one, "The code of the door is now 8122.")
    old = await subject.state(desk, "The alarm code is 1000.")
    await subject.adapter.remember(
        desk, Draft("fact", words("The alarm code is 2000."), supersedes=old.id), Stamp(BOB)
    )
    texts = found(
        await subject.ask(desk, "The door code is 4711. The alarm code is 1000.", include=Include.ALL)
    )
    assert texts.index("The code of the door is now 8122.") < texts.index("The door code is 4711.")
    assert texts.index("The alarm code is 2000.") < texts.index("The alarm code is 1000.")


@pytest.mark.requirement("ME-6.3-05")
async def test_a_question_nothing_answers_is_abstained_from(subject: Subject, desk: str):
    for question in (
        "what is the capital of Mongolia?",
        "how do I bake sourdough bread?",
        "who won the chess tournament in 1972?",
    ):
        answer = await subject.ask(desk, question)
        assert answer.abstain, question
        assert answer.reason in {"below_confidence", "subject_mismatch", "outside_time"}, question
        assert answer.evidence < answer.threshold


@pytest.mark.requirement("ME-6.3-05")
async def test_a_question_with_an_answer_is_not_abstained_from(subject: Subject, desk: str):
    for question in (
        "when does Acme renew?",
        "why does the hub blink amber?",
        "what is Sam allergic to?",
        "how long is the warranty of a sensor puck?",
    ):
        answer = await subject.ask(desk, question)
        assert (answer.abstain, answer.reason) == (False, ""), question


async def test_an_empty_memory_says_so(subject: Subject):
    memory = subject.memory()
    for answer in (
        await subject.ask(memory, "anything?"),
        await subject.ask(memory, text="anything"),
        await subject.ask(memory, filter=condition("type", "exists", b"true")),
    ):
        assert (answer.hits, answer.degraded, answer.abstain) == ((), (), True)
        assert answer.reason == "nothing_stored"


async def test_a_recall_over_very_many_memories_works(subject: Subject):
    memories = [subject.memory() for _ in range(limits.MAX_MEMORIES)]
    await subject.state(memories[77], "Acme renews in March.")
    await subject.state(subject.memory(), "Acme renews in April.")
    assert found(await subject.ask(memories, "Acme renewal", text="Acme")) == ["Acme renews in March."]


@pytest.mark.requirement("ME-6.2-06")
async def test_types_narrow_a_recall(subject: Subject, desk: str):
    note = await subject.adapter.remember(desk, Draft("note", words("Acme: call in spring.")), Stamp(ALICE))
    answer = await subject.ask(desk, "Acme", types=("note", "procedure"))
    assert [hit.record.id for hit in answer.hits] == [note.id]


async def test_a_revision_of_attributes_alone_is_recalled_at_once(subject: Subject, desk: str):
    one = await subject.state(desk, "The zebra enclosure opens at nine.")
    await subject.adapter.revise(desk, one.id, Changes(attributes=b'{"zoo":1}'), 0, Stamp(BOB))
    answer = await subject.ask(desk, "striped animals", text="zebra")
    assert (answer.hits[0].record.version, answer.hits[0].record.attributes) == (2, b'{"zoo":1}')
    assert answer.degraded == ()


async def test_a_longer_question_with_the_words_of_two_records_finds_both(subject: Subject, desk: str):
    texts = found(
        await subject.ask(desk, "Is Sam allergic to walnuts, and does the hub blink amber?", limit=2)
    )
    assert set(texts) == {DESK[1], DESK[5]}
