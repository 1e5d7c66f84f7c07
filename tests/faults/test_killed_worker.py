"""A worker of the provider killed with SIGKILL in the middle of deriving: another finishes, nothing is
derived twice and nothing is missing (sections 5.1 and 10)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from protos.common.v1 import record_pb2
from protos.provider.v1 import provider_pb2 as wire
from service_kit.ids import new_id
from tests.faults.worker import Process, calling, until

EPISODES, SENTENCES = 120, 3
"""Enough that deriving takes seconds."""


@contextmanager
def looking(dsn: str) -> Generator[Callable[[str], Any]]:
    """One value from the provider's tables."""
    with psycopg.connect(dsn, autocommit=True) as connection:

        def value(count: str) -> Any:
            counts = {
                "done": "select count(*) from job_episode where state = 'done'",
                "pending": "select count(*) from job where status = 'pending'",
                "unembedded": "select count(*) from unembedded",
            }
            row = connection.execute(counts[count].encode()).fetchone()
            return row[0] if row else 0

        yield value


def sentence(episode: int, place: int) -> str:
    return f"Sensor number {episode} in room {place} reports a normal temperature today."


@pytest.mark.slow
async def test_facts_are_derived_exactly_once_though_the_worker_is_killed_in_the_middle(
    start: Callable[..., Process], service_database: Callable[[str], str], tmp_path: Path
):
    dsn = service_database("provider")
    where = wire.Address(provider="native", memory_id=new_id("hmem"))
    said = [
        wire.Episode(
            content=[
                record_pb2.Part(type="text", text=" ".join(sentence(n, place) for place in range(SENTENCES)))
            ]
        )
        for n in range(EPISODES)
    ]
    with looking(dsn) as count:
        first = start()
        async with calling(first, tmp_path) as stub:
            observed = await stub.Observe(wire.ObserveRequest(address=where, episodes=said))
            await until(lambda: count("done") > 0, first)
            first.kill()
        assert 0 < count("done") < EPISODES
        assert count("pending") == 1

        second = start()
        async with calling(second, tmp_path) as stub:
            await until(lambda: count("pending") == 0, second)
            job = await stub.GetJob(wire.GetJobRequest(address=where, job_id=observed.job.id))
        assert count("unembedded") == 0
    assert (job.status, job.error) == ("completed", "")
    texts = Counter(record.content[0].text for record in job.records if record.type == "fact")
    assert texts == Counter(sentence(n, place) for n in range(EPISODES) for place in range(SENTENCES))
    sources = Counter(record.references[0].record_id for record in job.records if record.type == "fact")
    episodes = {record.id for record in job.records if record.type == "episode"}
    assert sources == dict.fromkeys(episodes, SENTENCES)


@pytest.mark.slow
async def test_an_observe_is_whole_or_not_there_when_the_process_is_killed_around_it(
    start: Callable[..., Process], service_database: Callable[[str], str], tmp_path: Path
):
    """Killed as soon as the episodes can be seen: the job that derives from them can be seen too."""
    dsn = service_database("provider")
    where = wire.Address(provider="native", memory_id=new_id("hmem"))
    episode = wire.Episode(content=[record_pb2.Part(type="text", text=sentence(1, 1))])
    with psycopg.connect(dsn, autocommit=True) as connection:
        first = start()

        def kept() -> bool:
            row = connection.execute("select count(*) from version where type = 'episode'").fetchone()
            return row is not None and row[0] > 0

        async with calling(first, tmp_path) as stub:
            call = asyncio.ensure_future(stub.Observe(wire.ObserveRequest(address=where, episodes=[episode])))
            await until(kept, first)
            first.kill()
            await asyncio.gather(call, return_exceptions=True)
        assert connection.execute("select count(*) from job").fetchone() == (1,)
    second = start()
    with looking(dsn) as count:
        await until(lambda: count("pending") == 0, second)
    async with calling(second, tmp_path) as stub:
        listed = await stub.ListRecords(wire.ListRecordsRequest(address=where))
    assert sorted(record.type for record in listed.records) == ["episode", "fact"]
