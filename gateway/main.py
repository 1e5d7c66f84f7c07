"""The composition root: settings, channels, clients, routes, and the server that runs them."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, cast

import uvicorn
import uvloop
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from gateway import errors, openapi
from gateway.clients import (
    audit,
    authz,
    consolidations,
    feeds,
    files,
    groups,
    harnesses,
    jobs,
    memories,
    queries,
    records,
    responses,
    sessions,
    shares,
    snapshots,
    tokens,
    types,
)
from gateway.clients.health import HealthClient
from gateway.edge import Door, Edge, Limits
from gateway.limits import RateLimits, RedisBuckets, Sizes
from gateway.protocol import limited_protocol
from gateway.routes import access as access_routes
from gateway.routes import audit as audit_routes
from gateway.routes import consolidations as consolidation_routes
from gateway.routes import discovery as discovery_routes
from gateway.routes import files as file_routes
from gateway.routes import groups as group_routes
from gateway.routes import harnesses as harness_routes
from gateway.routes import jobs as job_routes
from gateway.routes import memories as memory_routes
from gateway.routes import queries as query_routes
from gateway.routes import records as record_routes
from gateway.routes import responses as response_routes
from gateway.routes import sessions as session_routes
from gateway.routes import shares as share_routes
from gateway.routes import snapshots as snapshot_routes
from gateway.routes import tokens as token_routes
from gateway.routes import types as type_routes
from gateway.settings import GatewaySettings
from gateway.source import Source, networks
from service_kit import telemetry
from service_kit.ops import ListenError, OpsServer, Server, bind
from service_kit.rpc.client import channel
from service_kit.settings import SettingsError

__all__ = ["Clients", "application", "connected", "limited", "run", "serve"]

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Clients:
    """The services behind."""

    authz: authz.AuthzClient
    tokens: tokens.TokensClient
    groups: groups.GroupsClient
    audit: audit.AuditClient
    jobs: jobs.JobsClient
    queries: queries.QueriesClient
    memories: memories.MemoriesClient
    records: records.RecordsClient
    snapshots: snapshots.SnapshotsClient
    consolidations: consolidations.ConsolidationsClient
    files: files.FilesClient
    types: types.TypesClient
    harnesses: harnesses.HarnessesClient
    responses: responses.ResponsesClient
    sessions: sessions.SessionsClient
    shares: shares.SharesClient
    feeds: feeds.FeedsClient
    health: HealthClient


@asynccontextmanager
async def connected(settings: GatewaySettings) -> AsyncGenerator[Clients]:
    """Channels to the services; they connect by themselves and again when they break."""
    async with (
        channel(
            settings.authz_address, settings, safe=(*authz.SAFE, *tokens.SAFE, *groups.SAFE, *audit.SAFE)
        ) as to_authz,
        channel(
            settings.memory_address,
            settings,
            safe=(
                *memories.SAFE,
                *records.SAFE,
                *snapshots.SAFE,
                *queries.SAFE,
                *types.SAFE,
                *jobs.SAFE,
                *consolidations.SAFE,
            ),
        ) as to_memory,
        channel(
            settings.runner_address,
            settings,
            safe=(*harnesses.SAFE, *responses.SAFE, *sessions.SAFE, *shares.SAFE),
        ) as to_runner,
    ):
        patience = responses.Patience(settings.stream_deadline_s, settings.stream_patience_s)
        yield Clients(
            authz=authz.AuthzClient(to_authz),
            tokens=tokens.TokensClient(to_authz),
            groups=groups.GroupsClient(to_authz),
            audit=audit.AuditClient(to_authz),
            jobs=jobs.JobsClient(to_memory),
            queries=queries.QueriesClient(to_memory),
            memories=memories.MemoriesClient(to_memory),
            records=records.RecordsClient(to_memory),
            snapshots=snapshots.SnapshotsClient(to_memory),
            consolidations=consolidations.ConsolidationsClient(to_memory),
            files=files.FilesClient(to_memory),
            types=types.TypesClient(to_memory),
            harnesses=harnesses.HarnessesClient(to_runner),
            responses=responses.ResponsesClient(to_runner, patience),
            sessions=sessions.SessionsClient(to_runner),
            shares=shares.SharesClient(to_runner),
            feeds=feeds.FeedsClient(to_runner, patience),
            health=HealthClient(to_authz),
        )


@asynccontextmanager
async def limited(settings: GatewaySettings) -> AsyncGenerator[RateLimits]:
    """The rate limits, kept together with all gateways where there is a Redis."""
    sizes = Sizes(settings.rate_limit, settings.rate_limit_turns, settings.rate_limit_refused)
    if settings.redis_url is None:
        yield RateLimits(sizes)
        return
    async with aclosing(RedisBuckets(settings.redis())) as shared:
        yield RateLimits(sizes, shared)


def application(settings: GatewaySettings, clients: Clients, rates: RateLimits) -> FastAPI:
    """The application: every route, and the edge around them."""
    app = FastAPI(
        title="Grovekeeper",
        version=version("grovekeeper"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # operationId: what generated clients call the operation.
        generate_unique_id_function=lambda route: route.name,
        default_response_class=Response,
        responses=openapi.ERRORS,
        # The framework's own would record queries, which carry content, and a span for each of its steps.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        exception_handlers={HTTPException: _on_http, RequestValidationError: _on_validation},
    )
    discovery_routes.routes(app)
    record_routes.reading(app, clients.records)
    record_routes.retrieving(app, clients.records)
    record_routes.writing(app, clients.records)
    snapshot_routes.routes(app, clients.snapshots)
    consolidation_routes.routes(app, clients.consolidations)
    file_routes.routes(app, clients.files, settings.file_limit_bytes)
    type_routes.routes(app, clients.types)
    type_routes.operations(app, clients.types)
    memory_routes.routes(app, clients.memories)
    memory_routes.grants(app, clients.authz)
    response_routes.routes(app, clients.responses, settings.stream_keepalive_s)
    session_routes.routes(app, clients.sessions, clients.responses)
    session_routes.feeds(app, clients.harnesses, clients.feeds, settings.stream_keepalive_s)
    share_routes.routes(app, clients.shares)
    harness_routes.routes(app, clients.harnesses)
    harness_routes.starting_points(app, clients.harnesses)
    token_routes.routes(app, clients.tokens)
    access_routes.routes(app, clients.authz)
    group_routes.routes(app, clients.groups)
    group_routes.members(app, clients.groups)
    audit_routes.routes(app, clients.audit)
    job_routes.routes(app, clients.jobs)
    query_routes.routes(app, clients.queries)
    app.add_middleware(
        Edge,
        door=Door(clients.authz.authenticate, Source(networks(settings.trusted_proxies)), rates),
        revision=settings.memories_revision,
        limits=Limits(
            body=settings.body_limit_bytes,
            headers=settings.header_limit_bytes,
            file=settings.file_limit_bytes,
        ),
    )
    _document(app)
    return app


def _document(app: FastAPI) -> None:
    def made() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = openapi.document(app, app.title, app.version)
        return app.openapi_schema

    app.openapi = made


async def _on_http(request: Request, error: Exception) -> Response:
    """What the framework refuses: an unknown address, a method an address does not take."""
    refused = cast("HTTPException", error)
    headers = dict(refused.headers or {})
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(_methods(cast("FastAPI", request.app).routes, request)))
    return errors.response(errors.from_http(refused), headers)


def _methods(routes: list[BaseRoute], request: Request) -> set[str]:
    """Every method of the address; the framework names those of its first route only."""
    return {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in cast("set[str]", getattr(route, "methods", None) or set())
    }


async def _on_validation(_: Request, __: Exception) -> Response:
    return errors.response(errors.invalid("The request cannot be understood."))


def run(settings: GatewaySettings) -> int:
    """Serve until told to stop; answers the exit code: 0 stopped in order, 1 failed."""
    sent = telemetry.setup("gateway", settings)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_signalled(settings))
    except (ListenError, SettingsError) as error:
        _log.error("gateway cannot start: %s", error)
        return 1
    except Exception:  # noqa: BLE001 - the edge of the process
        _log.exception("gateway failed")
        return 1
    finally:
        sent.shutdown()


async def _signalled(settings: GatewaySettings) -> int:
    stop, hurry = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, told)
    return await serve(settings, stop=stop, hurry=hurry)


async def serve(
    settings: GatewaySettings,
    *,
    stop: asyncio.Event,
    hurry: asyncio.Event | None = None,
    started: Callable[[int, int], None] | None = None,
) -> int:
    """What :func:`run` runs; ``started`` is told the public and the operators' port.

    On ``stop``: not ready, no new connections, running requests may end within ``stop_grace_s``
    (``hurry`` cuts that short), channels close.
    """
    async with connected(settings) as clients, limited(settings) as rates:

        async def ready() -> bool:
            return not stop.is_set() and await clients.health.serving()

        listener = bind(settings.listen)
        port = int(listener.getsockname()[1])
        async with OpsServer(settings.ops_listen, ready) as ops:
            server = Server(_config(settings, application(settings, clients, rates)))
            serving = asyncio.create_task(server.serve([listener]), name="public http")
            _log.info("gateway serves", extra={"port": port, "ops_port": ops.port})
            if started is not None:
                started(port, ops.port)
            return await _until(stop, hurry or asyncio.Event(), server, serving)


def _config(settings: GatewaySettings, app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        http=limited_protocol(settings.header_limit_bytes),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what it warns of is what strangers send, a line for each
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(settings.stop_grace_s)),
    )


async def _until(
    stop: asyncio.Event, hurry: asyncio.Event, server: uvicorn.Server, serving: asyncio.Task[None]
) -> int:
    stopping, hurrying = asyncio.create_task(stop.wait()), asyncio.create_task(hurry.wait())
    await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
    failed = not stop.is_set()
    server.should_exit = True
    await asyncio.wait({serving, hurrying}, return_when=asyncio.FIRST_COMPLETED)
    server.force_exit = True
    for task in (stopping, hurrying):
        task.cancel()
    await serving
    _log.info("gateway stopped")
    return 1 if failed else 0
