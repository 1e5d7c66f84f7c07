"""What a provider declares it does, and what it does not declare it refuses or names (sections 10.2 and 10.3)."""

import pytest

from provider_workers.domain import checks
from provider_workers.domain.filters import condition
from provider_workers.domain.model import Draft, File, Part, Stamp
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, Subject, episode, words

SIGNALS = ("query", "text", "filters")


@pytest.mark.requirement("ME-5.1-06", "ME-5.3-07", "ME-9.2-05", "ME-10.2-01", "ME-3.3-03")
async def test_the_document_speaks_the_chapters_words(subject: Subject):
    declared = subject.adapter.capabilities
    assert declared.isolation in {"container", "enforced_filter"}
    assert declared.derivation in {"write_time", "background", "agent", "none"}
    assert declared.observe_answers in {"records", "job"}
    assert set(declared.recall_signals) <= set(SIGNALS)
    assert declared.history_content in {"versions", "snapshots", "none"}
    assert declared.history_structure in {"versions", "snapshots", "none"}
    assert {declared.revise, declared.forget} <= {"native", "emulated", "none"}
    assert declared.erase_unreachable in {"reported", ""}
    assert declared.consolidate in {"runs", "trigger", ""}
    assert declared.recall_max_depth >= 0


@pytest.mark.requirement("ME-10.2-06", "ME-10.3-02", "ME-6.3-02", "ME-6.3-03")
async def test_a_signal_is_either_declared_or_named_in_degraded(subject: Subject):
    memory = subject.memory()
    await subject.state(memory, "Acme renews in March.")
    answer = await subject.ask(memory, "Acme renewal", text="Acme", filter=condition("type", "eq", b'"fact"'))
    lacking = {f"{signal}:not_supported" for signal in SIGNALS} - {
        f"{signal}:not_supported" for signal in subject.adapter.capabilities.recall_signals
    }
    assert set(answer.degraded) == lacking
    assert set(answer.hits[0].why) == set(subject.adapter.capabilities.recall_signals)


@pytest.mark.requirement("ME-10.2-07")
async def test_each_declared_signal_works_alone(subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    alone = {
        "query": {"query": "when does Acme renew?"},
        "text": {"text": "Acme"},
        "filters": {"filter": condition("type", "eq", b'"fact"')},
    }
    for signal in subject.adapter.capabilities.recall_signals:
        (hit,) = (await subject.ask(memory, **alone[signal])).hits  # pyright: ignore[reportArgumentType]
        assert (hit.record, hit.why) == (one, (signal,))


@pytest.mark.requirement("ME-5.1-04", "ME-10.2-07")
async def test_observe_answers_as_declared(subject: Subject):
    memory = subject.memory()
    declared = subject.adapter.capabilities
    observed = await subject.adapter.observe(memory, [episode("The hub is plugged in there.")], Stamp(ALICE))
    assert (observed.job is not None) == (declared.observe_answers == "job")
    await subject.work()
    kinds = set(await _types(subject, memory))
    assert ("episode" in kinds) == declared.observe_keeps_episodes
    assert ("fact" in kinds) == (declared.derivation != "none")


@pytest.mark.requirement("ME-5.3-07", "ME-10.2-07")
async def test_history_forget_revise_and_erase_work_when_declared(subject: Subject):
    declared, memory = subject.adapter.capabilities, subject.memory()
    one = await subject.state(memory, "Acme renews in March.")
    if declared.revise != "none":
        await subject.revise(one, "Acme renews in April.")
        assert (
            declared.history_content != "versions" or len(await subject.adapter.history(memory, one.id)) == 2
        )
    if declared.forget != "none":
        assert (await subject.forget(one)).status == "forgotten"
    if declared.erase_unreachable:
        assert (await subject.adapter.erase(memory, [one.id], Stamp(ALICE))).erased == (one.id,)


async def test_files_are_refused_unless_declared(subject: Subject):
    draft = Draft("fact", (*words("See the file."), Part("file", file=File("file_1"))))
    if subject.adapter.capabilities.files:
        checks.draft(draft, subject.adapter.capabilities)
        return
    with pytest.raises(GroveError) as refused:
        checks.draft(draft, subject.adapter.capabilities)
    assert refused.value.code == "memory_unsupported"


@pytest.mark.requirement("ME-6.3-05", "ME-10.2-03")
async def test_abstaining_is_done_only_when_declared(subject: Subject):
    memory = subject.memory()
    await subject.state(memory, "Acme renews in March.")
    answer = await subject.ask(memory, "what is the capital of Mongolia?")
    assert answer.abstain is subject.adapter.capabilities.recall_abstain


@pytest.mark.requirement("ME-9.1-01")
async def test_priming_gives_procedures_and_notes_then_stated_facts_the_newest_first(subject: Subject):
    memory = subject.memory()
    if not subject.adapter.capabilities.prime:
        assert await subject.adapter.prime(memory) == ()
        return
    old = await subject.state(memory, "An old fact that was stated.")
    procedure = await subject.adapter.remember(memory, Draft("procedure", words("Ring twice.")), Stamp(ALICE))
    note = await subject.adapter.remember(memory, Draft("note", words("A note of ours.")), Stamp(ALICE))
    await subject.observe(memory, episode("This was said and is derived only."))
    new = await subject.state(memory, "A new fact that was stated.")
    gone = await subject.state(memory, "A fact that was forgotten.")
    await subject.forget(gone)
    assert [one.id for one in await subject.adapter.prime(memory)] == [note.id, procedure.id, new.id, old.id]


@pytest.mark.requirement("ME-9.1-05")
async def test_priming_keeps_within_its_budget_and_passes_over_what_is_too_large(subject: Subject):
    memory = subject.memory()
    small = await subject.state(memory, "Small and old.")
    for n in range(60):
        await subject.state(memory, f"{n} " + "word " * 40)
    await subject.adapter.remember(memory, Draft("note", words("long " * 5_000)), Stamp(ALICE))
    primed = await subject.adapter.prime(memory)
    size = sum(len(part.text) for record in primed for part in record.content)
    assert 0 < size < 1_200 * 4
    assert small.id not in {record.id for record in primed} or len(primed) > 1


async def test_a_count_is_of_active_records_by_memory(subject: Subject):
    mine, theirs, empty = subject.memory(), subject.memory(), subject.memory()
    one = await subject.state(mine, "A fact of mine.")
    await subject.revise(one, "A better fact of mine.")
    await subject.forget(await subject.state(mine, "Another fact of mine."))
    await subject.state(theirs, "A fact of theirs.")
    counts = await subject.adapter.count([mine, theirs, empty])
    assert (counts[mine], counts[theirs], counts.get(empty, 0)) == (1, 1, 0)


async def _types(subject: Subject, memory: str) -> list[str]:
    answer = await subject.ask(memory, filter=condition("type", "exists", b"true"), limit=50)
    return [hit.record.type for hit in answer.hits]
