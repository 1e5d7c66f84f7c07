"""Idempotency keys and their answers, kept with the write they belong to. Real Postgres."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service_kit.db import keys, migrate
from service_kit.db.migrate import Schema
from service_kit.db.pool import Database, Limits
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency

ONE = Idempotency("one", b"request")
OTHER = Idempotency("one", b"another request")
MIGRATION = Path("memory_service/store/migrations/0003_answered.sql")


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    (tmp_path / "0001_answered.sql").write_text(MIGRATION.read_text())
    (tmp_path / "0002_done.sql").write_text("create table done (by text not null)")
    return Schema("kept", tmp_path)


@pytest.fixture
async def database(owner_dsn: str, schema: Schema) -> AsyncGenerator[Database]:
    await migrate.run(owner_dsn, schema, "secret")
    opened = await Database.open(
        migrate.role_dsn(owner_dsn, schema, "secret"), "kept", Limits(maximum=12, wait_s=10.0)
    )
    yield opened
    await opened.close()


async def write(
    database: Database, principal: str = "person:a", operation: str = "put", key: Idempotency = ONE
) -> bytes:
    """A write that happens once under a key."""
    async with database.begin() as tx:
        done = await keys.claim(tx, principal, operation, key)
        if done is not None:
            return done
        await tx.execute("insert into done values (%s)", (principal,))
        count = await tx.fetch_value("select count(*) from done")
        return await keys.settle(tx, principal, operation, key, f"{count}".encode(), memory_id="hmem_1")


async def refused(database: Database, key: Idempotency = ONE) -> str:
    with pytest.raises(GroveError) as caught:
        await write(database, key=key)
    return caught.value.code


async def count(database: Database) -> int:
    async with database.read() as tx:
        return await tx.fetch_value("select count(*) from done")


async def test_a_repeat_is_answered_byte_for_byte_and_writes_nothing(database: Database):
    assert [await write(database) for _ in range(3)] == [b"1"] * 3
    assert await count(database) == 1


async def test_without_a_key_each_write_is_one(database: Database):
    assert [await write(database, key=Idempotency()) for _ in range(3)] == [b"1", b"2", b"3"]


async def test_another_request_under_the_key_is_refused_and_writes_nothing(database: Database):
    await write(database)
    assert await refused(database, OTHER) == "grovekeeper_idempotency_mismatch"
    assert await count(database) == 1


async def test_other_principals_and_other_operations_have_keys_of_their_own(database: Database):
    await write(database)
    assert await write(database, "person:b") == b"2"
    assert await write(database, operation="delete") == b"3"
    assert await write(database, "person:b", "delete", OTHER) == b"4"


async def test_repeats_at_once_wait_and_are_answered_alike(database: Database):
    answers = await asyncio.gather(*(write(database) for _ in range(10)))
    assert answers == [b"1"] * 10
    assert await count(database) == 1


async def test_a_write_that_failed_leaves_its_key_free(database: Database):
    async def fail() -> None:
        async with database.begin() as tx:
            assert await keys.claim(tx, "person:a", "put", ONE) is None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await write(database, key=OTHER) == b"1"


async def test_a_committed_claim_is_gone_on_with_and_all_are_answered_what_was_settled_first(
    database: Database,
):
    for _ in range(2):
        async with database.begin() as tx:
            assert await keys.claim(tx, "person:a", "put", ONE) is None
    async with database.begin() as tx:
        assert await keys.settle(tx, "person:a", "put", ONE, b"first") == b"first"
    async with database.begin() as tx:
        assert await keys.settle(tx, "person:a", "put", ONE, b"second") == b"first"
        await keys.release(tx, "person:a", "put", ONE)
    assert await write(database) == b"first"


async def test_a_released_claim_is_free_for_another_request(database: Database):
    async with database.begin() as tx:
        await keys.claim(tx, "person:a", "put", ONE)
    async with database.begin() as tx:
        await keys.release(tx, "person:a", "put", ONE)
    assert await write(database, key=OTHER) == b"1"


async def test_the_key_of_what_is_gone_is_spent_and_keeps_neither_answer_nor_hash(database: Database):
    await write(database)
    async with database.begin() as tx:
        await keys.forget_memories(tx, ["hmem_1"])
    assert await refused(database) == await refused(database, OTHER) == "memory_not_found"
    assert await count(database) == 1
    async with database.read() as tx:
        (row,) = await tx.fetch_all("select answer, request_sha256 from answered")
    assert row == {"answer": None, "request_sha256": None}


async def test_old_keys_are_dropped_and_young_ones_kept(database: Database):
    await write(database)
    now = datetime.now(UTC)
    async with database.begin() as tx:
        assert await keys.drop_old(tx, now - timedelta(hours=24)) == 0
    assert await write(database) == b"1"
    async with database.begin() as tx:
        assert await keys.drop_old(tx, now + timedelta(hours=1)) == 1
    assert await write(database) == b"2"
