"""What runner_service's stores promise their use cases (``runner_service.domain.ports``), on a real Postgres."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from runner_service.domain.composer import Composer
from runner_service.domain.ending import end
from runner_service.domain.errors import GroveError, LeaseLostError
from runner_service.domain.model import (
    Asked,
    Attachment,
    Budgets,
    Claim,
    Configuration,
    Event,
    Failure,
    Harness,
    Idempotency,
    Known,
    Lease,
    Outcome,
    Primed,
    Priming,
    Response,
    Session,
    Status,
    Usage,
)
from runner_service.domain.response_object import compose
from runner_service.domain.turn_events import TextDelta
from runner_service.settings import Settings
from runner_service.store.harnesses import PostgresHarnesses
from runner_service.store.responses import PostgresResponses
from runner_service.store.sessions import PostgresSessions
from runner_service.store.turns import OBSERVE, Keeping, PostgresTurns
from service_kit.db.pool import Database, connect
from service_kit.ids import new_id
from service_kit.jobs import Jobs

ALICE, BOB = "person:alice", "person:bob"
NO_KEY = Idempotency("", b"")
NOW = datetime(2026, 10, 4, 12, 0, tzinfo=UTC)


class Stores:
    """The stores, and short ways to put something into them."""

    def __init__(self, database: Database, settings: Settings, dsn: str) -> None:
        self.observed: list[dict[str, object]] = []
        self.begun: set[str] = set()
        self.database = database
        self.jobs = Jobs("runner", settings)
        self.jobs.task(OBSERVE, self._observe)
        self.harnesses = PostgresHarnesses(database)
        self.responses = PostgresResponses(database)
        self.sessions = PostgresSessions(database)
        self.turns = PostgresTurns(database, self.jobs, Keeping(timedelta(seconds=15), timedelta(hours=1)))
        self.dsn = dsn

    async def _observe(self, payload: dict[str, Any]) -> None:
        self.observed.append(payload)

    async def harness(self, owner: str = ALICE, **more: Any) -> Harness:
        configuration = Configuration("Test", "m", "Be kind.", ("a", "b"), 3, 60)
        made = Harness(new_id("chrn"), owner, "scripted", configuration, NOW, **more)
        return await self.harnesses.add_harness(made, NO_KEY)

    async def queue(
        self, session: Session | None = None, *, key: Idempotency = NO_KEY, at: datetime = NOW, **more: Any
    ) -> Response:
        """A queued response, of a new session unless one is given."""
        if session is None:
            harness = await self.harness()
            session = Session(new_id("hsess"), ALICE, harness.id, "", NOW)
        before = "resp_before" if session.id in self.begun else ""
        self.begun.add(session.id)
        asked = Asked(
            input=b'"hi \\u00e9"',
            model="m",
            harness_id=session.harness_id,
            memory_id="",
            previous_response_id=more.get("previous", before),
            instructions="Briefly.",
            store=more.get("store", True),
            background=False,
            budgets=Budgets(1, 2, 3),
            ignored_fields=("tools",),
        )
        response = Response(
            id=new_id("resp"),
            owner=ALICE,
            session_id=session.id,
            harness_id=session.harness_id,
            asked=asked,
            model="m",
            status=Status.QUEUED,
            created_at=at,
            trace={"traceparent": "00-1-2-01"},
        )
        created = Composer().lifecycle("response.created", compose(response, (), None))
        return await self.responses.accept(session, response, created, key)

    async def claimed(self, session: Session | None = None, **more: Any) -> Claim:
        """A turn under way."""
        await self.queue(session, **more)
        claim = await self.turns.claim("runner-1")
        assert claim is not None
        return claim

    async def finish(self, claim: Claim, outcome: Outcome, *, observe: str | None = None) -> Response:
        composer = Composer.restored(await self.turns.log(claim.response.id))
        composer.feed(TextDelta("done"))
        ended, events = end(claim.response, composer, outcome, NOW)
        await self.turns.finish(claim.lease, ended, events, observe)
        return ended

    def run_out(self, lease: Lease) -> None:
        """Its runner has been silent for too long."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                "update session set lease_until = now() - interval '1 second' where id = %s",
                (lease.session_id,),
            )


@pytest.fixture
async def stores(service_database: Callable[[str], str]) -> AsyncGenerator[Stores]:
    dsn = service_database("runner")
    settings = Settings(database_url=SecretStr(dsn))
    async with connect(settings, "runner") as database:
        yield Stores(database, settings, dsn)


COMPLETED = Outcome(Status.COMPLETED, usage=Usage(3, 4))


def events(first: int, count: int) -> list[Event]:
    return [Event(n, "response.in_progress", b"{}") for n in range(first, first + count)]


# -- harnesses ---------------------------------------------------------------------------------------------


async def test_a_harness_reads_back_whole_and_to_its_owner_only(stores: Stores) -> None:
    made = await stores.harness()
    assert await stores.harnesses.harness(ALICE, made.id) == made
    assert await stores.harnesses.harness(BOB, made.id) is None
    assert await stores.harnesses.harnesses(BOB) == ()


async def test_there_is_one_default_harness_for_an_owner_and_a_base(stores: Stores) -> None:
    made = await asyncio.gather(*(stores.harness(is_default=True) for _ in range(4)))
    assert len({one.id for one in made}) == 1
    assert await stores.harnesses.default_harness(ALICE, "scripted") == made[0]
    assert await stores.harnesses.default_harness(ALICE, "loop") is None
    assert await stores.harnesses.delete_harness(ALICE, made[0].id)
    assert (await stores.harness(is_default=True)).id != made[0].id


async def test_a_repeated_attach_replaces_nothing_again(stores: Stores) -> None:
    made = await stores.harness()
    key, first = Idempotency("once", b"1"), [Attachment("hmem_1", "write", is_default=True)]
    assert not await stores.harnesses.attached_before(ALICE, key)
    await stores.harnesses.attach(ALICE, made.id, first, key)
    await stores.harnesses.attach(ALICE, made.id, [], NO_KEY)
    assert await stores.harnesses.attached_before(ALICE, key)
    await stores.harnesses.attach(ALICE, made.id, first, key)
    assert await stores.harnesses.attachments(made.id) == ()
    with pytest.raises(GroveError, match="Idempotency-Key"):
        await stores.harnesses.attached_before(ALICE, Idempotency("once", b"2"))


async def test_attachments_are_replaced_whole_and_keep_their_order(stores: Stores) -> None:
    made = await stores.harness()
    first = [Attachment("hmem_2", "read"), Attachment("hmem_1", "write", is_default=True)]
    await stores.harnesses.attach(ALICE, made.id, first, NO_KEY)
    assert await stores.harnesses.attachments(made.id) == tuple(first)
    await stores.harnesses.attach(ALICE, made.id, [], NO_KEY)
    assert await stores.harnesses.attachments(made.id) == ()


# -- accepting ---------------------------------------------------------------------------------------------


async def test_an_accepted_response_reads_back_whole_with_its_first_event(stores: Stores) -> None:
    made = await stores.queue()
    read = await stores.responses.response(ALICE, made.id)
    assert read == made
    assert await stores.responses.response(BOB, made.id) is None
    assert await stores.responses.queued() == 1
    (created,) = await stores.responses.events(made.id, -1, 10)
    assert (created.sequence_number, created.type, created.terminal) == (0, "response.created", False)
    session = await stores.responses.session(ALICE, made.session_id)
    assert session is not None
    assert session.harness_id == made.harness_id
    assert await stores.responses.running(made.session_id) == made.id


async def test_a_session_takes_one_response_at_a_time(stores: Stores) -> None:
    claim = await stores.claimed()
    with pytest.raises(GroveError) as refused:
        await stores.queue(claim.session)
    assert refused.value.code == "session_busy"
    await stores.finish(claim, COMPLETED)
    assert await stores.responses.running(claim.session.id) is None
    await stores.queue(claim.session)


async def test_a_key_answers_its_first_response_and_a_refused_one_is_forgotten(stores: Stores) -> None:
    key = Idempotency("k", b"1")
    claim = await stores.claimed()
    with pytest.raises(GroveError):
        await stores.queue(claim.session, key=key)
    made = await stores.queue(key=key)
    assert (await stores.queue(key=key)).id == made.id
    assert await stores.responses.repeated_response(ALICE, key) == made
    assert await stores.responses.repeated_response(BOB, key) is None
    with pytest.raises(GroveError) as refused:
        await stores.queue(key=Idempotency("k", b"2"))
    assert refused.value.code == "grovekeeper_idempotency_mismatch"


async def test_what_is_not_to_be_stored_is_hidden_once_it_has_ended(stores: Stores) -> None:
    claim = await stores.claimed(store=False)
    assert await stores.responses.response(ALICE, claim.response.id) is not None
    await stores.finish(claim, COMPLETED)
    assert await stores.responses.response(ALICE, claim.response.id) is None
    assert await stores.responses.followable(ALICE, claim.response.id) is not None


# -- the queue ---------------------------------------------------------------------------------------------


async def test_the_oldest_is_claimed_first_with_everything_it_needs(stores: Stores) -> None:
    harness = await stores.harness()
    await stores.harnesses.attach(ALICE, harness.id, [Attachment("hmem_1", "read")], NO_KEY)
    later = await stores.queue(at=NOW + timedelta(seconds=1))
    first = await stores.queue(Session(new_id("hsess"), ALICE, harness.id, "", NOW))
    claim = await stores.turns.claim("runner-1")
    assert claim is not None
    assert claim.response == replace(first, status=Status.IN_PROGRESS)
    assert claim.harness == harness
    assert claim.attachments == (Attachment("hmem_1", "read"),)
    assert claim.lease == Lease(first.session_id, "runner-1", 1)
    second = await stores.turns.claim("runner-1")
    assert second is not None
    assert second.response.id == later.id
    assert await stores.turns.claim("runner-1") is None


async def test_no_response_is_claimed_twice(stores: Stores) -> None:
    made = {(await stores.queue()).id for _ in range(10)}
    claims = await asyncio.gather(*(stores.turns.claim(f"runner-{n % 3}") for n in range(20)))
    claimed = [claim.response.id for claim in claims if claim is not None]
    assert sorted(claimed) == sorted(made)


async def test_the_harness_of_a_waiting_task_may_be_deleted(stores: Stores) -> None:
    made = await stores.queue()
    await stores.harnesses.delete_harness(ALICE, made.harness_id)
    claim = await stores.turns.claim("runner-1")
    assert claim is not None
    assert claim.harness.id == made.harness_id


async def test_a_waiting_response_is_cancelled_or_started_and_never_both(stores: Stores) -> None:
    made = await stores.queue()
    composer = Composer.restored(await stores.turns.log(made.id))
    ended, last = end(made, composer, Outcome(Status.CANCELLED), NOW)
    outcomes = await asyncio.gather(
        stores.responses.cancel_queued(ended, last), stores.turns.claim("runner-1")
    )
    assert outcomes[0] is not (outcomes[1] is not None)
    read = await stores.responses.response(ALICE, made.id)
    assert read is not None
    assert read.status is (Status.CANCELLED if outcomes[0] else Status.IN_PROGRESS)


# -- leases ------------------------------------------------------------------------------------------------


async def test_only_the_newest_lease_writes(stores: Stores) -> None:
    claim = await stores.claimed()
    await stores.turns.append(claim.lease, claim.response.id, events(1, 3))
    stores.run_out(claim.lease)
    (taken,) = await stores.turns.abandoned("runner-2", 10)
    assert taken.lease == Lease(claim.session.id, "runner-2", 2)
    assert taken.response.id == claim.response.id
    for write in (
        stores.turns.append(claim.lease, claim.response.id, events(4, 1)),
        stores.turns.prime(claim.lease, Priming("x", ())),
        stores.finish(claim, COMPLETED),
    ):
        with pytest.raises(LeaseLostError):
            await write
    assert [one.sequence_number for one in await stores.turns.log(claim.response.id)] == [0, 1, 2, 3]
    assert await stores.turns.beat("runner-1", [claim.lease]) == frozenset()
    await stores.finish(taken, Outcome(Status.FAILED, Failure("server_error", "gone")))
    with pytest.raises(LeaseLostError):
        await stores.turns.append(taken.lease, claim.response.id, events(9, 1))


async def test_a_lease_that_is_kept_is_not_abandoned(stores: Stores) -> None:
    claim = await stores.claimed()
    stores.run_out(claim.lease)
    assert await stores.turns.beat("runner-1", [claim.lease]) == {claim.session.id}
    assert await stores.turns.abandoned("runner-2", 10) == ()


async def test_an_abandoned_turn_is_taken_by_one(stores: Stores) -> None:
    claims = [await stores.claimed() for _ in range(3)]
    for claim in claims:
        stores.run_out(claim.lease)
    taken = await asyncio.gather(*(stores.turns.abandoned(f"r{n}", 10) for n in range(4)))
    ids = [one.response.id for some in taken for one in some]
    assert sorted(ids) == sorted(one.response.id for one in claims)


async def test_a_batch_whose_answer_was_lost_is_written_once(stores: Stores) -> None:
    claim = await stores.claimed()
    for _ in range(2):
        await stores.turns.append(claim.lease, claim.response.id, events(1, 3))
    assert [one.sequence_number for one in await stores.turns.log(claim.response.id)] == [0, 1, 2, 3]


async def test_the_log_is_read_in_pages_from_any_number(stores: Stores) -> None:
    claim = await stores.claimed()
    await stores.turns.append(claim.lease, claim.response.id, events(1, 9))
    page = await stores.responses.events(claim.response.id, 3, 4)
    assert [one.sequence_number for one in page] == [4, 5, 6, 7]


# -- ending ------------------------------------------------------------------------------------------------


async def test_an_end_is_read_back_byte_for_byte(stores: Stores) -> None:
    claim = await stores.claimed()
    ended = await stores.finish(claim, COMPLETED)
    read = await stores.responses.response(ALICE, claim.response.id)
    assert read is not None
    assert read.final == ended.final
    assert read.outcome == COMPLETED
    assert read.finished_at == NOW
    last = (await stores.turns.log(claim.response.id))[-1]
    assert last.terminal
    assert json.loads(last.json)["response"] == json.loads(read.final)
    assert await stores.turns.finished(claim.response.id) == read


async def test_the_observe_job_is_there_if_and_only_if_the_end_is(stores: Stores) -> None:
    claim = await stores.claimed()
    stores.run_out(claim.lease)
    await stores.turns.abandoned("runner-2", 10)
    with pytest.raises(LeaseLostError):
        await stores.finish(claim, COMPLETED, observe="hmem_1")
    await stores.jobs.run_pending()
    assert stores.observed == []
    other = await stores.claimed()
    await stores.finish(other, COMPLETED, observe="hmem_1")
    await stores.jobs.run_pending()
    assert stores.observed == [{"response_id": other.response.id, "memory_id": "hmem_1"}]


async def test_a_cancel_is_a_mark_on_what_runs(stores: Stores) -> None:
    claim = await stores.claimed()
    assert await stores.turns.cancels([claim.response.id]) == frozenset()
    await stores.responses.request_cancel(claim.response.id)
    assert await stores.turns.cancels([claim.response.id]) == {claim.response.id}
    ended = await stores.finish(claim, COMPLETED)
    await stores.responses.request_cancel(ended.id)
    read = await stores.responses.response(ALICE, ended.id)
    assert read is not None
    assert read.status is Status.COMPLETED


async def test_a_session_keeps_what_it_was_primed_with(stores: Stores) -> None:
    claim = await stores.claimed()
    priming = Priming(
        "block é\n\\u0000", (Primed("hmem_1", "Sales", 12),), (Known("hmem_1", "Sales", attached=True),)
    )
    await stores.turns.prime(claim.lease, priming)
    await stores.finish(claim, COMPLETED)
    again = await stores.claimed(claim.session)
    assert again.session.priming == priming


async def test_a_conversation_is_the_chain_that_was_continued(stores: Stores) -> None:
    first = await stores.claimed()
    await stores.finish(first, COMPLETED)
    second = await stores.claimed(first.session, previous=first.response.id)
    await stores.finish(second, COMPLETED)
    branch = await stores.claimed(first.session, previous=first.response.id)
    past = await stores.turns.history(branch.response)
    assert [(turn.input, [item["type"] for item in turn.output]) for turn in past] == [
        (b'"hi \\u00e9"', ["message"])
    ]
    await stores.finish(branch, COMPLETED)
    third = await stores.claimed(first.session, previous=second.response.id)
    assert len(await stores.turns.history(third.response)) == 2


@pytest.mark.requirement("SU-tasks-13")
async def test_what_is_past_its_time_is_removed_and_nothing_else(stores: Stores) -> None:
    kept = await stores.claimed()
    await stores.finish(kept, COMPLETED)
    unstored = await stores.claimed(store=False)
    await stores.finish(unstored, COMPLETED)
    await stores.queue(key=Idempotency("k", b"1"))
    with psycopg.connect(stores.dsn, autocommit=True) as connection:
        connection.execute("update response set finished_at = now() - interval '2 hours'")
        connection.execute("update idempotency set created_at = now() - interval '25 hours'")
    await stores.turns.purge()
    assert await stores.responses.response(ALICE, kept.response.id) is not None
    assert await stores.responses.followable(ALICE, unstored.response.id) is None
    assert await stores.turns.log(unstored.response.id) == ()
    assert await stores.responses.session(ALICE, unstored.session.id) is None
    assert await stores.responses.session(ALICE, kept.session.id) is not None
    assert await stores.responses.repeated_response(ALICE, Idempotency("k", b"1")) is not None


async def test_what_continued_a_deleted_response_continues_what_it_continued(stores: Stores) -> None:
    chain = [await stores.claimed()]
    await stores.finish(chain[0], COMPLETED)
    for _ in range(2):
        before = chain[-1]
        chain.append(await stores.claimed(before.session, previous=before.response.id))
        await stores.finish(chain[-1], COMPLETED)
    first, middle, last = (one.response for one in chain)
    assert await stores.sessions.delete_response(BOB, middle.id) is None
    assert len(await stores.turns.history(last)) == 2
    assert await stores.sessions.delete_response(ALICE, middle.id) is Status.COMPLETED
    assert len(await stores.turns.history(last)) == 1
    assert not await stores.responses.events(middle.id, -1, 10)
    assert await stores.sessions.delete_response(ALICE, first.id) is Status.COMPLETED
    assert not await stores.turns.history(last)


@pytest.mark.requirement("SU-sessions-09")
async def test_who_still_runs_a_turn_of_a_deleted_session_writes_nothing_more(stores: Stores) -> None:
    claim = await stores.claimed()
    kept = await stores.claimed()
    assert await stores.sessions.delete_session(BOB, claim.session.id) is None
    assert await stores.sessions.delete_session(ALICE, claim.session.id) == (claim.response.id,)
    assert await stores.sessions.delete_session(ALICE, claim.session.id) is None
    with pytest.raises(LeaseLostError):
        await stores.turns.append(claim.lease, claim.response.id, events(1, 1))
    with pytest.raises(LeaseLostError):
        await stores.turns.prime(claim.lease, None)
    with pytest.raises(LeaseLostError):
        await stores.finish(claim, COMPLETED, observe="hmem_1")
    assert await stores.turns.beat("runner-1", [claim.lease, kept.lease]) == {kept.session.id}
    with pytest.raises(GroveError) as error:
        await stores.queue(claim.session)
    assert error.value.code == "response_not_found"
    assert await stores.responses.session(ALICE, claim.session.id) is None
    with psycopg.connect(stores.dsn) as connection:
        left = connection.execute("select (select count(*) from response), (select count(*) from event)")
        assert left.fetchone() == (1, 1)


async def test_sessions_that_are_deleted_while_others_use_them_hold_nobody_up(stores: Stores) -> None:
    async def work() -> None:
        while (claim := await stores.turns.claim("runner-1")) is not None:
            with suppress(LeaseLostError):
                await stores.turns.append(claim.lease, claim.response.id, events(1, 3))
                await stores.finish(claim, COMPLETED)

    async def use(session: Session) -> None:
        with suppress(GroveError):
            await stores.queue(session)
        await stores.sessions.delete_session(ALICE, session.id)

    harness = await stores.harness()
    sessions = [Session(new_id("hsess"), ALICE, harness.id, "", NOW) for _ in range(60)]
    for one in sessions:
        await stores.queue(one)
    await asyncio.gather(*(use(one) for one in sessions), *(work() for _ in range(6)), stores.turns.purge())
    assert not await stores.sessions.overviews(ALICE, "", "", 100)


@pytest.mark.requirement("SU-sessions-10")
async def test_a_session_that_is_idle_for_long_enough_goes_and_is_known_to_have_expired(
    stores: Stores,
) -> None:
    idle, unstored, fresh, waiting, running = [await stores.claimed(store=n != 1) for n in range(5)]
    for one in (idle, unstored, fresh, waiting):
        await stores.finish(one, COMPLETED)
    await stores.queue(waiting.session, previous=waiting.response.id)
    with psycopg.connect(stores.dsn, autocommit=True) as connection:
        connection.execute(
            "update session set updated_at = now() - interval '25 hours' where id <> %s", (fresh.session.id,)
        )
    assert await stores.turns.purge() == 0
    keeping = Keeping(timedelta(seconds=15), timedelta(hours=1), sessions=timedelta(hours=24))
    turns = PostgresTurns(stores.database, stores.jobs, keeping)
    assert await turns.purge() == 1
    assert await stores.responses.expired(ALICE, idle.response.id)
    assert not await stores.responses.expired(BOB, idle.response.id)
    assert not await stores.responses.expired(ALICE, unstored.response.id)
    assert await turns.log(idle.response.id) == ()
    left = {one.id for one in await stores.sessions.overviews(ALICE, "", "", 10)}
    assert left == {one.session.id for one in (fresh, waiting, running)}
    with psycopg.connect(stores.dsn, autocommit=True) as connection:
        connection.execute("update expired_response set expired_at = now() - interval '91 days'")
    await turns.purge()
    assert not await stores.responses.expired(ALICE, idle.response.id)
