"""Schema, login role and numbered migrations of one service, applied by the owner of the database.

``python -m <service> migrate`` runs :func:`main` with the owner's URL in ``GROVE_DATABASE_URL`` and the
password the service's role gets in ``GROVE_ROLE_PASSWORD``. A migration is a file ``0001_name.sql`` with
unqualified names, run in one transaction; an applied one may never change. Expand first, contract in a
later release: the previous release must work on the schema the next one made.

The role owns nothing: it may read and write rows, and cannot see another service's schema. Extensions
live in the schema ``extensions`` unless the database already has them elsewhere.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from service_kit import telemetry
from service_kit.db.pool import Database
from service_kit.db.tx import Connection, Row
from service_kit.errors import GroveError
from service_kit.settings import Settings, SettingsError

__all__ = ["MigrationError", "Schema", "current", "main", "role_dsn", "run"]

_log: Final = logging.getLogger(__name__)

_LOCK: Final = 0x67726F76  # "grov": one migration at a time in a database, whichever service's
_LOCK_WAIT: Final = "120s"
_FILE: Final = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
_OWN: Final = "service"
_QUEUE: Final = "procrastinate"


class MigrationError(Exception):
    """The schema cannot be brought to this release; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a service needs of its database. ``jobs`` adds the tables of its job queue; of the
    ``optional_extensions`` those are installed that the server has.
    """

    name: str
    migrations: Path
    jobs: bool = False
    extensions: tuple[str, ...] = ()
    optional_extensions: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        """The login role of the service."""
        return f"grove_{self.name}"


@dataclass(frozen=True, slots=True)
class _Migration:
    component: str
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def main(settings: Settings, schema: Schema) -> int:
    """The whole of ``python -m <service> migrate``; answers the exit code."""
    telemetry.configure_logging(f"{schema.name} migrate", settings.log_level)
    try:
        password = settings.role_password.get_secret_value() if settings.role_password else None
        applied = asyncio.run(run(settings.dsn(), schema, password))
    except (MigrationError, SettingsError) as error:
        _log.error("%s", error)
        return 1
    _log.info("schema %s is current", schema.name, extra={"applied": applied})
    return 0


async def run(owner_dsn: str, schema: Schema, role_password: str | None = None) -> list[str]:
    """Bring the schema to this release; answers the names of the migrations applied, oldest first.

    Safe to run any number of times and from several places at once. Without ``role_password`` the role
    must exist and keeps the password it has. Raises :class:`MigrationError`.
    """
    own = _numbered(schema.migrations)
    try:
        async with _owner(owner_dsn) as connection:
            await _prepare(connection, schema, role_password)
            known = await _known(connection, schema)
            _check(schema, own, known)
            applied = [
                *await _apply_queue(connection, schema, known),
                *await _apply(connection, schema, own, known),
            ]
            await _grant(connection, schema)
            return applied
    except psycopg.Error as error:
        told = (error.diag.message_primary or str(error)).strip().splitlines()[0]
        raise MigrationError(f"migrating {schema.name} failed: {told}") from error


async def current(database: Database, schema: Schema) -> bool:
    """Whether the database has exactly the migrations of this release; False also when it cannot be asked."""
    wanted = {(one.component, one.name) for one in _numbered(schema.migrations)}
    if schema.jobs:
        wanted |= {(_QUEUE, one.name) for one in _queue_files()}
    try:
        async with database.read() as tx:
            there = await tx.fetch_value("select to_regclass('schema_migration')") is not None
            rows = await tx.fetch_all("select component, name from schema_migration") if there else []
        if not there:
            # A connection keeps the search path its role had when it was made; the next ones find the schema.
            await database.renew()
    except GroveError:
        return False
    return {(row["component"], row["name"]) for row in rows} == wanted


def _numbered(directory: Path) -> list[_Migration]:
    files = sorted(directory.glob("*.sql"))
    for position, file in enumerate(files, start=1):
        if not _FILE.fullmatch(file.name) or int(file.name[:4]) != position:
            raise MigrationError(f"{file.name} is not migration number {position:04d}_name.sql")
    return [_Migration(_OWN, file.name, file.read_text(encoding="utf-8")) for file in files]


@asynccontextmanager
async def _owner(dsn: str) -> AsyncGenerator[Connection]:
    """The owner's connection, holding the migration lock."""
    connection = await psycopg.AsyncConnection[Row].connect(
        dsn, autocommit=True, row_factory=dict_row, application_name="grovekeeper migrate"
    )
    async with connection:
        await connection.execute("select set_config('lock_timeout', %s, false)", (_LOCK_WAIT,))
        await connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
        yield connection


async def _prepare(connection: Connection, schema: Schema, password: str | None) -> None:
    """Role, schema, extensions, search path and the table that remembers."""
    name, role = sql.Identifier(schema.name), sql.Identifier(schema.role)
    async with connection.transaction():
        await _role(connection, schema.role, password)
        await connection.execute(sql.SQL("create schema if not exists {}").format(name))
        extra = await _extensions(connection, schema)
        path = sql.SQL(", ").join(sql.Identifier(one) for one in [schema.name, *extra])
        database = sql.Identifier(connection.info.dbname)
        await connection.execute(
            sql.SQL("alter role {} in database {} set search_path = {}").format(role, database, path)
        )
        for one in extra:
            await connection.execute(
                sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(one), role)
            )
        await connection.execute(sql.SQL("set search_path = {}").format(path))
        await connection.execute(
            "create table if not exists schema_migration ("
            " component text not null, name text not null, checksum text not null,"
            " applied_at timestamptz not null default now(), primary key (component, name))"
        )


async def _role(connection: Connection, role: str, password: str | None) -> None:
    cursor = await connection.execute("select 1 from pg_roles where rolname = %s", (role,))
    exists = await cursor.fetchone() is not None
    if password is None:
        if not exists:
            raise MigrationError(
                f"the role {role} does not exist yet, and no GROVE_ROLE_PASSWORD is set for it"
            )
        return
    # Sent as its SCRAM verifier, so that no log of the server ever holds the password.
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    verb = sql.SQL("alter role" if exists else "create role")
    await connection.execute(
        sql.SQL("{} {} login password {}").format(verb, sql.Identifier(role), sql.Literal(verifier))
    )


async def _extensions(connection: Connection, schema: Schema) -> list[str]:
    """Install what is asked for; answers the schemas the extensions live in."""
    wanted = [*schema.extensions, *schema.optional_extensions]
    if not wanted:
        return []
    cursor = await connection.execute(
        "select name from pg_available_extensions where name = any(%s)", (wanted,)
    )
    available = {str(row["name"]) for row in await cursor.fetchall()}
    for one in schema.extensions:
        if one not in available:
            raise MigrationError(f"the database server lacks the extension {one}")
    await connection.execute("create schema if not exists extensions")
    for one in wanted:
        if one in available:
            await connection.execute(
                sql.SQL("create extension if not exists {} schema extensions").format(sql.Identifier(one))
            )
    cursor = await connection.execute(
        "select distinct n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace"
        " where e.extname = any(%s) order by 1",
        (wanted,),
    )
    return [str(row["nspname"]) for row in await cursor.fetchall()]


async def _known(connection: Connection, schema: Schema) -> dict[tuple[str, str], str]:
    """What was applied: (component, name) -> checksum."""
    cursor = await connection.execute(
        sql.SQL("select component, name, checksum from {}.schema_migration").format(
            sql.Identifier(schema.name)
        )
    )
    return {(row["component"], row["name"]): row["checksum"] for row in await cursor.fetchall()}


def _check(schema: Schema, own: Sequence[_Migration], known: dict[tuple[str, str], str]) -> None:
    ours = {one.name: one for one in own}
    queue = {one.name for one in _queue_files()} if schema.jobs else set[str]()
    for (component, name), checksum in sorted(known.items()):
        if name not in (queue if component == _QUEUE else ours):
            raise MigrationError(
                f"the schema {schema.name} is newer than this release: it has the migration {name}, unknown here"
            )
        if component == _OWN and ours[name].checksum != checksum:
            raise MigrationError(
                f"the migration {name} of {schema.name} was changed after it had been applied"
            )


async def _apply(
    connection: Connection, schema: Schema, wanted: Sequence[_Migration], known: dict[tuple[str, str], str]
) -> list[str]:
    """Run the migrations not yet known, each in a transaction with its record."""
    applied: list[str] = []
    for one in wanted:
        if (one.component, one.name) in known:
            continue
        async with connection.transaction():
            # Several statements in one go are possible only without parameters.
            await connection.execute(sql.SQL(cast("LiteralString", one.text)))
            await _record(connection, one)
        _log.info("applied %s to %s", one.name, schema.name)
        applied.append(one.name)
    return applied


async def _record(connection: Connection, one: _Migration) -> None:
    await connection.execute(
        "insert into schema_migration (component, name, checksum) values (%s, %s, %s)",
        (one.component, one.name, one.checksum),
    )


def _queue_files() -> list[_Migration]:
    """The job queue's own migrations, oldest first, as shipped with its library."""
    from procrastinate.schema import SchemaManager  # noqa: PLC0415 - only where a service has jobs

    files = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    return [_Migration(_QUEUE, file.name, file.read_text(encoding="utf-8")) for file in files]


async def _apply_queue(
    connection: Connection, schema: Schema, known: dict[tuple[str, str], str]
) -> list[str]:
    """The job queue's tables: whole on a fresh schema, step by step when its library was upgraded."""
    from procrastinate.schema import SchemaManager  # noqa: PLC0415 - only where a service has jobs

    if not schema.jobs:
        return []
    files = _queue_files()
    if any(component == _QUEUE for component, _ in known):
        return await _apply(connection, schema, files, known)
    async with connection.transaction():
        await connection.execute(sql.SQL(SchemaManager.get_schema()))
        for one in files:
            await _record(connection, one)
    return [_QUEUE]


async def _grant(connection: Connection, schema: Schema) -> None:
    """What the role may do: rows of its own tables, nothing else, and not rewrite history."""
    name, role = sql.Identifier(schema.name), sql.Identifier(schema.role)
    async with connection.transaction():
        for statement in (
            "grant usage on schema {} to {}",
            "grant select, insert, update, delete on all tables in schema {} to {}",
            "grant usage, select on all sequences in schema {} to {}",
            "grant execute on all functions in schema {} to {}",
        ):
            await connection.execute(sql.SQL(cast("LiteralString", statement)).format(name, role))
        await connection.execute(
            sql.SQL("revoke insert, update, delete on schema_migration from {}").format(role)
        )


def role_dsn(owner_dsn: str, schema: Schema, password: str) -> str:
    """The URL with which the service itself connects: the owner's, as the service's role."""
    parts = {key: value for key, value in conninfo_to_dict(owner_dsn).items() if value is not None}
    parts |= {"user": schema.role, "password": password}
    return make_conninfo("", **parts)
