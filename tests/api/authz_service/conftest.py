from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from service_kit.identity import generate_keys
from tests.api.authz_service.service import Authz, Bearer, Sql, bootstrap, serving
from tests.fixtures.databases import Databases


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(private key, public keys)."""
    directory = tmp_path_factory.mktemp("passport-keys")
    for name, text in zip(("private.json", "public.json"), generate_keys(), strict=True):
        (directory / name).write_text(text)
    return directory / "private.json", directory / "public.json"


@pytest.fixture
async def authz(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path
) -> AsyncGenerator[Authz]:
    async with serving(service_database("authz"), keys, bootstrap(tmp_path)) as running:
        yield running


@pytest.fixture
def sql(databases: Databases) -> Sql:
    """Runs a statement on the service's tables, as their owner."""

    def run(statement: LiteralString) -> None:
        with psycopg.connect(databases.service("authz").owner_dsn, autocommit=True) as connection:
            connection.execute("set search_path = authz")
            connection.execute(statement)

    return run


@pytest.fixture
async def alice(authz: Authz) -> Bearer:
    return await authz.person("alice")


@pytest.fixture
async def bob(authz: Authz) -> Bearer:
    return await authz.person("bob", "sales")
