"""Transactions, reads, and what becomes of a database's failures. Real Postgres."""

import asyncio

import psycopg
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from psycopg import sql
from pydantic import SecretStr

from service_kit import semconv, telemetry
from service_kit.db.pool import Database, Limits, connect
from service_kit.db.tx import describe
from service_kit.errors import GroveError
from service_kit.settings import Settings
from tests.unit.service_kit.cluster import Cluster


async def add(database: Database, name: str) -> None:
    async with database.begin() as tx:
        assert await tx.execute("insert into thing (id) values (%s)", (name,)) == 1


async def names(database: Database) -> list[str]:
    async with database.read() as tx:
        return [row["id"] for row in await tx.fetch_all("select id from thing order by id")]


async def test_the_database_of_the_settings_is_open_inside_its_block(service_dsn: str):
    settings = Settings(database_url=SecretStr(service_dsn), db_pool_min=0, db_pool_max=1)
    async with connect(settings, "things") as database:
        await add(database, "a")
        assert await names(database) == ["a"]


async def test_a_transaction_is_kept_whole(database: Database):
    async with database.begin() as tx:
        rows = [(str(number), number) for number in range(5)]
        assert await tx.execute_many("insert into thing (id, n) values (%s, %s)", rows) == 5
        assert await tx.fetch_value("select sum(n) from thing") == 10
        assert await names(database) == []
    assert await names(database) == ["0", "1", "2", "3", "4"]


async def test_a_transaction_that_fails_leaves_nothing(database: Database):
    async def fail() -> None:
        async with database.begin() as tx:
            await tx.execute("insert into thing (id) values ('a')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await names(database) == []


async def test_a_cancelled_transaction_leaves_nothing_and_its_connection_is_good(database: Database):
    began = asyncio.Event()

    async def slow() -> None:
        async with database.begin() as tx:
            await tx.execute("insert into thing (id) values ('a')")
            began.set()
            await tx.execute("select pg_sleep(30)")

    task = asyncio.create_task(slow())
    await asyncio.wait_for(began.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await names(database) == []


async def test_a_savepoint_undoes_its_block_only(database: Database):
    async with database.begin() as tx:
        await tx.execute("insert into thing (id) values ('kept')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            async with tx.nested():
                await tx.execute("insert into thing (id) values ('kept')")
        await tx.execute("insert into thing (id) values ('also')")
    assert await names(database) == ["also", "kept"]


async def test_a_read_cannot_write(database: Database):
    for snapshot in (False, True):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            async with database.read(snapshot=snapshot) as tx:
                await tx.execute("insert into thing (id) values ('a')")


async def test_a_snapshot_sees_one_moment_and_a_plain_read_the_latest(database: Database):
    async with database.read(snapshot=True) as frozen, database.read() as fresh:
        assert await frozen.fetch_value("select count(*) from thing") == 0
        await add(database, "a")
        assert await frozen.fetch_value("select count(*) from thing") == 0
        assert await fresh.fetch_value("select count(*) from thing") == 1
    assert await names(database) == ["a"]


async def test_settings_for_some_statements_hold_for_those_alone(database: Database):
    async with database.read() as tx:
        before = await tx.fetch_value("show work_mem")
        async with tx.planning(work_mem="17MB", enable_seqscan="off"):
            assert await tx.fetch_value("show work_mem") == "17MB"
            assert await tx.fetch_value("show enable_seqscan") == "off"
        assert await tx.fetch_value("show work_mem") == before != "17MB"
        with pytest.raises(ZeroDivisionError):
            async with tx.planning(work_mem="17MB"):
                raise ZeroDivisionError
        assert await tx.fetch_value("show work_mem") == before


async def test_absent_rows_are_none(database: Database):
    async with database.read() as tx:
        assert await tx.fetch_one("select * from thing") is None
        assert await tx.fetch_value("select id from thing") is None


async def test_a_broken_rule_of_the_schema_is_for_the_store_to_explain(database: Database):
    await add(database, "a")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await add(database, "a")


async def test_a_statement_that_runs_too_long_is_a_missed_deadline(service_dsn: str):
    database = await Database.open(service_dsn, "things", Limits(maximum=1, statement_timeout_s=0.1))
    with pytest.raises(GroveError) as told:
        async with database.read() as tx:
            await tx.execute("select pg_sleep(5)")
    assert told.value.code == "grovekeeper_deadline"
    await database.close()


async def test_a_pool_that_stays_empty_is_unavailable_in_bounded_time(service_dsn: str):
    database = await Database.open(service_dsn, "things", Limits(minimum=1, maximum=1, wait_s=0.2))
    async with database.begin():
        with pytest.raises(GroveError) as told:
            async with database.begin():
                pass
    assert (told.value.code, told.value.retryable) == ("grovekeeper_unavailable", True)
    await database.close()


async def test_two_that_wait_for_each_other_are_told_to_try_again(database: Database):
    await add(database, "a")
    await add(database, "b")
    both = asyncio.Barrier(2)

    async def touch(first: str, second: str) -> str:
        try:
            async with database.begin() as tx:
                await tx.execute("update thing set n = n + 1 where id = %s", (first,))
                await both.wait()
                await tx.execute("update thing set n = n + 1 where id = %s", (second,))
        except GroveError as error:
            return error.code
        return "done"

    assert sorted(await asyncio.gather(touch("a", "b"), touch("b", "a"))) == [
        "done",
        "grovekeeper_unavailable",
    ]


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
async def test_a_character_postgres_cannot_keep_is_the_callers_fault(database: Database, text: str):
    with pytest.raises(GroveError) as told:
        await add(database, text)
    assert told.value.code == "invalid_input"


async def test_connections_lost_while_idle_cost_no_call(database: Database, owner_dsn: str):
    await add(database, "a")
    assert await names(database) == ["a"]
    async with await psycopg.AsyncConnection.connect(owner_dsn, autocommit=True) as owner:
        await owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'grove_things'"
        )
        gone = "select count(*) from pg_stat_activity where usename = 'grove_things'"
        while (await (await owner.execute(gone)).fetchone()) != (0,):  # noqa: ASYNC110 - Postgres tells nobody
            await asyncio.sleep(0.01)
    await add(database, "b")
    assert await names(database) == ["a", "b"]


async def test_a_connection_lost_in_use_costs_its_own_call(database: Database):
    with pytest.raises(GroveError) as told:
        async with database.begin() as tx:
            await tx.execute("select pg_terminate_backend(pg_backend_pid())")
    assert told.value.code == "grovekeeper_unavailable"
    await add(database, "a")


async def test_no_database_is_unavailable_and_comes_back_by_itself(
    database: Database, own_postgres: Cluster, caplog: pytest.LogCaptureFixture
):
    assert await database.ping()
    own_postgres.stop()
    try:
        assert not await database.ping()
        with pytest.raises(GroveError) as told:
            await add(database, "a")
        assert told.value.code == "grovekeeper_unavailable"
    finally:
        own_postgres.start()
    await add(database, "a")
    assert await names(database) == ["a"]
    assert "password" not in caplog.text


async def test_what_a_service_says_of_itself_is_seen_by_the_database(database: Database):
    async with database.read() as tx:
        assert await tx.fetch_value("show application_name") == "grovekeeper things"
        assert await tx.fetch_value("show statement_timeout") == "15s"
        assert await tx.fetch_value("show idle_in_transaction_session_timeout") == "30s"


async def test_statements_of_a_traced_request_are_spans_without_content(
    database: Database, spans: InMemorySpanExporter
):
    await add(database, "untraced")
    with telemetry.tracer("test").start_as_current_span("request") as request:
        async with database.begin() as tx:
            await tx.execute("insert into thing (id) values (%s)", ("the secret",))
            await tx.fetch_all(sql.SQL("select id from {}").format(sql.Identifier("thing")))
            with pytest.raises(psycopg.errors.UniqueViolation):
                async with tx.nested():
                    await tx.execute("insert into thing (id) values (%s)", ("the secret",))
    found = [span for span in spans.get_finished_spans() if span.name != "request"]
    assert [span.name for span in found] == ["INSERT thing", "SELECT thing", "INSERT thing"]
    assert all(span.parent and span.parent.span_id == request.get_span_context().span_id for span in found)
    attributes = dict(found[0].attributes or {})
    assert attributes == {
        semconv.DB_SYSTEM_NAME: "postgresql",
        semconv.DB_NAMESPACE: "things",
        semconv.DB_OPERATION_NAME: "INSERT",
        semconv.DB_QUERY_SUMMARY: "INSERT thing",
        semconv.DB_COLLECTION_NAME: "thing",
    }
    assert (found[2].attributes or {})[semconv.DB_RESPONSE_STATUS_CODE] == "23505"
    assert not any("the secret" in span.to_json() for span in found)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("select * from a.thing where x", ("SELECT", "a.thing")),
        ("  -- why\n  insert into thing values (1)", ("INSERT", "thing")),
        ("update only thing set n = 1", ("UPDATE", "thing")),
        ("with x as (select 1 from a) insert into b select * from x", ("INSERT", "a")),
        ("with recursive x as (select 1 from a) select * from x", ("SELECT", "a")),
        ("listen channel", ("LISTEN", None)),
        ("", ("UNKNOWN", None)),
    ],
)
def test_a_statement_is_summed_up_by_what_it_does_and_where(statement: str, told: tuple[str, str | None]):
    assert describe(statement) == told
