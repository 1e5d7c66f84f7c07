"""Sessions that are shared by a link."""

import json
from collections.abc import Callable

import psycopg
import pytest

from protos.common.v1 import common_pb2
from protos.runner.v1 import sessions_pb2
from service_kit.errors import GroveError
from tests.api.runner_service.cluster import Keys, Runner, runner, runner_settings
from tests.api.runner_service.test_sessions import delete
from tests.api.runner_service.test_tasks import refused


async def share(runner: Runner, session: str) -> str:
    return (await runner.shares.ShareSession(sessions_pb2.ShareSessionRequest(session_id=session))).id


async def shared(runner: Runner, session: str) -> str:
    return (await runner.shares.GetShare(sessions_pb2.GetShareRequest(session_id=session))).id


async def revoke(runner: Runner, session: str) -> None:
    await runner.shares.RevokeShare(sessions_pb2.RevokeShareRequest(session_id=session))


async def opened(runner: Runner, link: str, cursor: str = "", limit: int = 0) -> sessions_pb2.SharedView:
    page = common_pb2.Page(limit=limit, cursor=cursor)
    return await runner.shares.OpenShare(sessions_pb2.OpenShareRequest(share_id=link, page=page))


async def leads_nowhere(runner: Runner, link: str) -> bool:
    try:
        await opened(runner, link)
    except GroveError as error:
        return (error.code, error.message) == ("grovekeeper_not_found", "There is nothing at this address.")
    return False


async def said(runner: Runner, text: str = "Reply with exactly: ok", previous: str = "") -> tuple[str, str]:
    """A response that ended, and its session."""
    ended = await runner.run(text, previous_response_id=previous)
    return ended["id"], ended["metadata"]["session_id"]


@pytest.mark.requirement("SU-sessions-08", "SU-sessions-11")
async def test_a_link_shows_what_was_said_to_whoever_has_it(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    settings = runner_settings(service_database("runner"), clean_redis, keys)
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            response, session = await said(made)
            assert (await refused(shared(made, session))).code == "grovekeeper_not_found"
            link = await share(made, session)
            assert await share(made, session) == await shared(made, session) == link
            await said(made, "Reply with exactly: more", response)
        # Nobody in particular.
        view = await opened(made, link, limit=1)
        assert (view.title, len(view.turns)) == ("Reply with exactly: ok", 1)
        turn = json.loads(view.turns[0])
        assert turn.pop("created_at") <= turn.pop("completed_at")
        assert turn == {
            "status": "completed",
            "user": "Reply with exactly: ok",
            "assistant": "ok",
            "tools": [],
            "files": [],
        }
        later = await opened(made, link, view.next_cursor)
        assert [json.loads(one)["assistant"] for one in later.turns] == ["more"]
        assert not later.next_cursor
        for other in (link[:-1], link + "A", link.upper(), session, ""):
            assert await leads_nowhere(made, other)


@pytest.mark.requirement("SU-sessions-11")
async def test_only_its_owner_shares_a_session_and_takes_it_back(alone: Runner) -> None:
    _, session = await said(alone)
    link = await share(alone, session)
    with alone.act_as("person:bob"):
        for asked in (share(alone, session), shared(alone, session), revoke(alone, session)):
            assert (await refused(asked)).code == "session_not_found"
    await opened(alone, link)
    await revoke(alone, session)
    await revoke(alone, session)
    assert await leads_nowhere(alone, link)
    assert (await refused(shared(alone, session))).code == "grovekeeper_not_found"
    again = await share(alone, session)
    assert again != link
    await delete(alone, session)
    assert await leads_nowhere(alone, again)


@pytest.mark.requirement("SU-sessions-11")
async def test_every_link_ever_made_is_taken_back_and_none_is_kept_in_clear(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> None:
    dsn = service_database("runner")
    async with runner(runner_settings(dsn, clean_redis, keys), keys) as first:
        with first.act_as("person:alice"):
            _, session = await said(first)
            old = await share(first, session)
    with psycopg.connect(dsn) as connection:
        (kept,) = connection.execute("select string_agg(share::text, ' ') from share").fetchone() or ("",)
        assert old.removeprefix("hshare_") not in kept
        assert old.encode().hex() not in kept
    # The service has another token now: it cannot make the old link anew, and that opens all the same.
    settings = runner_settings(dsn, clean_redis, keys, service_token="gk_another-token")
    async with runner(settings, keys) as second:
        with second.act_as("person:alice"):
            new = await shared(second, session)
            assert new == await share(second, session) != old
            for link in (old, new):
                assert (await opened(second, link)).title == "Reply with exactly: ok"
            await revoke(second, session)
            assert [await leads_nowhere(second, link) for link in (old, new)] == [True, True]
