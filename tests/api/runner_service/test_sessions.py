"""Sessions as their owner lists, reads and takes them apart."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from protos.common.v1 import common_pb2
from protos.runner.v1 import runner_pb2, sessions_pb2
from runner_service.sandbox import folders
from service_kit.errors import GroveError
from tests.api.runner_service.cluster import Keys, Runner, runner, runner_settings
from tests.api.runner_service.test_tasks import COUNT, refused, started

Json = dict[str, Any]


async def listed(
    runner: Runner, harness: str = "", cursor: str = "", limit: int = 0
) -> sessions_pb2.ListSessionsResponse:
    page = common_pb2.Page(limit=limit, cursor=cursor)
    return await runner.sessions.ListSessions(sessions_pb2.ListSessionsRequest(harness_id=harness, page=page))


async def turns(runner: Runner, session: str, cursor: str = "", limit: int = 0) -> tuple[list[Json], str]:
    page = common_pb2.Page(limit=limit, cursor=cursor)
    answer = await runner.sessions.ListTurns(sessions_pb2.ListTurnsRequest(session_id=session, page=page))
    return [json.loads(one) for one in answer.turns], answer.next_cursor


async def get(runner: Runner, session: str) -> sessions_pb2.Session:
    return await runner.sessions.GetSession(sessions_pb2.GetSessionRequest(id=session))


async def delete_response(runner: Runner, response_id: str) -> None:
    await runner.responses.DeleteResponse(runner_pb2.DeleteResponseRequest(id=response_id))


async def input_items(runner: Runner, response_id: str) -> Any:
    asked = runner_pb2.GetInputItemsRequest(id=response_id)
    return json.loads((await runner.responses.GetInputItems(asked)).json)


@pytest.mark.requirement("SU-sessions-04")
async def test_sessions_are_listed_newest_first_in_pages_that_new_ones_do_not_move(alone: Runner) -> None:
    ran = [(await alone.run(f"Reply with exactly: {n}"))["metadata"]["session_id"] for n in range(4)]
    first = await listed(alone, limit=3)
    later = (await alone.run("Reply with exactly: later"))["metadata"]["session_id"]
    second = await listed(alone, cursor=first.next_cursor, limit=3)
    assert [one.id for one in first.sessions] == ran[:0:-1]
    assert ([one.id for one in second.sessions], second.next_cursor) == (ran[:1], "")
    full = await listed(alone, limit=5)
    assert ([one.id for one in full.sessions], full.next_cursor) == ([later, *ran[::-1]], "")
    shown = full.sessions[1]
    assert (shown.title, shown.status) == ("Reply with exactly: 3", "completed")
    assert shown.created_at.seconds <= shown.updated_at.seconds
    assert (await refused(listed(alone, cursor="nonsense"))).param == "cursor"


@pytest.mark.requirement("SU-sessions-04")
async def test_sessions_are_listed_by_harness_and_to_their_owner_only(alone: Runner) -> None:
    harness = (await alone.harness()).id
    on_it = (await alone.run("Reply with exactly: ok", harness_id=harness))["metadata"]["session_id"]
    await alone.run("Reply with exactly: ok")
    assert [one.id for one in (await listed(alone, harness)).sessions] == [on_it]
    with alone.act_as("person:bob"):
        assert not (await listed(alone)).sessions
        assert not (await listed(alone, harness)).sessions
        assert (await refused(get(alone, on_it))).code == "session_not_found"
        assert (await refused(turns(alone, on_it))).code == "session_not_found"


@pytest.mark.requirement("SU-sessions-04")
async def test_turns_tell_in_order_what_was_asked_and_answered(alone: Runner) -> None:
    first = await alone.run("Reply with exactly: one")
    session = first["metadata"]["session_id"]
    running = await alone.create(COUNT, previous_response_id=first["id"])
    await started(alone, running.id)
    told, _ = await turns(alone, session)
    assert [(one["id"], one["status"], one["user"]) for one in told] == [
        (first["id"], "completed", "Reply with exactly: one"),
        (running.id, "in_progress", COUNT),
    ]
    assert (told[0]["assistant"], told[0]["tools"], told[0]["files"]) == ("one", [], [])
    assert (await get(alone, session)).status == "in_progress"
    await alone.cancel(running.id)
    (last,), following = await turns(alone, session, (await turns(alone, session, limit=1))[1])
    assert (last["id"], last["status"], following) == (running.id, "cancelled", "")
    assert last["assistant"].startswith("1\n2")


async def test_a_page_of_turns_ends_before_it_is_too_large(alone: Runner) -> None:
    long = "x" * 3_000_000
    first = await alone.run(long)
    second = await alone.run(long, previous_response_id=first["id"])
    page, following = await turns(alone, first["metadata"]["session_id"])
    rest, end = await turns(alone, first["metadata"]["session_id"], following)
    assert [one["id"] for one in page + rest] == [first["id"], second["id"]]
    assert (len(page), end) == (1, "")


@pytest.mark.requirement("SU-tasks-15")
async def test_of_what_is_not_to_be_stored_no_session_shows_anything(alone: Runner) -> None:
    hidden = await alone.run("Reply with exactly: hidden", store=False)
    first = await alone.run("Reply with exactly: one")
    unkept = await alone.run("Reply with exactly: two", previous_response_id=first["id"], store=False)
    assert [one.id for one in (await listed(alone)).sessions] == [first["metadata"]["session_id"]]
    assert (await refused(get(alone, hidden["metadata"]["session_id"]))).code == "session_not_found"
    told, _ = await turns(alone, unkept["metadata"]["session_id"])
    assert [one["id"] for one in told] == [first["id"]]


@pytest.mark.requirement("SU-tasks-18")
async def test_input_items_are_what_was_asked(alone: Runner) -> None:
    text = await alone.run("Reply with exactly: ok")
    part = {"type": "input_text", "text": "Reply with exactly: ok"}
    assert await input_items(alone, text["id"]) == [
        {"type": "message", "role": "user", "content": [part]},
    ]
    items: list[Json] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [part]}]
    assert await input_items(alone, (await alone.run(items))["id"]) == items
    with alone.act_as("person:bob"):
        assert (await refused(input_items(alone, text["id"]))).code == "response_not_found"


@pytest.mark.requirement("SU-tasks-19")
async def test_a_response_is_deleted_and_its_session_with_the_last_one(alone: Runner) -> None:
    first = await alone.run("Reply with exactly: one")
    second = await alone.run("Reply with exactly: two", previous_response_id=first["id"])
    session = first["metadata"]["session_id"]
    with alone.act_as("person:bob"):
        assert (await refused(delete_response(alone, first["id"]))).code == "response_not_found"
    await delete_response(alone, first["id"])
    assert (await refused(alone.get(first["id"]))).code == "response_not_found"
    assert (await refused(alone.events(first["id"]))).code == "response_not_found"
    assert (await refused(delete_response(alone, first["id"]))).code == "response_not_found"
    # What is left says what the session is about.
    assert (await get(alone, session)).title == "Reply with exactly: two"
    third = await alone.run("Reply with exactly: three", previous_response_id=second["id"])
    for one in (second, third):
        await delete_response(alone, one["id"])
    assert (await refused(get(alone, session))).code == "session_not_found"


@pytest.mark.requirement("SU-tasks-19")
async def test_deleting_a_response_never_cancels_it(alone: Runner) -> None:
    made = await alone.create(COUNT)
    await started(alone, made.id)
    assert (await refused(delete_response(alone, made.id))).code == "session_busy"
    assert (await alone.get(made.id))["status"] == "in_progress"
    await alone.cancel(made.id)
    async with asyncio.timeout(10):
        await alone.events(made.id)
    await delete_response(alone, made.id)


async def delete(runner: Runner, session: str) -> None:
    await runner.sessions.DeleteSession(sessions_pb2.DeleteSessionRequest(id=session))


@pytest.mark.requirement("SU-sessions-09")
async def test_a_deleted_session_is_gone_with_everything_in_it(alone: Runner) -> None:
    first = await alone.run("Reply with exactly: one", key="k")
    session = first["metadata"]["session_id"]
    with alone.act_as("person:bob"):
        assert (await refused(delete(alone, session))).code == "session_not_found"
    running = await alone.create(COUNT, previous_response_id=first["id"])
    await started(alone, running.id)
    following = asyncio.create_task(alone.events(running.id))
    await delete(alone, session)
    # Whoever follows is told the end, or that there is nothing to follow.
    async with asyncio.timeout(10):
        (told,) = await asyncio.gather(following, return_exceptions=True)
    gone = isinstance(told, GroveError) and told.code == "response_not_found"
    assert gone or (isinstance(told, list) and told[-1]["response"]["status"] == "cancelled")
    for asked in (get(alone, session), turns(alone, session), delete(alone, session)):
        assert (await refused(asked)).code == "session_not_found"
    for response in (first["id"], running.id):
        for asked in (alone.get(response), alone.cancel(response), alone.events(response)):
            assert (await refused(asked)).code == "response_not_found"
    again = alone.create("Reply with exactly: two", previous_response_id=first["id"])
    assert (await refused(again)).code == "response_not_found"
    # A key is still used up: what it did is not done again.
    assert (await refused(alone.create("Reply with exactly: one", key="k"))).code == "response_not_found"
    assert not (await listed(alone)).sessions


async def test_a_follower_of_a_session_that_goes_without_a_word_is_told(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    dsn = service_database("runner")
    settings = runner_settings(dsn, clean_redis, keys, runner_concurrency=1)
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            busy = await made.create(COUNT)
            await started(made, busy.id)
            waits = await made.create("Reply with exactly: ok")
            following = made.follow(waits.id)
            assert (await anext(following))["type"] == "response.created"
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("delete from response where id = %s", (waits.id,))
            async with asyncio.timeout(10):
                assert (await refused(anext(following))).code == "response_not_found"
            await made.cancel(busy.id)


@pytest.mark.requirement("SU-sessions-10")
async def test_who_continues_a_session_that_was_idle_for_too_long_is_told_so(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    settings = runner_settings(
        service_database("runner"), clean_redis, keys, runner_session_keep_s=0.01, runner_reconcile_s=0.002
    )
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            ended = await made.create("Reply with exactly: ok")
            async with asyncio.timeout(20):
                while (await listed(made)).sessions:  # noqa: ASYNC110 - nothing tells of a purge
                    await asyncio.sleep(0.05)
            asked = made.create("Hi.", previous_response_id=ended.id)
            error = await refused(asked)
            assert (error.code, error.param) == ("session_expired", "previous_response_id")
            with made.act_as("person:bob"):
                asked = made.create("Hi.", previous_response_id=ended.id)
                assert (await refused(asked)).code == "response_not_found"


@pytest.mark.requirement("SU-sessions-09")
async def test_the_folder_an_agent_left_goes_with_its_session_and_no_other_does(
    keys: Keys,
    service_database: Callable[[str], str],
    clean_redis: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folders, "_EVERY_S", 0.05)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "sessions"
    settings = runner_settings(service_database("runner"), clean_redis, keys, sessions_dir=root)
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            gone, kept = [
                (await made.run("Reply with exactly: hi"))["metadata"]["session_id"] for _ in range(2)
            ]
            for name in (gone, kept, "version"):
                (root / name / "home").mkdir(parents=True)
            (root / gone / "home" / "link").symlink_to(elsewhere)
            (root / gone / "home" / "shut").mkdir(mode=0)
            await made.sessions.DeleteSession(sessions_pb2.DeleteSessionRequest(id=gone))
            async with asyncio.timeout(10):
                while (root / gone).exists():  # noqa: ASYNC110 - nobody tells when a folder goes
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
    assert {one.name for one in root.iterdir()} == {kept, "version"}
    assert elsewhere.exists()
