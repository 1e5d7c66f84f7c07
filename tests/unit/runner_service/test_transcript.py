import json
from datetime import UTC, datetime
from typing import Any

import pytest

from runner_service.domain.inputs import read_input
from runner_service.domain.model import Asked, Budgets, Item, Response, Status
from runner_service.domain.response_object import compose, encode
from runner_service.domain.transcript import TITLE_CHARACTERS, title, turn

CALL: Item = {"type": "function_call", "call_id": "c1", "name": "memory_list", "arguments": "{}"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "c1", "output": "Nothing."}


def asked(text: object) -> bytes:
    return json.dumps(text).encode()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Hello", "Hello"),
        ("  When does\n\n\tAcme renew? ", "When does Acme renew?"),
        ("a\u202eb\u200bc\x00d\ufeff", "a b c d"),
        ("y" * TITLE_CHARACTERS, "y" * TITLE_CHARACTERS),
        ("y" * 3_000_000, "y" * (TITLE_CHARACTERS - 1) + "…"),
        ([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}], "Hello"),
    ],
)
def test_a_title_is_what_was_asked_on_one_short_line(text: object, line: str) -> None:
    assert title(read_input(asked(text))) == line


def test_a_turn_names_each_call_with_its_answer_and_all_that_was_said() -> None:
    message: Item = {"type": "message", "content": [{"type": "output_text", "text": "One."}]}
    output: list[Item] = [message, CALL, OUTPUT, CALL | {"call_id": "c2"}, message]
    now = datetime(2026, 10, 4, tzinfo=UTC)
    task = Asked(asked("Hi"), "", "", "", "", "", True, False, Budgets())
    response = Response("resp_1", "person:a", "hsess_1", "chrn_1", task, "m", Status.IN_PROGRESS, now)
    told: dict[str, Any] = json.loads(turn(response, encode(compose(response, output, None))))
    assert told == {
        "id": "resp_1",
        "status": "in_progress",
        "created_at": int(now.timestamp()),
        "user": "Hi",
        "assistant": "One.\n\nOne.",
        "tools": [
            {"call_id": "c1", "name": "memory_list", "arguments": "{}", "output": "Nothing."},
            {"call_id": "c2", "name": "memory_list", "arguments": "{}"},
        ],
        "files": [],
    }
