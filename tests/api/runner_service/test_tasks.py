import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from protos.runner.v1 import runner_pb2 as wire
from service_kit.errors import GroveError
from tests.api.runner_service.cluster import Keys, Runner, runner, runner_settings
from tests.unit.runner_service.test_composer import check_rules

COUNT = "Count slowly from 1 to 3000, one number per line."


async def refused(call: Awaitable[object]) -> GroveError:
    with pytest.raises(GroveError) as error:
        await call
    return error.value


async def started(runner: Runner, response_id: str) -> None:
    """Until the first piece of an answer."""
    async for event in runner.follow(response_id):
        if event["type"] == "response.output_text.delta":
            return


async def test_a_task_is_accepted_in_progress_and_ends_completed(alone: Runner) -> None:
    made = await alone.create("Reply with exactly: ok")
    assert made.status == "in_progress"
    assert made.id.startswith("resp_")
    events = await alone.events(made.id)
    check_rules(events)
    final = events[-1]["response"]
    assert final["status"] == "completed"
    assert final["object"] == "response"
    assert final["model"] == "scripted-1"
    assert final["usage"] is None
    assert final["error"] is None
    assert final["output"][0]["content"][0]["text"] == "ok"
    assert final["metadata"]["session_id"] == made.session_id
    assert await alone.get(made.id) == final


async def test_the_first_event_carries_the_response_as_it_was_accepted(alone: Runner) -> None:
    made = await alone.create("Reply with exactly: ok", ignored_fields=["tools", "include"], instructions="x")
    first = (await alone.events(made.id))[0]
    assert first["type"] == "response.created"
    assert first["response"]["status"] == "in_progress"
    assert first["response"]["model"] == "scripted-1"
    assert first["response"]["metadata"]["ignored_fields"] == ["tools", "include"]
    assert first["response"]["instructions"] == "x"


async def test_an_answer_comes_in_pieces_over_time(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    settings = runner_settings(service_database("runner"), clean_redis, keys, runner_scripted_beat_s=0.075)
    async with runner(settings, keys) as paced:
        with paced.act_as("person:alice"):
            made = await paced.create("Reply with exactly: ok")
            at = [time.monotonic() async for _ in paced.follow(made.id)]
    assert at[-1] - at[0] > 0.5
    assert len(at) >= 8


async def test_a_follower_from_any_number_gets_exactly_the_rest(alone: Runner) -> None:
    made = await alone.create("Reply with exactly: one two three four five")
    whole = await alone.events(made.id)
    for after in (-1, 0, 3, len(whole) - 2):
        assert await alone.events(made.id, after) == whole[after + 1 :]
    assert await alone.events(made.id, len(whole) - 1) == []


async def test_any_number_of_followers_see_the_same_stream(alone: Runner) -> None:
    made = await alone.create("Count slowly from 1 to 100, one number per line.")
    streams = await asyncio.gather(*(alone.events(made.id) for _ in range(5)))
    check_rules(streams[0])
    assert all(stream == streams[0] for stream in streams)


async def test_a_follower_that_goes_away_costs_the_task_nothing(alone: Runner) -> None:
    made = await alone.create("Count slowly from 1 to 60, one number per line.")
    await started(alone, made.id)
    final = (await alone.events(made.id))[-1]["response"]
    assert final["status"] == "completed"


# -- conversations -----------------------------------------------------------------------------------------


@pytest.mark.requirement("AR-3-03", "SU-sessions-01")
async def test_a_conversation_goes_on_in_its_session(alone: Runner) -> None:
    first = await alone.run("Reply with exactly: one")
    second = await alone.run("Reply with exactly: two", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    assert second["metadata"]["session_id"] == first["metadata"]["session_id"]
    assert second["metadata"]["harness_id"] == first["metadata"]["harness_id"]
    third = await alone.run("Reply with exactly: three")
    assert third["metadata"]["session_id"] != first["metadata"]["session_id"]


@pytest.mark.requirement("SU-sessions-02")
async def test_an_unknown_previous_response_is_not_found(alone: Runner) -> None:
    error = await refused(alone.create("Reply with exactly: x", previous_response_id="resp_none"))
    assert (error.code, error.param) == ("response_not_found", "previous_response_id")


@pytest.mark.requirement("SU-errors-05", "SU-tasks-07")
async def test_a_conversation_does_not_change_its_harness(alone: Runner) -> None:
    first = await alone.run("Reply with exactly: one")
    other = await alone.harness()
    error = await refused(
        alone.create("Reply with exactly: x", previous_response_id=first["id"], harness_id=other.id)
    )
    assert error.code == "harness_mismatch"


@pytest.mark.requirement("SU-errors-06", "SU-sessions-03")
async def test_a_session_runs_one_task_at_a_time_and_sessions_run_side_by_side(alone: Runner) -> None:
    first = await alone.run("Reply with exactly: one")
    running = await alone.create(COUNT, previous_response_id=first["id"])
    error = await refused(alone.create("Reply with exactly: x", previous_response_id=first["id"]))
    assert error.code == "session_busy"
    assert (await alone.run("Reply with exactly: beside"))["status"] == "completed"
    await alone.cancel(running.id)
    await alone.events(running.id)
    assert (await alone.run("Reply with exactly: x", previous_response_id=first["id"]))[
        "status"
    ] == "completed"


async def test_of_two_at_once_in_a_session_one_is_busy(alone: Runner) -> None:
    first = await alone.run("Reply with exactly: one")
    answers = await asyncio.gather(
        *(alone.create(COUNT, previous_response_id=first["id"]) for _ in range(4)), return_exceptions=True
    )
    accepted = [one for one in answers if isinstance(one, wire.Response)]
    assert len(accepted) == 1
    assert {one.code for one in answers if isinstance(one, GroveError)} == {"session_busy"}
    await alone.cancel(accepted[0].id)


# -- cancelling --------------------------------------------------------------------------------------------


@pytest.mark.requirement("SU-sessions-05")
async def test_a_cancel_answers_within_a_second_and_keeps_the_output(alone: Runner) -> None:
    made = await alone.create(COUNT, background=True)
    await started(alone, made.id)
    began = time.monotonic()
    answer = await alone.cancel(made.id)
    assert time.monotonic() - began < 1.0
    assert answer["status"] == "cancelled"
    events = await alone.events(made.id)
    check_rules(events)
    last = events[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "cancelled"
    assert last["response"]["error"] is None
    assert last["response"]["output"][0]["content"][0]["text"].startswith("1\n")
    again = await alone.run("Reply with exactly: on", previous_response_id=made.id)
    assert again["status"] == "completed"


@pytest.mark.requirement("SU-tasks-10", "SU-sessions-06")
async def test_cancelling_what_has_ended_changes_nothing(alone: Runner) -> None:
    final = await alone.run("Reply with exactly: ok")
    assert await alone.cancel(final["id"]) == final
    assert await alone.get(final["id"]) == final


@pytest.mark.requirement("SU-sessions-05")
async def test_a_session_is_cancelled_by_its_own_id(alone: Runner) -> None:
    made = await alone.create(COUNT)
    await started(alone, made.id)
    answer = await alone.responses.CancelSession(wire.CancelSessionRequest(id=made.session_id))
    assert answer.status == "cancelled"
    assert (await alone.get(made.id))["status"] == "cancelled"
    answer = await alone.responses.CancelSession(wire.CancelSessionRequest(id=made.session_id))
    assert answer.status == "cancelled"
    error = await refused(alone.responses.CancelSession(wire.CancelSessionRequest(id="hsess_none")))
    assert error.code == "session_not_found"


async def test_a_task_that_waits_is_cancelled_at_once(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    settings = runner_settings(service_database("runner"), clean_redis, keys, runner_concurrency=1)
    async with runner(settings, keys) as narrow:
        with narrow.act_as("person:alice"):
            running = await narrow.create(COUNT)
            await started(narrow, running.id)
            waiting = await narrow.create("Reply with exactly: never")
            assert (await narrow.get(waiting.id))["status"] == "in_progress"
            assert (await narrow.cancel(waiting.id))["status"] == "cancelled"
            events = await narrow.events(waiting.id)
            assert [event["type"] for event in events] == ["response.created", "response.failed"]
            check_rules(events)
            await narrow.cancel(running.id)


@pytest.mark.requirement("SU-errors-10")
async def test_tasks_beyond_the_queue_are_refused(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    settings = runner_settings(
        service_database("runner"), clean_redis, keys, runner_concurrency=1, runner_queue_limit=1
    )
    async with runner(settings, keys) as narrow:
        with narrow.act_as("person:alice"):
            running = await narrow.create(COUNT)
            await started(narrow, running.id)
            await narrow.create(COUNT)
            error = await refused(narrow.create("Reply with exactly: x"))
            assert error.code == "harness_unavailable"
            assert error.retryable


# -- budgets -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("SU-tasks-09")
async def test_the_budget_of_tokens_ends_incomplete(alone: Runner) -> None:
    final = await alone.run("Count slowly from 1 to 50, one number per line.", max_output_tokens=3)
    assert final["status"] == "incomplete"
    assert final["incomplete_details"] == {"reason": "max_output_tokens"}
    assert final["output"][0]["content"][0]["text"] == "1\n2\n3\n"
    assert final["error"] is None


@pytest.mark.requirement("SU-tasks-09")
async def test_the_budget_of_time_ends_incomplete(alone: Runner) -> None:
    made = await alone.create(COUNT, timeout_seconds=1)
    events = await alone.events(made.id)
    check_rules(events)
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": "timeout_seconds"}
    assert events[-1]["response"]["output"]


async def test_a_harness_can_have_the_tighter_budget(alone: Runner) -> None:
    harness = await alone.harness(timeout_seconds=1)
    final = await alone.run(COUNT, harness_id=harness.id, timeout_seconds=600)
    assert final["incomplete_details"] == {"reason": "timeout_seconds"}


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"input": b""}, "invalid_input", "input"),
        (
            {"input": b'[{"role":"user","content":[{"type":"input_file"}]}]'},
            "invalid_input",
            "input[0].content[0].type",
        ),
        ({"model": "gpt-99"}, "model_unavailable", "model"),
        ({"harness_id": "chrn_none"}, "harness_not_found", "metadata.harness_id"),
        ({"max_step": -1}, "invalid_input", "max_step"),
        ({"instructions": "x" * 300_000}, "invalid_input", "instructions"),
    ],
)
async def test_a_task_that_cannot_be_done_is_refused_before_it_exists(
    alone: Runner, more: dict[str, Any], code: str, param: str
) -> None:
    error = await refused(alone.create("Reply with exactly: x", **more))
    assert (error.code, error.param) == (code, param)


async def test_a_response_belongs_to_whoever_asked_for_it(alone: Runner) -> None:
    made = await alone.create("Reply with exactly: mine")
    await alone.events(made.id)
    with alone.act_as("person:mallory"):
        for call in (
            alone.get(made.id),
            alone.events(made.id),
            alone.cancel(made.id),
            alone.create("Reply with exactly: x", previous_response_id=made.id),
        ):
            assert (await refused(call)).code == "response_not_found"
        session = wire.CancelSessionRequest(id=made.session_id)
        assert (await refused(alone.responses.CancelSession(session))).code == "session_not_found"


# -- idempotency -------------------------------------------------------------------------------------------


@pytest.mark.requirement("SU-tasks-12")
async def test_a_repeated_key_gets_the_first_response_and_starts_nothing(alone: Runner) -> None:
    first = await alone.create("Reply with exactly: once", key="k1")
    again = await alone.create("Reply with exactly: once", key="k1")
    assert again.id == first.id
    await alone.events(first.id)
    after = await alone.create("Reply with exactly: once", key="k1")
    assert (after.id, after.status) == (first.id, "completed")
    with alone.act_as("person:bob"):
        assert (await alone.create("Reply with exactly: once", key="k1")).id != first.id


async def test_one_key_for_two_requests_is_a_mismatch(alone: Runner) -> None:
    await alone.create("Reply with exactly: once", key="k1")
    error = await refused(alone.create("Reply with exactly: twice", key="k1"))
    assert error.code == "grovekeeper_idempotency_mismatch"


async def test_a_key_sent_many_times_at_once_starts_one_task(alone: Runner) -> None:
    answers = await asyncio.gather(*(alone.create("Reply with exactly: once", key="k") for _ in range(6)))
    assert len({one.id for one in answers}) == 1


# -- store: false ------------------------------------------------------------------------------------------


async def test_what_is_not_stored_can_be_streamed_but_not_read_after_its_end(alone: Runner) -> None:
    made = await alone.create("Reply with exactly: gone", store=False)
    events = await alone.events(made.id)
    assert events[-1]["response"]["store"] is False
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "gone"
    assert (await refused(alone.get(made.id))).code == "response_not_found"
    assert (await refused(alone.cancel(made.id))).code == "response_not_found"
    continued = alone.create("Reply with exactly: x", previous_response_id=made.id)
    assert (await refused(continued)).code == "response_not_found"
    assert await alone.events(made.id) == events


# -- without Redis -----------------------------------------------------------------------------------------


async def test_without_redis_everything_still_happens(
    keys: Keys, service_database: Callable[[str], str]
) -> None:
    dsn = service_database("runner")
    settings = runner_settings(dsn, "redis://127.0.0.1:1/0", keys)
    other = runner_settings(dsn, "redis://127.0.0.1:1/0", keys, runner_concurrency=1)
    async with runner(settings, keys) as one, runner(other, keys) as two:
        with one.act_as("person:alice"):
            made = await one.create("Count slowly from 1 to 30, one number per line.")
            here, there = await asyncio.gather(one.events(made.id), two.events(made.id))
            check_rules(here)
            assert here == there
            running = await one.create(COUNT)
            await started(two, running.id)
            await two.cancel(running.id)
            assert (await one.events(running.id))[-1]["response"]["status"] == "cancelled"


async def test_two_runners_share_a_queue_and_serve_each_others_followers(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    dsn = service_database("runner")
    settings = runner_settings(dsn, clean_redis, keys, runner_concurrency=2)
    async with runner(settings, keys) as one, runner(settings, keys) as two:
        with one.act_as("person:alice"):
            made = [await one.create(f"Reply with exactly: number {n} of them") for n in range(10)]
            streams = await asyncio.gather(*(two.events(response.id) for response in made))
            for number, stream in enumerate(streams):
                check_rules(stream)
                assert stream[-1]["response"]["output"][0]["content"][0]["text"] == f"number {number} of them"
            running = await one.create(COUNT)
            await started(two, running.id)
            assert (await two.cancel(running.id))["status"] == "cancelled"


async def test_the_log_holds_what_was_streamed(alone: Runner, service_database: Callable[[str], str]) -> None:
    final = await alone.run("Reply with exactly: kept")
    with psycopg.connect(service_database("runner"), autocommit=True) as connection:
        rows = connection.execute(
            "select sequence_number, terminal from event where response_id = %s order by 1", (final["id"],)
        ).fetchall()
    assert [row[0] for row in rows] == list(range(len(rows)))
    assert [row[1] for row in rows] == [False] * (len(rows) - 1) + [True]
