from typing import Any

from pydantic_ai.messages import ModelRequest, ModelResponse

from runner_service.agent_loop.history import conversation
from runner_service.domain.composer import UNKNOWN_OUTCOME
from runner_service.domain.model import Item, Message


def said(*texts: str) -> Item:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": t} for t in texts],
    }


def asked(text: str, role: str = "user") -> Item:
    return {"type": "message", "role": role, "text": text}


def call(call_id: str, arguments: str = "{}") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "memory_recall", "arguments": arguments}


def output(call_id: str, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def read(*history: Item) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Messages as (who, [(kind of part, what it says)])."""
    found = list[tuple[str, list[tuple[str, Any]]]]()
    for message in conversation(history, [Message("user", "now")]):
        assert isinstance(message, ModelRequest | ModelResponse)
        who = "asks" if isinstance(message, ModelRequest) else "answers"
        parts = [
            (part.part_kind, getattr(part, "content", getattr(part, "args", None))) for part in message.parts
        ]
        found.append((who, parts))
    return found


def test_both_sides_take_turns() -> None:
    assert read(asked("one", "developer"), asked("two"), said("three")) == [
        ("asks", [("system-prompt", "one"), ("user-prompt", "two")]),
        ("answers", [("text", "three")]),
        ("asks", [("user-prompt", "now")]),
    ]


def test_calls_and_their_answers_stay_together() -> None:
    assert read(asked("q"), call("a"), call("b"), output("a", "1"), output("b", "2"), said("done")) == [
        ("asks", [("user-prompt", "q")]),
        ("answers", [("tool-call", "{}"), ("tool-call", "{}")]),
        ("asks", [("tool-return", "1"), ("tool-return", "2")]),
        ("answers", [("text", "done")]),
        ("asks", [("user-prompt", "now")]),
    ]


def test_a_call_that_was_never_answered_is_answered_before_anybody_speaks_again() -> None:
    assert read(asked("q"), call("a")) == [
        ("asks", [("user-prompt", "q")]),
        ("answers", [("tool-call", "{}")]),
        ("asks", [("tool-return", UNKNOWN_OUTCOME), ("user-prompt", "now")]),
    ]


def test_what_a_model_cannot_read_again_is_left_out() -> None:
    reasoning: Item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert read(
        asked("q"), reasoning, call("a", '{"cut'), output("a", "1"), output("unknown", "2"), said("")
    ) == [
        ("asks", [("user-prompt", "q")]),
        ("answers", [("tool-call", "{}")]),
        ("asks", [("tool-return", "1"), ("user-prompt", "now")]),
    ]


def test_arguments_beyond_reason_do_not_end_a_session() -> None:
    for arguments in ("[" * 100_000, '{"a":' * 100_000, '{"a":', "[1]", '"x"'):
        assert read(call("c1", arguments), output("c1", "no"))[0] == ("answers", [("tool-call", "{}")])
