"""A reversal restores exactly (Memories, section 9.2): whatever a run found, the state after it is undone is the
state before it, apart from versions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.consolidation.keeper import Tidy
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from provider_workers.domain.consolidations import Run, Wanted
from provider_workers.domain.model import Draft, Include, Page, Record, Selection, Stamp, Writer
from provider_workers.settings import Settings
from service_kit.db.pool import connect
from service_kit.ids import new_id
from service_kit.jobs import Jobs
from tests.contract.providers.subject import ALICE, BOB, Subject, episode, words

_Answer = TypeVar("_Answer")
SENTENCES = (
    "I live in Berlin with my two cats.",
    "Well, I live in Berlin with my two cats!",
    "I live in Oslo with my two cats.",
    "The deadline is on Monday for all of us.",
    "The deadline is on Friday for all of us.",
    "Penguins swim in the cold sea near the ice.",
)
TEXTS = st.sampled_from(SENTENCES)
WRITERS = st.sampled_from((ALICE, BOB))
STATE = st.tuples(st.just("state"), TEXTS, WRITERS, st.sampled_from(("fact", "note", "procedure")))
ENDING = st.tuples(st.just("ending"), TEXTS, WRITERS, st.just("fact"))
SAID = st.tuples(st.just("said"), TEXTS, WRITERS, st.integers(0, 3).map(str))
REVISED = st.tuples(st.just("revised"), TEXTS, WRITERS, st.just(""))
STEPS = st.lists(st.one_of(STATE, STATE, ENDING, SAID, SAID, SAID, REVISED), min_size=2, max_size=12)
EACH = [
    ("said", SENTENCES[0], ALICE, "0"),
    ("said", SENTENCES[1], ALICE, "1"),
    ("said", SENTENCES[3], ALICE, "1"),
    ("said", SENTENCES[4], ALICE, "2"),
    ("state", SENTENCES[5], BOB, "note"),
    ("state", SENTENCES[5], BOB, "note"),
    ("ending", SENTENCES[5], ALICE, "fact"),
]
"""One of each thing a run does."""
SOON = timedelta(milliseconds=60)
BASE = datetime(2026, 10, 1, tzinfo=UTC)


class Deployment:
    """A provider whose sessions are summed up early, and a loop to run it in."""

    def __init__(self, dsn: str, encoder: LocalEmbedder) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.adapter, self.subject = self.run(self._begin(dsn, encoder))
        self.seen = set[str]()

    async def _begin(self, dsn: str, encoder: LocalEmbedder) -> tuple[NativeProvider, Subject]:
        told = Settings(database_url=SecretStr(dsn))
        database = await self.stack.enter_async_context(connect(told, "provider"))
        jobs = Jobs("provider", told)
        adapter = NativeProvider(database, encoder, jobs, Options(tidy=Tidy(summary_episodes=2)))
        return adapter, Subject(adapter, jobs.run_pending)

    def run(self, call: Awaitable[_Answer]) -> _Answer:
        async def wait() -> _Answer:
            return await call

        return self.runner.run(wait())


@pytest.fixture
def deployment(service_database: Callable[[str], str], encoder: LocalEmbedder) -> Generator[Deployment]:
    made = Deployment(service_database("provider"), encoder)
    yield made
    made.run(made.stack.aclose())
    made.runner.close()


async def step(subject: Subject, memory: str, asked: tuple[str, str, Writer, str]) -> None:
    kind, text, writer, more = asked
    if kind == "said":
        at = BASE + timedelta(days=int(more))
        await subject.observe(memory, episode(text, b'{"speaker":"Anna"}', at=at), writer=writer)
    elif kind == "revised":
        page = await subject.adapter.list(memory, Selection(types=("fact",)), Page(1))
        for one in page.records:
            await subject.revise(one, text)
    else:
        ends = datetime.now(UTC) + SOON if kind == "ending" else None
        await subject.adapter.remember(memory, Draft(more, words(text), valid_to=ends), Stamp(writer))


async def standing(subject: Subject, memory: str) -> dict[str, object]:
    """What each record of the memory says now, apart from versions; one a run made and forgot says nothing."""
    read, cursor = list[Record](), ""
    while True:
        page = await subject.adapter.list(memory, Selection(include=Include.ALL), Page(200, cursor))
        read += page.records
        cursor = page.next_cursor
        if not cursor:
            break
    latest = {one.id: one for one in sorted(read, key=lambda one: one.version)}
    return {
        one.id: (
            (one.type, one.content, one.attributes, one.status, one.supersedes),
            (one.valid_from, one.valid_to, one.written_by, one.references),
        )
        for one in latest.values()
        if one.written_by.kind != "consolidator"
    }


async def consolidated(deployment: Deployment, memory: str) -> Run:
    queued = await deployment.adapter.consolidation.start(memory, Wanted(new_id("hcon"), "api"), Stamp(ALICE))
    while True:
        await deployment.subject.work()
        found = await deployment.adapter.consolidation.run(memory, queued.id)
        if found.status not in ("queued", "running"):
            assert found.status == "completed"
            return found


@pytest.mark.requirement("ME-9.2-04")
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_what_is_undone_is_as_it_was(deployment: Deployment):
    @settings(
        max_examples=40,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(STEPS, STEPS)
    @example(EACH, [])
    def undone(steps: list[tuple[str, str, Writer, str]], later: list[tuple[str, str, Writer, str]]) -> None:
        memory, subject = deployment.subject.memory(), deployment.subject
        runs = list[tuple[Run, dict[str, object]]]()
        for part in (steps, later):
            for one in part:
                deployment.run(step(subject, memory, one))
            deployment.run(asyncio.sleep(SOON.total_seconds()))
            before = deployment.run(standing(subject, memory))
            primed = deployment.run(subject.adapter.prime(memory))
            runs.append((deployment.run(consolidated(deployment, memory)), before))
            after = deployment.run(standing(subject, memory))
            reverted = deployment.run(
                deployment.adapter.consolidation.revert(memory, runs[-1][0].id, Stamp(BOB))
            )
            assert reverted.reversal is not None
            assert reverted.reversal.left == ()
            assert deployment.run(standing(subject, memory)) == before
            again = deployment.run(subject.adapter.prime(memory))
            assert {one.id for one in again} == {one.id for one in primed}
            page = deployment.run(deployment.adapter.consolidation.changes(memory, reverted.id, Page(200)))
            deployment.seen |= {one.reason for one in page.changes}
            assert (after == before) == all(one.change == "created" for one in page.changes)
        # What was undone stays undone.
        deployment.run(consolidated(deployment, memory))
        assert deployment.run(standing(subject, memory)) == runs[-1][1]

    undone()
    assert deployment.seen == {"duplicate", "similar", "changed", "expired", "summary"}
