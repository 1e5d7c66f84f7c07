"""The native provider where a memory is too large to rank all of: what is found there is what is found in a small one."""

import pytest

from provider_workers.adapters.native import candidates, seen, wording
from provider_workers.adapters.native.lexemes import Lexemes
from provider_workers.domain.model import Found, Include
from tests.contract.providers.subject import Subject, episode, text_of

SAID = (
    "Did anybody mend the roof of the boathouse?",
    "Yes, it was Marek from the yard, for four hundred.",
    "The new rowing boat is made of cedar.",
    "Our lighthouse lamp was replaced in spring.",
    "The lamp in the boathouse flickers.",
)
ASKED: tuple[dict[str, object], ...] = (
    {"query": "Who mended the roof of the boathouse?"},
    {"query": "What is the boat made of?", "text": "cedar"},
    {"text": "lamp boathouse"},
    {"text": "the"},
    {"query": "lamp", "types": ("episode",)},
    {"query": "lamp", "include": Include.ALL},
)


async def memory_of(subject: Subject) -> str:
    """Three conversations, a fact beside its source, and one that was revised."""
    memory = subject.memory()
    for start in (0, 2, 3):
        await subject.observe(memory, *(episode(text) for text in SAID[start : start + 2]))
    await subject.revise(await subject.state(memory, "The lamp oil is kept in the shed."), "The oil is gone.")
    return memory


def be_large(monkeypatch: pytest.MonkeyPatch, words: dict[str, int]) -> None:
    """Nothing is ranked whole; ``words`` says how they are looked for."""
    monkeypatch.setattr(candidates, "WHOLE", 0)
    monkeypatch.setattr(candidates, "_SIGNS_FROM", 0)
    monkeypatch.setattr(wording, "_SAMPLED", 100_000)  # all of them
    for name, value in {"_SEEN": 0, **words}.items():
        monkeypatch.setattr(wording, name, value)


def told(answer: Found) -> list[tuple[str, int, float, tuple[str, ...]]]:
    return [(text_of(hit.record), hit.record.version, round(hit.score, 6), hit.why) for hit in answer.hits]


WORDS: dict[str, dict[str, int]] = {
    "rare words": {"_RARE": 5_000},
    "the rarest": {"_RARE": 0},
    "common words": {"_RARE": 0, "_LOOKED_FOR": 0},
}


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
async def test_a_large_memory_answers_as_a_small_one(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, asked: dict[str, object], words: dict[str, int]
):
    await answers_alike(subject, monkeypatch, [await memory_of(subject)], asked, words)


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize(
    "words",
    [{}, *({"_LOOKED_THROUGH": 0, **one} for one in WORDS.values())],
    ids=["all read", *WORDS],
)
async def test_many_memories_answer_as_few_do(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, asked: dict[str, object], words: dict[str, int]
):
    held = [await memory_of(subject), subject.memory(), *(subject.memory() for _ in range(20))]
    await subject.state(held[1], "The lamp of the boathouse was mended by Marek.")
    await subject.state(subject.memory(), "Nobody asks the memory of this lamp and boathouse.")
    await answers_alike(subject, monkeypatch, held, asked, words)


async def answers_alike(
    subject: Subject,
    monkeypatch: pytest.MonkeyPatch,
    memories: list[str],
    asked: dict[str, object],
    words: dict[str, int],
) -> None:
    small = await subject.ask(memories, **asked)  # pyright: ignore[reportArgumentType] - fields of a question
    be_large(monkeypatch, words)
    large = await subject.ask(memories, **asked)  # pyright: ignore[reportArgumentType] - fields of a question
    assert told(large)
    assert told(large) == told(small)
    assert large.evidence == pytest.approx(small.evidence)


async def test_a_large_memory_ranks_no_more_than_its_best(subject: Subject, monkeypatch: pytest.MonkeyPatch):
    memory = subject.memory()
    for text in SAID:
        await subject.state(memory, text)
    be_large(monkeypatch, {})
    for module in (candidates, seen, wording):
        monkeypatch.setattr(module, "BEST", 1)
    monkeypatch.setattr(candidates, "_BY_SIGNS", 1)
    answer = await subject.ask(memory, "Is the rowing boat made of cedar?", limit=5)
    assert [text_of(hit.record) for hit in answer.hits] == [SAID[2]]


async def test_how_common_a_word_is_is_estimated_by_records_not_by_memories(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
):
    large, small = subject.memory(), [subject.memory() for _ in range(6)]
    for at in range(42):
        await subject.state(large, f"Lamp {at} burns.")
    for memory in small:
        await subject.state(memory, "The boat is new.")
    be_large(monkeypatch, {"_LOOKED_THROUGH": 0, "_RARE": 0, "_LOOKED_FOR": 0})
    estimated = list[float]()
    best = wording.Wording.best

    async def noted(self: wording.Wording, asked: Lexemes) -> tuple[seen.Keys, list[float]]:
        keys, holding = await best(self, asked)
        estimated.extend(holding)
        return keys, holding

    monkeypatch.setattr(wording.Wording, "best", noted)
    empty = [subject.memory() for _ in range(300)]
    answer = await subject.ask([*empty, *small, large], "lamp boat")
    assert answer.hits
    assert estimated == pytest.approx([42, 6], rel=0.2)
