import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_service.domain.composer import UNKNOWN_OUTCOME, Composer
from runner_service.domain.ending import end
from runner_service.domain.model import (
    Asked,
    Budgets,
    Event,
    Failure,
    Outcome,
    Primed,
    Priming,
    Response,
    Status,
    Usage,
)
from runner_service.domain.response_object import compose
from runner_service.domain.turn_events import (
    CallArguments,
    CallDone,
    CallOutput,
    CallStarted,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    TextDone,
    TurnEvent,
)

NOW = datetime(2026, 10, 4, 12, 0, 0, tzinfo=UTC)
Json = dict[str, Any]


def response(**more: Any) -> Response:
    asked = Asked(
        input=b'"hello"',
        model="m",
        harness_id="chrn_1",
        memory_id=more.pop("memory_id", ""),
        previous_response_id="",
        instructions="",
        store=True,
        background=False,
        budgets=Budgets(),
        ignored_fields=more.pop("ignored_fields", ()),
    )
    return Response(
        id="resp_1",
        owner="person:alice",
        session_id="hsess_1",
        harness_id="chrn_1",
        asked=asked,
        model="m",
        status=Status.IN_PROGRESS,
        created_at=NOW,
        **more,
    )


def told(*events: TurnEvent, outcome: Outcome | None = None) -> list[Json]:
    """The whole stream of a turn that said these, as a client would read it."""
    composer = Composer()
    stream = [composer.lifecycle("response.created", compose(response(), (), None))]
    stream.append(composer.lifecycle("response.in_progress", compose(response(), (), None)))
    for event in events:
        stream += composer.feed(event)
    _, last = end(response(), composer, outcome or Outcome(Status.COMPLETED), NOW)
    return [json.loads(event.json) for event in [*stream, *last]]


def check_rules(stream: list[Json]) -> None:
    """UHP Streaming, on any stream."""
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert stream[0]["type"] == "response.created"
    assert isinstance(stream[0]["response"]["model"], str)
    terminal = [event for event in stream if event["type"] in _TERMINAL]
    assert terminal == stream[-1:]
    open_items: set[int] = set()
    done: list[Json] = []
    for event in stream:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(done) + len(open_items)
            open_items.add(event["output_index"])
        elif event["type"] == "response.output_item.done":
            open_items.remove(event["output_index"])
            done.append(event["item"])
        elif "output_index" in event:
            assert event["output_index"] in open_items, event
    assert not open_items
    assert sorted(map(json.dumps, done)) == sorted(map(json.dumps, stream[-1]["response"]["output"]))


_TERMINAL = {"response.completed", "response.failed", "response.incomplete"}


def test_a_text_is_opened_streamed_and_closed() -> None:
    stream = told(TextDelta("Hel"), TextDelta("lo"), TextDone())
    assert [event["type"] for event in stream] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    check_rules(stream)
    message = stream[-1]["response"]["output"][0]
    assert message["role"] == "assistant"
    assert message["status"] == "completed"
    assert message["content"] == [{"type": "output_text", "text": "Hello", "annotations": []}]


def test_half_a_character_is_replaced_wherever_it_stands() -> None:
    stream = told(
        TextDelta("smile \ud83d"),
        TextDelta("\ude00"),
        ReasoningDelta("\udfff"),
        CallStarted("call_\ud800", "memory_\ud800"),
        CallArguments("call_\ud800", '{"a":"\udc00"}'),
        CallDone("call_\ud800", '{"a":"\udc00"}'),
        CallOutput("call_\ud800", "\ud83d\ude00"),
    )
    check_rules(stream)
    message, reasoning, call, output = stream[-1]["response"]["output"]
    assert message["content"][0]["text"] == "smile \ufffd\ufffd"
    assert reasoning["summary"][0]["text"] == "\ufffd"
    assert (call["name"], call["arguments"]) == ("memory_\ufffd", '{"a":"\ufffd"}')
    assert output["call_id"] == call["call_id"]


def test_a_call_and_its_output_are_two_items_of_one_call_id() -> None:
    stream = told(
        CallStarted("call_1", "memory_recall"),
        CallArguments("call_1", '{"query":'),
        CallArguments("call_1", '"x"}'),
        CallDone("call_1", '{"query":"x"}'),
        CallOutput("call_1", "found"),
        TextDelta("ok"),
    )
    check_rules(stream)
    call, output, message = stream[-1]["response"]["output"]
    assert (call["type"], call["name"], call["arguments"]) == (
        "function_call",
        "memory_recall",
        '{"query":"x"}',
    )
    assert (output["type"], output["call_id"], output["output"]) == (
        "function_call_output",
        "call_1",
        "found",
    )
    assert message["type"] == "message"
    assert [
        event["delta"] for event in stream if event["type"] == "response.function_call_arguments.delta"
    ] == [
        '{"query":',
        '"x"}',
    ]


def test_reasoning_comes_as_a_summary_before_the_answer() -> None:
    stream = told(ReasoningDelta("hm"), ReasoningDone(), TextDelta("ok"))
    check_rules(stream)
    assert stream[-1]["response"]["output"][0]["summary"] == [{"type": "summary_text", "text": "hm"}]


def test_text_after_a_call_is_a_message_of_its_own() -> None:
    stream = told(
        TextDelta("Looking. "),
        CallStarted("c", "t"),
        CallDone("c", "{}"),
        CallOutput("c", "1"),
        TextDelta("Done."),
    )
    check_rules(stream)
    assert [item["type"] for item in stream[-1]["response"]["output"]] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]


def test_what_was_cut_off_is_kept_and_says_so() -> None:
    stream = told(TextDelta("One, two"), outcome=Outcome(Status.CANCELLED))
    check_rules(stream)
    last = stream[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "cancelled"
    assert last["response"]["error"] is None
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert last["response"]["output"][0]["content"][0]["text"] == "One, two"


def test_a_call_in_flight_at_the_end_has_an_unknown_outcome() -> None:
    failure = Failure("server_error", "The runner stopped.")
    stream = told(CallStarted("c", "memory_remember"), outcome=Outcome(Status.FAILED, failure))
    check_rules(stream)
    assert stream[-1]["response"]["error"] == {
        "type": "server_error",
        "code": "server_error",
        "message": "The runner stopped.",
        "param": None,
        "detail": None,
    }
    assert stream[-1]["response"]["output"][1]["output"] == UNKNOWN_OUTCOME


def test_a_budget_ends_incomplete_with_its_reason() -> None:
    stream = told(TextDelta("a"), outcome=Outcome(Status.INCOMPLETE, reason="max_step"))
    assert stream[-1]["type"] == "response.incomplete"
    assert stream[-1]["response"]["incomplete_details"] == {"reason": "max_step"}
    assert stream[-1]["response"]["error"] is None


def test_usage_is_null_unless_somebody_counted() -> None:
    assert told()[-1]["response"]["usage"] is None
    counted = told(outcome=Outcome(Status.COMPLETED, usage=Usage(3, 4)))[-1]["response"]["usage"]
    assert counted == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def test_metadata_names_what_there_is_and_nothing_else() -> None:
    assert compose(response(), (), None)["metadata"] == {"session_id": "hsess_1", "harness_id": "chrn_1"}
    primed = Priming("block", (Primed("hmem_1", "Sales", 12), Primed("hmem_3", "Lab")), tokenizer="t")
    full = compose(
        response(ignored_fields=("tools",), memory_id="hmem_2"), (), primed, ["memory_unavailable"]
    )
    assert full["metadata"] == {
        "session_id": "hsess_1",
        "harness_id": "chrn_1",
        "memory": "hmem_2",
        "ignored_fields": ["tools"],
        "grovekeeper_primed": [
            {"memory_id": "hmem_1", "tokens": 12, "tokenizer": "t"},
            {"memory_id": "hmem_3"},
        ],
        "grovekeeper_problems": ["memory_unavailable"],
    }


def test_the_terminal_event_and_a_later_read_are_the_same_bytes() -> None:
    composer = Composer()
    composer.feed(TextDelta("x"))
    ended, events = end(response(), composer, Outcome(Status.COMPLETED), NOW)
    assert ended.final in events[-1].json


# -- whatever a base says ----------------------------------------------------------------------------------

_texts = st.sampled_from(["", "a", "bc"])
_ids = st.sampled_from(["c1", "c2", "c3"])
_said = st.one_of(
    st.builds(TextDelta, _texts),
    st.builds(TextDone),
    st.builds(ReasoningDelta, _texts),
    st.builds(ReasoningDone),
    st.builds(CallArguments, _ids, _texts),
    st.builds(CallDone, _ids, _texts),
    st.builds(CallOutput, _ids, _texts),
)


@st.composite
def turns(draw: st.DrawFn) -> list[TurnEvent]:
    """Turn events in any order, each call begun once."""
    events: list[TurnEvent] = list(draw(st.lists(_said, max_size=25)))
    for call_id in draw(st.lists(_ids, unique=True)):
        events.insert(draw(st.integers(0, len(events))), CallStarted(call_id, "tool"))
    return events


@pytest.mark.requirement("AR-6-02", "SU-streaming-02", "SU-streaming-03", "SU-streaming-07")
@given(turns())
def test_the_rules_of_streaming_hold_whatever_a_base_says(events: list[TurnEvent]) -> None:
    check_rules(told(*events))


@given(turns(), st.data())
def test_a_log_cut_off_anywhere_is_taken_up_where_it_was(
    events: list[TurnEvent], data: st.DataObject
) -> None:
    composer = Composer()
    log = [composer.lifecycle("response.created", compose(response(), (), None))]
    for event in events:
        log += composer.feed(event)
    cut = log[: data.draw(st.integers(1, len(log)))]
    restored = Composer.restored(_reread(cut))
    _, last = end(response(), restored, Outcome(Status.FAILED, Failure("server_error", "gone")), NOW)
    stream = [json.loads(event.json) for event in [*cut, *last]]
    check_rules(stream)
    said = "".join(event["delta"] for event in stream if event["type"] == "response.output_text.delta")
    kept = "".join(
        item["content"][0]["text"] for item in stream[-1]["response"]["output"] if item["type"] == "message"
    )
    assert kept == said


def _reread(log: list[Event]) -> list[Event]:
    return [Event(one.sequence_number, one.type, bytes(one.json), one.terminal) for one in log]
