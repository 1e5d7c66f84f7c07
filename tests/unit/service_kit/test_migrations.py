"""Schemas, roles and migrations. Real Postgres."""

import asyncio
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import LiteralString, cast

import psycopg
import pytest
from procrastinate.schema import SchemaManager
from psycopg import sql
from psycopg.rows import dict_row
from pydantic import SecretStr

from service_kit.db import migrate
from service_kit.db.migrate import MigrationError, Schema
from service_kit.db.pool import Database
from service_kit.settings import Settings

PASSWORD = "secret of the role"


async def rows(dsn: str, statement: str) -> list[dict[str, object]]:
    """Run one statement; what it answers, if it answers rows."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(sql.SQL(cast("LiteralString", statement)))
        return await cursor.fetchall() if cursor.description else []


def write(schema: Schema, name: str, text: str) -> None:
    (schema.migrations / name).write_text(text)


async def is_current(owner_dsn: str, schema: Schema) -> bool:
    database = await Database.open(migrate.role_dsn(owner_dsn, schema, PASSWORD), schema.name)
    try:
        return await migrate.current(database, schema)
    finally:
        await database.close()


async def test_a_fresh_database_gets_everything_and_a_second_run_nothing(owner_dsn: str, things: Schema):
    assert await migrate.run(owner_dsn, things, PASSWORD) == ["procrastinate", "0001_things.sql"]
    assert await migrate.run(owner_dsn, things, PASSWORD) == []
    assert await is_current(owner_dsn, things)


async def test_a_new_migration_makes_an_old_database_not_current_until_it_ran(owner_dsn: str, things: Schema):
    await migrate.run(owner_dsn, things, PASSWORD)
    write(things, "0002_more.sql", "alter table thing add more text;")
    assert not await is_current(owner_dsn, things)
    assert await migrate.run(owner_dsn, things, PASSWORD) == ["0002_more.sql"]
    assert await is_current(owner_dsn, things)


async def test_who_was_connected_before_there_was_a_schema_finds_it_when_it_is_there(
    owner_dsn: str, things: Schema
):
    await migrate.run(owner_dsn, things, PASSWORD)
    await rows(owner_dsn, "alter schema things rename to elsewhere")
    await rows(
        owner_dsn,
        "do $$ begin execute format('alter role grove_things in database %I reset all', current_database());"
        " end $$",
    )
    database = await Database.open(migrate.role_dsn(owner_dsn, things, PASSWORD), things.name)
    try:
        async with database.begin() as tx:
            await tx.execute("select 1")
        assert not await migrate.current(database, things)
        await migrate.run(owner_dsn, things, PASSWORD)
        found = False
        for _ in range(200):
            found = await migrate.current(database, things)
            if found:
                break
            await asyncio.sleep(0.05)
        assert found
        async with database.begin() as tx:
            await tx.execute("insert into note (text) values ('x')")
    finally:
        await database.close()


async def test_the_role_reads_and_writes_rows_and_nothing_else(owner_dsn: str, things: Schema):
    await migrate.run(owner_dsn, things, PASSWORD)
    mine = migrate.role_dsn(owner_dsn, things, PASSWORD)
    assert await rows(mine, "insert into note (text) values ('x') returning id") == [{"id": 1}]
    for refused in (
        "create table mine (a int)",
        "create schema mine",
        "drop table thing",
        "truncate thing",
        "alter table thing add a int",
        "delete from schema_migration",
        "create role other",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await rows(mine, refused)


async def test_a_role_cannot_see_another_services_schema(owner_dsn: str, things: Schema):
    other = replace(things, name="others", jobs=False)
    await migrate.run(owner_dsn, things, PASSWORD)
    await migrate.run(owner_dsn, other, "another password")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await rows(migrate.role_dsn(owner_dsn, other, "another password"), "select * from things.thing")


async def test_a_role_needs_its_password_and_gets_a_new_one(owner_dsn: str, things: Schema):
    await migrate.run(owner_dsn, things, "the first")
    await migrate.run(owner_dsn, things, "the second")
    assert await rows(migrate.role_dsn(owner_dsn, things, "the second"), "select 1 as one")
    with pytest.raises(psycopg.OperationalError, match="password"):
        await rows(migrate.role_dsn(owner_dsn, things, "the first"), "select 1")
    await migrate.run(owner_dsn, things)
    assert await rows(migrate.role_dsn(owner_dsn, things, "the second"), "select 1 as one")


async def test_a_new_role_without_a_password_is_refused(owner_dsn: str, things: Schema):
    unknown = replace(things, name="never_seen")
    with pytest.raises(MigrationError, match="GROVE_ROLE_PASSWORD"):
        await migrate.run(owner_dsn, unknown)


async def test_a_changed_migration_is_refused_and_named(owner_dsn: str, things: Schema):
    await migrate.run(owner_dsn, things, PASSWORD)
    write(things, "0001_things.sql", "create table thing (id text);")
    with pytest.raises(MigrationError, match=r"0001_things\.sql of things was changed"):
        await migrate.run(owner_dsn, things, PASSWORD)


async def test_a_newer_database_is_refused_and_is_not_current(owner_dsn: str, things: Schema):
    write(things, "0002_more.sql", "select 1;")
    await migrate.run(owner_dsn, things, PASSWORD)
    (things.migrations / "0002_more.sql").unlink()
    with pytest.raises(MigrationError, match=r"newer than this release: it has the migration 0002_more\.sql"):
        await migrate.run(owner_dsn, things, PASSWORD)
    assert not await is_current(owner_dsn, things)


async def test_a_migration_that_fails_leaves_nothing_of_itself(owner_dsn: str, things: Schema):
    write(things, "0002_bad.sql", "create table half (a int); select 1/0;")
    with pytest.raises(MigrationError, match="division by zero"):
        await migrate.run(owner_dsn, things, PASSWORD)
    assert await rows(owner_dsn, "select to_regclass('things.half') as half") == [{"half": None}]
    write(things, "0002_bad.sql", "create table whole (a int);")
    assert await migrate.run(owner_dsn, things, PASSWORD) == ["0002_bad.sql"]


@pytest.mark.parametrize("name", ["0003_gap.sql", "2_short.sql", "0002-dash.sql", "0002_Upper.sql"])
async def test_a_badly_numbered_migration_is_refused(owner_dsn: str, things: Schema, name: str):
    write(things, name, "select 1;")
    with pytest.raises(MigrationError, match="is not migration number"):
        await migrate.run(owner_dsn, things, PASSWORD)


async def test_several_at_once_apply_everything_once(owner_dsn: str, things: Schema):
    other = replace(things, name="others", extensions=("vector",))
    more = [migrate.run(owner_dsn, one, PASSWORD) for one in (things, other, things, other, things)]
    applied = [name for names in await asyncio.gather(*more) for name in names]
    assert sorted(applied) == ["0001_things.sql", "0001_things.sql", "procrastinate", "procrastinate"]


async def test_extensions_are_reachable_by_the_role_without_a_prefix(owner_dsn: str, things: Schema):
    schema = replace(things, extensions=("vector",), optional_extensions=("pg_trgm", "of_another_planet"))
    await migrate.run(owner_dsn, schema, PASSWORD)
    mine = migrate.role_dsn(owner_dsn, schema, PASSWORD)
    assert await rows(mine, "select '[1,2]'::vector <-> '[1,2]'::vector as d, similarity('a', 'a') as s") == [
        {"d": 0.0, "s": 1.0}
    ]


async def test_an_extension_that_is_somewhere_else_already_is_found_there(owner_dsn: str, things: Schema):
    await rows(owner_dsn, "create extension vector schema public")
    schema = replace(things, extensions=("vector",))
    await migrate.run(owner_dsn, schema, PASSWORD)
    assert await rows(migrate.role_dsn(owner_dsn, schema, PASSWORD), "select '[1]'::vector::text as v")


async def test_a_missing_extension_is_named(owner_dsn: str, things: Schema):
    with pytest.raises(MigrationError, match="lacks the extension of_another_planet"):
        await migrate.run(owner_dsn, replace(things, extensions=("of_another_planet",)), PASSWORD)


async def test_an_upgrade_of_the_queues_library_is_applied_step_by_step(
    owner_dsn: str, things: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await migrate.run(owner_dsn, things, PASSWORD)
    newer = tmp_path / "library"
    shutil.copytree(SchemaManager.get_migrations_path(), newer)
    (newer / "99.00.00_01_pre_new.sql").write_text("alter table procrastinate_jobs add new_one text;")
    monkeypatch.setattr(SchemaManager, "get_migrations_path", staticmethod(lambda: str(newer)))
    assert not await is_current(owner_dsn, things)
    assert await migrate.run(owner_dsn, things, PASSWORD) == ["99.00.00_01_pre_new.sql"]
    assert await is_current(owner_dsn, things)


def test_the_command_ends_with_a_code_and_one_line(
    owner_dsn: str, things: Schema, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    settings = Settings(database_url=SecretStr(owner_dsn), role_password=SecretStr(PASSWORD))
    assert migrate.main(settings, things) == 0
    assert migrate.main(Settings(), things) == 1
    assert (
        migrate.main(settings.model_copy(update={"database_url": SecretStr("host=/nowhere user=x")}), things)
        == 1
    )
    told = capsys.readouterr().err.splitlines()
    assert "GROVE_DATABASE_URL is not set" in told[-2]
    assert "migrating things failed" in told[-1]
    assert PASSWORD not in "".join(told)


async def test_a_database_that_cannot_be_asked_is_not_current(things: Schema):
    database = await Database.open("host=/nowhere user=x", "things")
    try:
        async with asyncio.timeout(10):
            assert not await migrate.current(database, things)
    finally:
        await database.close()
