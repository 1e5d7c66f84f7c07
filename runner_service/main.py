"""The composition root: settings, then stores and clients, then use cases, then servicers and workers."""

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from typing import Final

from protos.runner.v1.runner_pb2_grpc import add_HarnessesServicer_to_server, add_ResponsesServicer_to_server
from protos.runner.v1.sessions_pb2_grpc import (
    add_FeedsServicer_to_server,
    add_SessionsServicer_to_server,
    add_SharesServicer_to_server,
)
from runner_service.api.servicer import HarnessesServicer, ResponsesServicer, Tasks
from runner_service.api.sessions import PUBLIC, FeedsServicer, SessionsServicer, SharesServicer
from runner_service.bases.scripted.base import ScriptedBase
from runner_service.clients.authz import SAFE as AUTHZ_SAFE
from runner_service.clients.authz import AuthzAccess
from runner_service.clients.memory import SAFE as MEMORY_SAFE
from runner_service.clients.memory import GrpcMemory
from runner_service.clients.memory_tools import GrpcToolMemory
from runner_service.clients.wakeups import RedisWakeups
from runner_service.domain.accept import Accept, Gate
from runner_service.domain.feed import Feed
from runner_service.domain.follow import Follow
from runner_service.domain.harnesses import Harnesses
from runner_service.domain.memory_seam import Seam
from runner_service.domain.model import Budgets
from runner_service.domain.observe import Observe
from runner_service.domain.ports import Base, Relay
from runner_service.domain.reconcile import Reconciler
from runner_service.domain.responses import Responses
from runner_service.domain.sessions import Sessions
from runner_service.domain.shares import Shares
from runner_service.domain.turns import Turns
from runner_service.domain.worker import Pace, Worker
from runner_service.loopback.server import listening
from runner_service.programs import programs
from runner_service.relay.apis import APIS
from runner_service.relay.server import RelayServer
from runner_service.relay.upstream import Upstream
from runner_service.sandbox.folders import Folders
from runner_service.schema import SCHEMA
from runner_service.settings import Settings, named
from runner_service.store.harnesses import PostgresHarnesses
from runner_service.store.responses import PostgresResponses
from runner_service.store.sessions import PostgresSessions
from runner_service.store.shares import PostgresShares
from runner_service.store.turns import OBSERVE, Keeping, PostgresTurns
from runner_service.tools.server import ToolServer
from service_kit.clock import SystemClock
from service_kit.db import migrate
from service_kit.db.pool import connect
from service_kit.ids import new_id
from service_kit.jobs import Jobs
from service_kit.rpc.client import ServicePassport, channel
from service_kit.rpc.server import Wiring

_SERVICES: Final = [
    f"grovekeeper.runner.v1.{one}" for one in ("Harnesses", "Responses", "Sessions", "Shares", "Feeds")
]


@asynccontextmanager
async def build(settings: Settings) -> AsyncGenerator[Wiring]:
    """The service, ready to be served."""
    # Told by nobody's request, these would tell of each of theirs.
    for noisy in ("httpx2", "mcp", "fastmcp", "openai"):
        logging.getLogger(noisy).setLevel("WARNING")
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(connect(settings, "runner"))
        authz = await stack.enter_async_context(channel(settings.authz_address, settings, safe=AUTHZ_SAFE))
        memory_channel = await stack.enter_async_context(
            channel(settings.memory_address, settings, safe=MEMORY_SAFE)
        )
        clock = SystemClock()
        wakeups = RedisWakeups(settings.redis(), new_id("runner"))
        stack.push_async_callback(wakeups.close)
        service = ServicePassport(authz, settings.token())
        access, memory = AuthzAccess(authz, service), GrpcMemory(memory_channel)
        jobs = Jobs("runner", settings, identity=service.as_service)
        harness_store, response_store = PostgresHarnesses(database), PostgresResponses(database)
        turn_store = PostgresTurns(database, jobs, _keeping(settings))
        seam = Seam(access, memory)
        tool_memory = GrpcToolMemory(memory_channel)
        tools = ToolServer(access, tool_memory, version("grovekeeper"))
        relay = RelayServer(_upstreams(settings), settings.relay_idle_s)
        await stack.enter_async_context(_served(settings, tools, relay))
        bases = await _bases(settings, stack, relay)
        jobs.task(OBSERVE, Observe(turn_store, (harness_store, response_store), access, memory).run)

        gate = Gate(settings.runner_queue_limit)
        turns = Turns(
            store=turn_store,
            wakeups=wakeups,
            bases=bases,
            seam=seam,
            tools=tools,
            clock=clock,
            limits=Budgets(max_step=settings.runner_max_step, timeout_seconds=settings.runner_timeout_s),
        )
        worker = Worker(turn_store, turns, _pace(settings), gate)
        wakeups.heed(work=worker.wake, cancel=worker.cancel)
        reconciler = Reconciler(turn_store, wakeups, clock, settings.runner_reconcile_s)
        harnesses = Harnesses(harness_store, access, tool_memory, bases, clock)
        follow = Follow(response_store, wakeups)
        accept = Accept(
            harnesses=harnesses,
            harness_store=harness_store,
            store=response_store,
            bases=bases,
            seam=seam,
            wakeups=wakeups,
            clock=clock,
            gate=gate,
        )
        responses = Responses(response_store, wakeups, clock)
        session_store = PostgresSessions(database)
        sessions = Sessions(session_store, responses, wakeups)
        shares = Shares((PostgresShares(database), session_store), sessions, responses, settings.token())
        feed = Feed(session_store, harnesses, follow, clock)
        tasks = Tasks(accept, responses, sessions, follow)

        async def ready() -> bool:
            return gate.open and await migrate.current(database, SCHEMA)

        async def drain() -> None:
            await worker.drain(settings.runner_drain_s)
            follow.close()

        yield Wiring(
            servicers=[
                lambda server: add_HarnessesServicer_to_server(HarnessesServicer(harnesses), server),
                lambda server: add_ResponsesServicer_to_server(ResponsesServicer(tasks), server),
                lambda server: add_SessionsServicer_to_server(SessionsServicer(sessions), server),
                lambda server: add_SharesServicer_to_server(SharesServicer(shares), server),
                lambda server: add_FeedsServicer_to_server(FeedsServicer(feed), server),
            ],
            service_names=_SERVICES,
            public_methods=PUBLIC,
            background=[
                wakeups.run,
                reconciler.run,
                worker.run,
                worker.beat,
                jobs.work,
                *_tidying(settings, session_store),
            ],
            ready=ready,
            drain=drain,
        )


def _tidying(
    settings: Settings, sessions: PostgresSessions
) -> list[Callable[[], Coroutine[None, None, None]]]:
    """Agents that are programs leave folders, also those of an earlier release that are not offered any more."""
    folders = settings.sessions()
    return [] if folders is None else [Folders(folders, sessions.known).run]


async def _bases(settings: Settings, stack: AsyncExitStack, relay: Relay) -> dict[str, Base]:
    """The bases this server offers: one is offered only if it can run."""
    bases: dict[str, Base] = {"scripted": ScriptedBase(settings.runner_scripted_beat_s)}
    if settings.model_base_url and settings.model_name:
        # Loading its client library takes half a second, which a server without a model need not spend.
        from runner_service.bases.loop.base import Endpoint, LoopBase  # noqa: PLC0415

        key = settings.model_api_key.get_secret_value() if settings.model_api_key else ""
        loop = LoopBase(
            Endpoint(settings.model_base_url, key, settings.model_name), settings.model_history_characters
        )
        stack.push_async_callback(loop.close)
        bases["loop"] = loop
    return bases | await programs(settings, relay)


@asynccontextmanager
async def _served(settings: Settings, tools: ToolServer, relay: RelayServer) -> AsyncGenerator[None]:
    """What agents reach of this process, inside the block."""
    async with (
        listening(settings.mcp_listen) as loopback,
        tools.serving(loopback),
        relay.serving(loopback),
    ):
        yield


def _upstreams(settings: Settings) -> list[Upstream]:
    """The endpoints of the relay: an API is offered only where one is set."""
    given = {
        "anthropic": (
            settings.relay_anthropic_base_url,
            settings.relay_anthropic_api_key,
            settings.relay_anthropic_models,
        ),
        "responses": (
            settings.relay_responses_base_url,
            settings.relay_responses_api_key,
            settings.relay_responses_models,
        ),
        "chat": (settings.relay_chat_base_url, settings.relay_chat_api_key, settings.relay_chat_models),
    }
    return [
        Upstream(APIS[kind], url, key.get_secret_value() if key else "", named(models))
        for kind, (url, key, models) in given.items()
        if url
    ]


def _keeping(settings: Settings) -> Keeping:
    return Keeping(
        lease=timedelta(seconds=settings.runner_lease_s),
        unstored=timedelta(seconds=settings.runner_unstored_keep_s),
        sessions=timedelta(seconds=settings.runner_session_keep_s),
    )


def _pace(settings: Settings) -> Pace:
    return Pace(
        concurrency=settings.runner_concurrency,
        poll_s=settings.runner_poll_s,
        heartbeat_s=settings.runner_heartbeat_s,
        lease_s=settings.runner_lease_s,
    )
