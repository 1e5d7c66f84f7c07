"""Recall as its user sees it: what is found, why, and why not (Memories, section 6)."""

from typing import Final

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person

TALK: Final = (
    ("Anna", "2026-03-04T09:00:00Z", "Did you ever get the roof of the boathouse mended?"),
    ("Bo", "2026-03-04T09:01:00Z", "Yes, in the end it was Marek from the yard, for four hundred."),
    ("Anna", "2026-03-04T09:02:00Z", "Good. My sister's wedding is at the town hall."),
    ("Bo", "2026-06-11T18:00:00Z", "I sold my old rowing boat to a man from Lund."),
    ("Bo", "2026-06-11T18:01:00Z", "The new one is made of cedar and weighs nothing."),
)


@pytest.fixture
def memory(alice: Person) -> str:
    """A memory with two conversations in it."""
    memory = alice.plant("Lake")
    for day in ("2026-03-04", "2026-06-11"):
        episodes = [
            {"content": text, "role": "user", "time": {"valid_from": at}, "attributes": {"speaker": who}}
            for who, at, text in TALK
            if at.startswith(day)
        ]
        job = alice.post(f"/v1/memories/{memory}/observe", {"episodes": episodes})["job"]["id"]
        assert alice.finished(memory, job)["status"] == "completed"
    return memory


def recalled(who: Person, memory: str, query: str, **more: object) -> Json:
    return who.post(f"/v1/memories/{memory}/recall", {"query": query, **more})


def texts(answer: Json) -> list[str]:
    return [one["record"]["content"] for one in answer["results"]]


@pytest.mark.requirement("ME-6.3-01")
def test_explain_says_what_each_result_scored_and_what_the_answer_was_judged_by(alice: Person, memory: str):
    answer = recalled(alice, memory, "What is the new rowing boat made of?", explain=True)
    assert set(answer["results"][0]["signals"]) == {"words", "meaning", "session", "subject", "time"}
    assert 0 < answer["evidence"]["threshold"] < answer["evidence"]["score"] <= 1
    assert (answer["abstain"], "abstain_reason" in answer) == (False, False)
    plain = recalled(alice, memory, "What is the new rowing boat made of?")
    assert "evidence" not in plain
    assert [set(one) for one in plain["results"]] == [set(one) - {"signals"} for one in answer["results"]]
    assert texts(plain) == texts(answer)


def test_an_answer_is_found_beside_the_words_of_the_question(alice: Person, memory: str):
    found = texts(recalled(alice, memory, "Who mended the roof of the boathouse?"))
    assert TALK[1][2] in found[:2]


def test_the_time_a_question_speaks_of_is_heeded(alice: Person, memory: str):
    for when, signal in (("on 11 June 2026", 1.0), ("on 4 March 2026", 0.0)):
        answer = recalled(alice, memory, f"What did Bo sell {when}?", explain=True, types=["episode"])
        sold = next(one for one in answer["results"] if one["record"]["content"] == TALK[3][2])
        assert sold["signals"]["time"] == signal


@pytest.mark.requirement("ME-6.3-05")
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("Which football team won the cup in Madrid?", "below_confidence"),
        ("Which football team won the cup in Madrid in 1999?", "outside_time"),
    ],
)
def test_what_was_never_said_is_not_answered_and_the_reason_is_told(
    alice: Person, memory: str, query: str, reason: str
):
    answer = recalled(alice, memory, query)
    assert (answer["abstain"], answer["abstain_reason"]) == (True, reason)
    assert answer["results"]


@pytest.mark.requirement("ME-6.3-05")
def test_what_one_may_not_see_is_not_stored(alice: Person, bob: Person, memory: str):
    hers, his = alice.plant("Hers"), bob.plant("His")
    alice.give(hers, bob, "read")
    alice.fact(alice.plant("Hidden", hers, restricted=True), "The key is under the third stone.")
    answer, same = (recalled(bob, one, "Where is the key?", depth=3, explain=True) for one in (hers, his))
    assert answer == same
    assert (answer["results"], answer["abstain_reason"]) == ([], "nothing_stored")
    alone = alice.post(f"/v1/memories/{memory}/recall", {"text": "submarine"})
    assert (alone["results"], alone["abstain_reason"]) == ([], "nothing_stored")


def test_a_superseded_value_never_stands_before_the_current_one(alice: Person, memory: str):
    kept = alice.fact(memory, "The boathouse opens at nine.")
    alice.send("PATCH", f"/v1/memories/{memory}/records/{kept}", {"content": "It opens at ten now."})
    answer = recalled(alice, memory, "When does the boathouse open, at nine?", include="all", types=["fact"])
    of_it = [one["record"]["content"] for one in answer["results"] if one["record"]["id"] == kept]
    assert of_it == ["It opens at ten now.", "The boathouse opens at nine."]


def test_what_is_remembered_is_found_at_once_also_beside_its_source(alice: Person, memory: str):
    said = recalled(alice, memory, "Bo sold the old rowing boat", types=["episode"])["results"][0]["record"]
    source = {"rel": "derived_from", "memory_id": memory, "record_id": said["id"]}
    fact = "Bo's buyer was Nils Berg, a dentist."
    alice.fact(memory, fact, references=[source])
    assert texts(recalled(alice, memory, "Which dentist bought a boat, Nils Berg?"))[0] == fact
