"""What a writer is answered, and what becomes of what is written beside something else."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import psycopg
import pytest

from tests.e2e.people import Person
from tests.fixtures.stack import Stack


def test_who_may_write_and_not_read_learns_nothing_of_what_a_record_says(alice: Person, bob: Person):
    memory, source = alice.plant("Suggestions"), alice.plant("Source")
    reference = {"memory_id": source, "record_id": alice.fact(source), "rel": "derived_from"}
    record = alice.fact(memory, "Nobody but readers.", attributes={"secret": 1}, references=[reference])
    alice.give(memory, bob, "write")
    path = f"/v1/memories/{memory}/records/{record}"
    revised = bob.call("PATCH", path, {"attributes": {"mine": 2}})
    forgotten = bob.delete(path)
    for answer in (revised, forgotten):
        assert (answer["id"], answer["content"], answer["attributes"], answer["references"]) == (
            record,
            "",
            {},
            [],
        )
    assert (revised["version"], forgotten["status"]) == (2, "forgotten")
    # For readers nothing is missing.
    kept = alice.get(path)
    assert (kept["content"], kept["attributes"]) == ("Nobody but readers.", {"mine": 2})


def created(caller: Person, key: str, name: str) -> httpx.Response:
    return caller.send("POST", "/v1/memories", {"name": name}, {"Idempotency-Key": key})


def test_of_two_requests_with_one_key_at_once_one_is_refused(alice: Person):
    for round_ in range(5):
        create = partial(created, alice, f"one-key-{round_}")
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(create, ("One", "Other")))
        assert sorted(one.status_code for one in answers) == [200, 422]
        (made,) = [one.json() for one in answers if one.status_code == 200]
        assert alice.get(f"/v1/memories/{made['id']}")["name"] == made["name"]


@pytest.mark.requirement("ME-2-16")
def test_what_was_being_written_while_a_memory_was_deleted_is_removed_later(stack: Stack, alice: Person):
    memory = alice.plant("Going")
    alice.fact(memory)
    alice.delete(f"/v1/memories/{memory}")
    database = stack.state().database_url
    assert database is not None
    with psycopg.connect(database) as connection:

        def later() -> int:
            row = connection.execute(
                "select count(*) from memory.procrastinate_jobs where task_name = 'memory.purge'"
                " and scheduled_at > now() and args::text like %s",
                (f"%{memory}%",),
            ).fetchone()
            connection.rollback()
            return row[0] if row else 0

        alice.until(later, lambda jobs: jobs == 1)
