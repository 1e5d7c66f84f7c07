"""What of a conversation is shown again (Memories §3.3): what was said, and what may still be read."""

import json

import pytest

from runner_service.domain.conversation import WITHHELD, conversation, memories_told
from runner_service.domain.fence import fenced
from runner_service.domain.model import Item, PastTurn

RECORD: Item = {
    "record": "hrec_1",
    "memory": "hmem_1",
    "content": "See hmem_7.",
    "attributes": {"memory": "hmem_8", "children": [{"id": "hmem_9"}]},
    "references": [{"memory": "hmem_6", "record": "hrec_6", "available": False}],
}
BELOW: Item = {"id": "hmem_2", "name": "Below", "records": 3}
ABOVE: Item = {"id": "hmem_3", "name": "Above", "records": 3}
ANSWERS: dict[str, tuple[Item, set[str]]] = {
    "recall": ({"results": [RECORD], "parent": ABOVE, "children": [BELOW]}, {"hmem_1", "hmem_2", "hmem_3"}),
    "get": (RECORD, {"hmem_1"}),
    "history": ({"versions": [RECORD]}, {"hmem_1"}),
    "list": ({"memories": [ABOVE | {"children": [BELOW]}]}, {"hmem_2", "hmem_3"}),
    "list of one": (
        ABOVE | {"children": [BELOW | {"children": 2}], "parent": "hmem_4"},
        {"hmem_2", "hmem_3"},
    ),
    "rows": ({"memory": "hmem_1", "columns": ["memory"], "rows": [["hmem_5"]]}, {"hmem_1"}),
    "records of a query": (
        {"memory": "hmem_1", "records": [RECORD], "children": [BELOW]},
        {"hmem_1", "hmem_2"},
    ),
    "an operation": ({"memory": "hmem_1", "result": {"memory": "hmem_5"}, "record": RECORD}, {"hmem_1"}),
    "a refusal": ({"message": "There is no such memory: hmem_5."}, set()),
}


def turn(output: str) -> PastTurn:
    call: Item = {
        "type": "function_call",
        "call_id": "c",
        "name": "memory_recall",
        "arguments": '{"q":"hmem_5"}',
    }
    said: Item = {"type": "message", "content": [{"type": "output_text", "text": "It is hmem_5."}]}
    answer: Item = {"type": "function_call_output", "call_id": "c", "output": output}
    return PastTurn(json.dumps("What of hmem_5?").encode(), (call, answer, said))


@pytest.mark.parametrize(("data", "told"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_shown_while_all_it_tells_of_may_be_read(data: Item, told: set[str]) -> None:
    past = [turn(fenced(data))]
    assert memories_told(past) == told
    shown = conversation(past, frozenset(told))
    assert shown == ({"type": "message", "role": "user", "text": "What of hmem_5?"}, *past[0].output)
    for lost in told:
        call, answer, said = past[0].output
        assert conversation(past, frozenset(told - {lost}))[1:] == (call, answer | {"output": WITHHELD}, said)


def test_what_no_memory_answered_is_always_shown() -> None:
    past = [turn("It rains in hmem_5."), turn("server_error: The tool failed.")]
    assert memories_told(past) == set()
    assert [one for one in conversation(past, frozenset()) if one.get("output") == WITHHELD] == []


def test_an_answer_that_cannot_be_looked_into_is_not_shown() -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    past = [turn(fenced({"memory": "hmem_1", "attributes": "deep"}).replace('"deep"', deep))]
    assert memories_told(past) == set()
    assert conversation(past, frozenset({"hmem_1"}))[2]["output"] == WITHHELD
