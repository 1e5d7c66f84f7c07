"""The live feed of a harness."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.runner.v1 import runner_pb2, sessions_pb2
from service_kit.rpc.client import streaming
from tests.api.runner_service.cluster import Runner
from tests.api.runner_service.test_tasks import COUNT, refused, started

Json = dict[str, Any]


class Seen:
    """What a feed has told."""

    def __init__(self) -> None:
        self.events: dict[str, list[Json]] = defaultdict(list)
        self.began: Timestamp | None = None
        self.at = Timestamp()
        self.changed = asyncio.Condition()

    async def read(self, batches: AsyncIterator[sessions_pb2.Fed]) -> None:
        async for fed in batches:
            async with self.changed:
                self.began, self.at = self.began or fed.at, fed.at
                self.events[fed.response_id] += [json.loads(one.json) for one in fed.events]
                self.changed.notify_all()

    async def until(self, response_id: str, kind: str) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(
                lambda: any(one["type"] == kind for one in self.events.get(response_id, ()))
            )

    async def ticked(self) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait()

    @property
    def positions(self) -> dict[str, int]:
        return {one: events[-1]["sequence_number"] for one, events in self.events.items() if events}


@asynccontextmanager
async def feed(runner: Runner, harness: str, before: Seen | None = None) -> AsyncGenerator[Seen]:
    asked = sessions_pb2.FollowHarnessRequest(harness_id=harness)
    if before is not None:
        assert before.began is not None
        asked.began.CopyFrom(before.began)
        asked.since.CopyFrom(before.at)
        asked.positions.update(before.positions)
    seen = Seen()
    async with streaming(runner.feeds.FollowHarness(asked, timeout=60)) as batches:
        reading = asyncio.create_task(seen.read(batches))
        try:
            await seen.ticked()
            yield seen
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.requirement("SU-streaming-13")
async def test_a_feed_tells_each_task_of_its_harness_from_first_to_last(alone: Runner) -> None:
    harness, other = (await alone.harness()).id, (await alone.harness()).id
    before = await alone.run("Reply with exactly: before", harness_id=harness)
    running = await alone.create(COUNT, harness_id=harness)
    await started(alone, running.id)
    async with feed(alone, harness) as seen:
        with alone.act_as("person:bob"):
            await alone.run("Reply with exactly: bob's")
        await alone.run("Reply with exactly: elsewhere", harness_id=other)
        quick = await alone.create("Reply with exactly: quick", harness_id=harness)
        await seen.until(quick.id, "response.completed")
        await seen.until(running.id, "response.output_text.delta")
    async with feed(alone, harness, seen) as later:
        await alone.cancel(running.id)
        await later.until(running.id, "response.failed")
    told = {one: seen.events[one] + later.events[one] for one in (running.id, quick.id)}
    for response_id, events in told.items():
        assert events == await alone.events(response_id)
    assert {*seen.events, *later.events} == {"", running.id, quick.id}
    assert before["id"] not in seen.events


async def test_what_ran_while_a_feed_was_broken_off_is_told_when_it_is_taken_up(alone: Runner) -> None:
    harness = (await alone.harness()).id
    async with feed(alone, harness) as seen:
        first = await alone.create("Reply with exactly: one", harness_id=harness)
        await seen.until(first.id, "response.completed")
    missed = await alone.run("Reply with exactly: two", harness_id=harness)
    async with feed(alone, harness, seen) as later:
        await later.until(missed["id"], "response.completed")
        await later.ticked()
    assert later.events[missed["id"]] == await alone.events(missed["id"])
    assert first.id not in later.events


async def test_a_feed_is_its_owners_and_ends_with_the_harness(alone: Runner) -> None:
    harness = (await alone.harness()).id

    async def follow() -> None:
        asked = sessions_pb2.FollowHarnessRequest(harness_id=harness)
        deleted = False
        async with asyncio.timeout(20), streaming(alone.feeds.FollowHarness(asked, timeout=60)) as batches:
            async for _ in batches:
                if not deleted:
                    deleted = True
                    await alone.harnesses.DeleteHarness(runner_pb2.DeleteHarnessRequest(id=harness))

    with alone.act_as("person:bob"):
        assert (await refused(follow())).code == "harness_not_found"
    assert (await refused(follow())).code == "harness_not_found"
