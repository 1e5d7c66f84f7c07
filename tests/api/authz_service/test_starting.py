"""A process of authz and a database that is not ready for it yet."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from tests.api.authz_service.service import ALL, Sql, bootstrap, serving


async def test_a_process_that_starts_before_its_schema_is_there_waits_for_it(
    service_database: Callable[[str], str], sql: Sql, keys: tuple[Path, Path], tmp_path: Path
):
    dsn = service_database("authz")
    # As the release before left it.
    sql("create table released as select * from schema_migration where name = '0002_access.sql'")
    sql("delete from schema_migration where name = '0002_access.sql'")
    sql("alter table change rename to change_to_come")
    async with AsyncExitStack() as stack:
        starting = asyncio.create_task(
            stack.enter_async_context(serving(dsn, keys, bootstrap(tmp_path), authz_replica=True))
        )
        try:
            done, _ = await asyncio.wait({starting}, timeout=1.0)
            assert not done  # it neither serves nor died
        finally:
            sql("alter table change_to_come rename to change")
            sql("insert into schema_migration select * from released")
            sql("drop table released")
        alice = await (await starting).person("alice")
        root = await alice.create()
        assert list((await alice.check(root.id)).privileges) == ALL


async def test_with_a_single_reading_connection_rows_are_read(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path
):
    dsn = service_database("authz")
    async with serving(dsn, keys, bootstrap(tmp_path), db_pool_min=1, db_pool_max=1) as authz:
        alice = await authz.person("alice")
        root = await alice.create()
        assert list((await alice.check(root.id)).privileges) == ALL
