"""Postgres or Redis gone in the middle of a turn: the turn waits, goes on, and its log has no hole."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from runner_service.schema import SCHEMA
from service_kit.db import migrate
from service_kit.errors import GroveError
from tests.api.runner_service.cluster import Runner, make_keys, runner, runner_settings
from tests.unit.runner_service.test_composer import check_rules
from tests.unit.service_kit.cluster import Cluster, cluster

Json = dict[str, Any]
COUNT = "Count slowly from 1 to 150, one number per line."
NUMBERS = "\n".join(str(number) for number in range(1, 151))


async def through(runner: Runner, response_id: str, when: Callable[[list[Json]], Any]) -> list[Json]:
    """All events, taking the stream up again when it breaks; ``when`` is told after each."""
    seen = list[Json]()
    while not seen or "response" not in seen[-1] or seen[-1]["response"]["status"] == "in_progress":
        try:
            async for event in runner.follow(response_id, seen[-1]["sequence_number"] if seen else -1):
                seen.append(event)
                await when(seen)
        except GroveError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.1)
    return seen


async def restarted(server: Cluster) -> None:
    """Stop and start it, while the runner in this process goes on."""
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(0.5)
    await asyncio.to_thread(server.start)


async def test_postgres_restarted_in_the_middle_of_a_turn(clean_redis: str, tmp_path: Path) -> None:
    keys = make_keys(tmp_path)
    with cluster() as postgres:
        await migrate.run(postgres.dsn(), SCHEMA, "secret")
        dsn = migrate.role_dsn(postgres.dsn(), SCHEMA, "secret")
        settings = runner_settings(dsn, clean_redis, keys, runner_scripted_beat_s=0.02)
        async with runner(settings, keys) as made:
            with made.act_as("person:alice"):
                response = await made.create(COUNT)

                async def cut(seen: list[Json]) -> None:
                    if len(seen) == 20:
                        await restarted(postgres)

                events = await through(made, response.id, cut)
                check_rules(events)
                final = events[-1]["response"]
                assert final["status"] == "completed"
                assert final["output"][0]["content"][0]["text"] == NUMBERS
                assert await made.get(response.id) == final


async def test_redis_emptied_of_its_clients_in_the_middle_of_a_turn(
    service_database: Callable[[str], str], clean_redis: str, tmp_path: Path
) -> None:
    keys = make_keys(tmp_path)
    settings = runner_settings(service_database("runner"), clean_redis, keys, runner_scripted_beat_s=0.01)
    async with runner(settings, keys) as made, Redis.from_url(clean_redis) as redis:  # pyright: ignore[reportUnknownMemberType]
        with made.act_as("person:alice"):
            response = await made.create(COUNT)

            async def cut(seen: list[Json]) -> None:
                if len(seen) % 40 == 20:
                    for kind in ("pubsub", "normal"):
                        await redis.client_kill_filter(_type=kind, skipme=True)  # pyright: ignore[reportUnknownMemberType]

            events = await through(made, response.id, cut)
            check_rules(events)
            assert events[-1]["response"]["status"] == "completed"
