"""The native provider where a memory is too large to rank all of: what is found there is what is found in a small one."""

import pytest

from provider_workers.adapters.native import candidates
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


def told(answer: Found) -> list[tuple[str, int, float, tuple[str, ...]]]:
    return [(text_of(hit.record), hit.record.version, round(hit.score, 6), hit.why) for hit in answer.hits]


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("rare", [5_000, 0], ids=["rare words", "common words"])
async def test_a_large_memory_answers_as_a_small_one(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, asked: dict[str, object], rare: int
):
    memory = await memory_of(subject)
    small = await subject.ask(memory, **asked)  # pyright: ignore[reportArgumentType] - fields of a question
    for name, value in (("WHOLE", 0), ("_SIGNS_FROM", 0), ("_RARE", rare)):
        monkeypatch.setattr(candidates, name, value)
    large = await subject.ask(memory, **asked)  # pyright: ignore[reportArgumentType] - fields of a question
    assert told(large)
    assert told(large) == told(small)
    assert large.evidence == pytest.approx(small.evidence)


async def test_a_large_memory_ranks_no_more_than_its_best(subject: Subject, monkeypatch: pytest.MonkeyPatch):
    memory = subject.memory()
    for text in SAID:
        await subject.state(memory, text)
    for name, value in (("WHOLE", 0), ("_SIGNS_FROM", 0), ("BEST", 1), ("_BY_SIGNS", 1)):
        monkeypatch.setattr(candidates, name, value)
    answer = await subject.ask(memory, "Is the rowing boat made of cedar?", limit=5)
    assert [text_of(hit.record) for hit in answer.hits] == [SAID[2]]
