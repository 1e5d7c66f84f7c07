import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import psycopg
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from psycopg import sql

from service_kit.db import migrate
from service_kit.db.migrate import Schema
from service_kit.db.pool import Database, Limits
from service_kit.identity import PassportSigner, PassportVerifier, generate_keys
from service_kit.ids import new_id
from service_kit.settings import Settings
from tests.unit.service_kit.cluster import Cluster, cluster
from tests.unit.service_kit.echo import Echo, Served, serving


@pytest.fixture(scope="session")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(private key, public keys)."""
    directory = tmp_path_factory.mktemp("keys")
    private, public = generate_keys()
    (directory / "private.json").write_text(private)
    (directory / "public.json").write_text(json.dumps(json.loads(public)))
    return directory / "private.json", directory / "public.json"


@pytest.fixture(scope="session")
def signer(key_files: tuple[Path, Path]) -> PassportSigner:
    return PassportSigner(key_files[0])


@pytest.fixture(scope="session")
def verifier(key_files: tuple[Path, Path]) -> PassportVerifier:
    return PassportVerifier(key_files[1])


@pytest.fixture
def settings(key_files: tuple[Path, Path]) -> Settings:
    return Settings(passport_keys_file=key_files[1], rpc_timeout_s=5.0, stop_grace_s=1.0)


@pytest.fixture
async def echo(settings: Settings) -> AsyncGenerator[Served]:
    """A real server on loopback with an :class:`Echo` behind the chassis."""
    async with serving(settings, Echo()) as served:
        yield served


@pytest.fixture
def spans(span_recorder: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    """Every span ended since the test began."""
    span_recorder.clear()
    yield span_recorder
    span_recorder.clear()


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[Cluster]:
    """A server of this room's own: its roles, their passwords and its restarts concern the whole server."""
    with cluster() as running:
        yield running


@pytest.fixture
def owner_dsn(own_postgres: Cluster) -> Iterator[str]:
    """The owner's DSN of an empty database of the test's own."""
    name = new_id("db")
    with psycopg.connect(own_postgres.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield own_postgres.dsn(name)
    with psycopg.connect(own_postgres.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def things(tmp_path: Path) -> Schema:
    """A service's schema with one table and a job queue."""
    directory = tmp_path / "migrations"
    directory.mkdir()
    (directory / "0001_things.sql").write_text(
        "create table thing (id text primary key, n int not null default 0);\n"
        "create table note (id bigint generated always as identity, text text);\n"
    )
    return Schema("things", directory, jobs=True)


PASSWORD = "a password, 'quoted' \\ and all"


@pytest.fixture
async def service_dsn(owner_dsn: str, things: Schema) -> str:
    """The DSN of the service's role on a migrated database."""
    await migrate.run(owner_dsn, things, PASSWORD)
    return migrate.role_dsn(owner_dsn, things, PASSWORD)


@pytest.fixture
async def database(service_dsn: str) -> AsyncGenerator[Database]:
    opened = await Database.open(service_dsn, "things", Limits(maximum=4, wait_s=2.0))
    yield opened
    await opened.close()
