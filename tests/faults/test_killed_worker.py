"""A worker of the provider killed with SIGKILL in the middle of deriving: another finishes, nothing is
derived twice and nothing is missing (sections 5.1 and 10)."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from protos.common.v1 import record_pb2
from protos.provider.v1 import provider_pb2 as wire
from protos.provider.v1.provider_pb2_grpc import ProviderStub
from provider_workers.settings import Settings
from service_kit.embedded.ports import free_ports
from service_kit.identity import PassportSigner, generate_keys, use_passport
from service_kit.ids import new_id
from service_kit.rpc import client
from tests.fixtures.stack import environment as environment_of

if TYPE_CHECKING:
    from protos.provider.v1.provider_pb2_grpc import ProviderAsyncStub

ROOT = Path(__file__).parents[2]
EPISODES, SENTENCES = 120, 3
"""Enough that deriving takes seconds."""


class Process:
    """`python -m provider_workers` on a database, with signs of life a test need not wait long for."""

    def __init__(self, dsn: str, keys: Path, log: Path) -> None:
        (self.port,) = free_ports(1)
        self.log: Path = log
        told = {
            "GROVE_DATABASE_URL": dsn,
            "GROVE_PASSPORT_KEYS_FILE": str(keys),
            "GROVE_LISTEN": f"127.0.0.1:{self.port}",
            "GROVE_OPS_LISTEN": "127.0.0.1:0",
            "GROVE_JOBS_HEARTBEAT_S": "0.2",
            "GROVE_JOBS_STALLED_AFTER_S": "1.5",
            "GROVE_JOBS_POLL_S": "0.2",
        }
        with log.open("wb") as output:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", "provider_workers"],
                cwd=ROOT,
                env=environment_of(log.parent, told),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """As the kernel does when memory runs out: no goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
def start(service_database: Callable[[str], str], tmp_path: Path) -> Generator[Callable[[], Process]]:
    """Starts processes on one database; every one is gone after the test."""
    dsn = service_database("provider")
    private, public = generate_keys()
    (tmp_path / "private.json").write_text(private)
    (tmp_path / "public.json").write_text(public)
    started = list[Process]()

    def one() -> Process:
        started.append(Process(dsn, tmp_path / "public.json", tmp_path / f"{len(started)}.log"))
        return started[-1]

    yield one
    for process in started:
        if process.process.poll() is None:
            process.kill()


@asynccontextmanager
async def calling(process: Process, keys: Path) -> AsyncGenerator["ProviderAsyncStub"]:
    """Its contract, called as Alice, once it answers."""
    signer = PassportSigner(keys / "private.json")
    async with client.channel(
        f"127.0.0.1:{process.port}", Settings(), safe=["grovekeeper.provider.v1.Provider/Describe"]
    ) as channel:
        stub = ProviderStub(channel)
        with use_passport(signer.sign("person:alice")):
            await channel.channel_ready()
            yield stub


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


async def until(condition: Callable[[], bool], process: Process) -> None:
    """Look again and again; a process that died says why."""
    async with asyncio.timeout(90):
        while not condition():
            assert process.process.poll() is None, process.log.read_text()
            await asyncio.sleep(0.02)


def sentence(episode: int, place: int) -> str:
    return f"Sensor number {episode} in room {place} reports a normal temperature today."


@pytest.mark.slow
async def test_facts_are_derived_exactly_once_though_the_worker_is_killed_in_the_middle(
    start: Callable[[], Process], service_database: Callable[[str], str], tmp_path: Path
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
    start: Callable[[], Process], service_database: Callable[[str], str], tmp_path: Path
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
