"""Runners that die, pause, or are told to go in the middle of a turn: what was streamed stays true, every
event is there exactly once, and the session goes on elsewhere."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from service_kit.embedded.ports import free_ports
from service_kit.identity import use_passport
from service_kit.settings import Settings
from tests.api.runner_service.cluster import Keys, Runner, make_keys
from tests.fixtures.stack import environment
from tests.unit.runner_service.test_composer import check_rules

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

COUNT = "Count slowly from 1 to 5000, one number per line."
Json = dict[str, Any]


class Process:
    """`python -m runner_service`, quick to notice that another one is gone."""

    def __init__(self, told: dict[str, str], log: Path) -> None:
        self.port, self.ops = free_ports(2)
        told |= {
            "GROVE_LISTEN": f"127.0.0.1:{self.port}",
            "GROVE_OPS_LISTEN": f"127.0.0.1:{self.ops}",
            "GROVE_RUNNER_LEASE_S": "4",
            "GROVE_RUNNER_HEARTBEAT_S": "0.4",
            "GROVE_RUNNER_RECONCILE_S": "0.3",
            "GROVE_RUNNER_POLL_S": "0.2",
        }
        with log.open("wb") as output:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", "runner_service"],
                cwd=ROOT,
                env=environment(log.parent, {"GROVE_RUNNER_SCRIPTED_BEAT_S": "0.02"} | told),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    async def serves(self) -> None:
        """Until it says that it serves."""
        async with httpx.AsyncClient() as client, asyncio.timeout(60):
            while True:
                assert self.process.poll() is None, "it ended"
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"http://127.0.0.1:{self.ops}/readyz")).is_success:
                        return
                await asyncio.sleep(0.1)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As the kernel does when memory runs out: no goodbye."""
        self.send(signal.SIGKILL)
        self.process.wait(10)


Start = Callable[..., Awaitable[Process]]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def start(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str, tmp_path: Path
) -> Generator[Start]:
    """Starts runners on one database; every one is gone after the test."""
    told = {
        "GROVE_DATABASE_URL": service_database("runner"),
        "GROVE_REDIS_URL": clean_redis,
        "GROVE_PASSPORT_KEYS_FILE": str(keys.public),
        "GROVE_SERVICE_TOKEN": "gk_nobody-asks-for-it-here",
    }
    started = list[Process]()

    async def one(**more: str) -> Process:
        process = Process(told | more, tmp_path / f"{len(started)}.log")
        started.append(process)
        await process.serves()
        return process

    yield one
    for process in started:
        if process.process.poll() is None:
            process.send(signal.SIGCONT)
            process.kill()


@pytest.fixture
async def call(keys: Keys) -> AsyncGenerator[Callable[[Process], Runner]]:
    """Speaks to a runner, as alice."""
    made = list[Runner]()

    def to(process: Process) -> Runner:
        made.append(Runner(f"127.0.0.1:{process.port}", keys, Settings(rpc_timeout_s=30)))
        return made[-1]

    with use_passport(keys.signer.sign("person:alice", lifetime=timedelta(minutes=10))):
        yield to
    for one in made:
        await one.close()


async def begun(runner: Runner, text: str = COUNT, **more: Any) -> tuple[str, list[Json]]:
    """A turn under way: its id, and what was seen of it when ten numbers had come."""
    made = await runner.create(text, **more)
    seen = list[Json]()
    async for event in runner.follow(made.id):
        seen.append(event)
        if sum(one["type"] == "response.output_text.delta" for one in seen) == 10:
            return made.id, seen
    raise AssertionError("the turn ended too early")


async def pair(
    start: Start, call: Callable[[Process], Runner], **more: str
) -> tuple[Process, Runner, Runner, str]:
    """Two runners, the second one busy (with the turn answered) and so taking nothing."""
    second = await start(GROVE_RUNNER_CONCURRENCY="1")
    two = call(second)
    busy, _ = await begun(two)
    first = await start(**more)
    return first, call(first), two, busy


def words(events: list[Json]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


async def test_a_killed_runners_turn_ends_failed_with_its_output_and_its_session_goes_on(
    start: Start, call: Callable[[Process], Runner]
) -> None:
    first = await start()
    response_id, seen = await begun(call(first))
    second = await start()
    two = call(second)
    await two.get(response_id)
    first.kill()
    events = await two.events(response_id)
    check_rules(events)
    assert events[: len(seen)] == seen
    final = events[-1]["response"]
    assert (final["status"], final["error"]["code"]) == ("failed", "server_error")
    assert final["output"][0]["content"][0]["text"] == words(events)
    assert await two.get(response_id) == final
    again = await two.run("Reply with exactly: on", previous_response_id=response_id)
    assert again["status"] == "completed"


async def test_a_runner_that_starts_again_ends_what_it_left(
    start: Start, call: Callable[[Process], Runner]
) -> None:
    first = await start()
    response_id, seen = await begun(call(first))
    first.kill()
    events = await call(await start()).events(response_id)
    check_rules(events)
    assert events[: len(seen)] == seen
    assert events[-1]["response"]["status"] == "failed"


async def test_a_task_that_waited_at_a_killed_runner_is_done_by_another(
    start: Start, call: Callable[[Process], Runner]
) -> None:
    first = await start(GROVE_RUNNER_CONCURRENCY="1")
    one = call(first)
    running, _ = await begun(one)
    waiting = await one.create("Reply with exactly: later")
    first.kill()
    two = call(await start())
    final = (await two.events(waiting.id))[-1]["response"]
    assert (final["status"], final["output"][0]["content"][0]["text"]) == ("completed", "later")
    assert (await two.events(running))[-1]["response"]["status"] == "failed"


async def test_a_cancel_that_its_runner_never_heard_is_kept(
    start: Start, call: Callable[[Process], Runner]
) -> None:
    first, one, two, _ = await pair(start, call)
    response_id, _ = await begun(one)
    first.send(signal.SIGSTOP)
    await two.cancel(response_id)
    first.kill()
    assert (await two.events(response_id))[-1]["response"]["status"] == "cancelled"


async def test_a_paused_runner_that_wakes_after_its_lease_writes_nothing_more(
    start: Start, call: Callable[[Process], Runner]
) -> None:
    first = await start()
    response_id, seen = await begun(call(first))
    two = call(await start())
    await two.get(response_id)
    first.send(signal.SIGSTOP)
    events = await two.events(response_id)
    check_rules(events)
    assert events[-1]["response"]["status"] == "failed"
    first.send(signal.SIGCONT)
    again = await two.run("Count slowly from 1 to 30, one number per line.", previous_response_id=response_id)
    assert again["status"] == "completed"
    assert await two.events(response_id) == events
    one = call(first)
    assert await one.events(response_id) == events
    assert events[: len(seen)] == seen


async def test_a_runner_told_to_go_lets_turns_finish_and_stops_those_that_do_not(
    start: Start, call: Callable[[Process], Runner]
) -> None:
    first, one, two, busy = await pair(start, call, GROVE_RUNNER_DRAIN_S="6")
    long, _ = await begun(one)
    short, _ = await begun(one, "Count slowly from 1 to 40, one number per line.")
    first.send(signal.SIGTERM)
    assert (await two.events(short))[-1]["response"]["status"] == "completed"
    events = await two.events(long)
    check_rules(events)
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": "server_shutdown"}
    assert first.process.wait(30) == 0
    await two.cancel(busy)
    assert (await two.run("Reply with exactly: on", previous_response_id=long))["status"] == "completed"
