"""A worker killed with SIGKILL while it gives every version a vector of another model: the next one goes on from there."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from protos.common.v1 import record_pb2
from protos.provider.v1 import provider_pb2 as wire
from service_kit.ids import new_id
from tests.faults.worker import Process, calling, until
from tests.fixtures.embeddings import Endpoint, serving

RECORDS = 150
FORMER, NEXT = ("former-97", 97), ("next-61", 61)


def told(endpoint: Endpoint, model: tuple[str, int]) -> dict[str, str]:
    return {
        "GROVE_EMBEDDING_BASE_URL": endpoint.url,
        "GROVE_EMBEDDING_MODEL": model[0],
        "GROVE_EMBEDDING_DIMENSIONS": str(model[1]),
        "GROVE_NATIVE_SWEEP_S": "0.5",
    }


def numbers(requests: list[dict[str, Any]], model: tuple[str, int]) -> list[str]:
    """Of which records vectors were asked for."""
    return [
        number
        for body in requests
        if body["model"] == model[0]
        for text in body["input"]
        for number in re.findall(r"enclosure number (\d+) ", text)
    ]


@pytest.mark.slow
async def test_a_change_of_the_model_outlives_a_kill_in_its_middle_and_does_nothing_twice(
    start: Callable[..., Process], service_database: Callable[[str], str], tmp_path: Path
):
    where = wire.Address(provider="native", memory_id=new_id("hmem"))
    with psycopg.connect(service_database("provider"), autocommit=True) as connection:

        def vectors(model: tuple[str, int]) -> set[str]:
            rows = connection.execute(
                "select v.text from embedding e join version v using (memory_id, record_id, version)"
                " where e.dimension = %s",
                (model[1],),
            )
            return {number for (text,) in rows for number in re.findall(r"enclosure number (\d+) ", text)}

        def waiting() -> int:
            row = connection.execute("select count(*) from unembedded").fetchone()
            return row[0] if row else -1

        async with serving() as endpoint:
            former = start(**told(endpoint, FORMER))
            async with calling(former, tmp_path) as stub:
                for n in range(RECORDS):
                    draft = record_pb2.Draft(type="fact")
                    draft.content.add(type="text", text=f"The enclosure number {n} opens at ten.")
                    await stub.Remember(wire.RememberRequest(address=where, draft=draft))
            await until(lambda: len(vectors(FORMER)) == RECORDS, former)
            former.kill()

            endpoint.hang_after = len(endpoint.requests) + 3
            killed = start(**told(endpoint, NEXT))
            await until(endpoint.hanging.is_set, killed)
            killed.kill()
            done, asked = vectors(NEXT), len(endpoint.requests)
            assert 0 < len(done) < RECORDS
            assert len(done) + waiting() == RECORDS

            endpoint.hang_after = None
            endpoint.let_go.set()
            after = start(**told(endpoint, NEXT))
            await until(lambda: len(vectors(NEXT)) == RECORDS, after)
            again = numbers(endpoint.requests[asked:], NEXT)
            assert sorted(again) == sorted({str(n) for n in range(RECORDS)} - done)
            assert (waiting(), vectors(FORMER)) == (0, set())
            async with calling(after, tmp_path) as stub:
                question = record_pb2.RecallQuery(query="enclosure", limit=5)
                answer = await stub.Recall(
                    wire.RecallRequest(provider="native", memory_ids=[where.memory_id], recall=question)
                )
            assert (len(answer.hits), list(answer.degraded)) == (5, [])
