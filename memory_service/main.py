"""The composition root: settings, then pool, then store, then use cases, then servicers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from memory_service.api.abilities import AbilitiesServicer
from memory_service.api.consolidations import ConsolidationsServicer
from memory_service.api.files import FilesServicer
from memory_service.api.queries import QueriesServicer
from memory_service.api.servicer import MemoriesServicer, RecordsServicer
from memory_service.api.snapshots import SnapshotsServicer
from memory_service.api.types import TypesServicer
from memory_service.api.work import JobsServicer
from memory_service.clients.authz import SAFE as AUTHZ_SAFE
from memory_service.clients.authz import AuthzTree
from memory_service.clients.consolidations import HOLDS_SAFE, AuthzHolds, GrpcRuns
from memory_service.clients.consolidations import SAFE as RUNS_SAFE
from memory_service.clients.files import SAFE as FILES_SAFE
from memory_service.clients.files import GrpcProviderFiles
from memory_service.clients.provider import SAFE as PROVIDER_SAFE
from memory_service.clients.provider import GrpcProvider
from memory_service.clients.queries import SAFE as QUERIES_SAFE
from memory_service.clients.queries import GrpcQueries
from memory_service.clients.work import SAFE as WORK_SAFE
from memory_service.clients.work import AuthzActs, GrpcDerivations
from memory_service.domain.abilities import Abilities
from memory_service.domain.clear import clear_deleted
from memory_service.domain.consolidations import Consolidations, Watching
from memory_service.domain.files import Files, Keeping
from memory_service.domain.memories import Memories
from memory_service.domain.model import Address, Room
from memory_service.domain.operate import Operating
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from memory_service.domain.prime import Prime
from memory_service.domain.queries import Queries
from memory_service.domain.recall import Recall
from memory_service.domain.reconcile import Reconciler
from memory_service.domain.records import Records
from memory_service.domain.snapshots import Snapshots
from memory_service.domain.types import Registry, Types
from memory_service.domain.work import BackgroundWork, Backlogs
from memory_service.schema import SCHEMA
from memory_service.settings import Settings
from memory_service.store.guards import WATCH, JobGuards, guard_of
from memory_service.store.postgres import CLEAR, PURGE, PostgresDescriptions
from memory_service.store.queries import PostgresQueries
from memory_service.store.snapshots import PostgresSnapshots
from memory_service.store.types import PostgresTypes
from memory_service.store.types_file import read_types
from memory_service.store.uploads import CHECK, PostgresUploads
from protos.memory.v1.consolidations_pb2_grpc import add_ConsolidationsServicer_to_server
from protos.memory.v1.files_pb2_grpc import add_FilesServicer_to_server
from protos.memory.v1.memory_pb2_grpc import add_MemoriesServicer_to_server, add_RecordsServicer_to_server
from protos.memory.v1.operating_pb2_grpc import add_AbilitiesServicer_to_server, add_JobsServicer_to_server
from protos.memory.v1.queries_pb2_grpc import add_QueriesServicer_to_server
from protos.memory.v1.snapshots_pb2_grpc import add_SnapshotsServicer_to_server
from protos.memory.v1.types_pb2_grpc import add_TypesServicer_to_server
from service_kit.clock import SystemClock
from service_kit.db import migrate
from service_kit.db.pool import connect
from service_kit.jobs import Jobs, Payload, Work
from service_kit.objects.store import tried_objects
from service_kit.rpc.client import ServicePassport, channel
from service_kit.rpc.server import Wiring

_SERVICES: Final = [
    "grovekeeper.memory.v1.Memories",
    "grovekeeper.memory.v1.Records",
    "grovekeeper.memory.v1.Jobs",
    "grovekeeper.memory.v1.Abilities",
    "grovekeeper.memory.v1.Snapshots",
    "grovekeeper.memory.v1.Consolidations",
    "grovekeeper.memory.v1.Files",
    "grovekeeper.memory.v1.Queries",
    "grovekeeper.memory.v1.Types",
]


@asynccontextmanager
async def build(settings: Settings) -> AsyncGenerator[Wiring]:
    """The service, ready to be served."""
    configured = read_types(settings.types_file)
    async with (
        connect(settings, "memory") as database,
        channel(settings.authz_address, settings, safe=(*AUTHZ_SAFE, *HOLDS_SAFE)) as authz,
        channel(
            settings.provider_address,
            settings,
            safe=(*PROVIDER_SAFE, *QUERIES_SAFE, *WORK_SAFE, *FILES_SAFE, *RUNS_SAFE),
        ) as providers,
    ):
        clock = SystemClock()
        as_service = ServicePassport(authz, settings.token()).as_service
        jobs = Jobs("memory", settings, identity=as_service)
        access, provider = AuthzTree(authz), GrpcProvider(providers)
        descriptions = PostgresDescriptions(database, jobs)
        keeping = Keeping(
            PostgresUploads(database, jobs),
            await tried_objects(settings, "uploads"),
            settings.file_limit_bytes,
            timedelta(hours=settings.files_keep_hours),
            Room(settings.files_room_count, settings.files_room_bytes),
        )
        files = Files(access, descriptions, provider, GrpcProviderFiles(providers), keeping, clock)
        jobs.task(PURGE, _purger(provider, files))
        jobs.task(CHECK, _checker(files))
        if keeping.objects is not None:
            jobs.periodic("uploads", files.sweep, every_s=settings.memory_reconcile_s)
        reconciler = Reconciler(access, descriptions, clock)
        jobs.task(CLEAR, _clearer(access, descriptions), CLEAR)
        jobs.periodic("reconcile", reconciler.run, every_s=settings.memory_reconcile_s)
        memories = Memories(access, descriptions, provider, clock, settings.memory_default_provider)
        kept = PostgresTypes(database)
        registry = Registry(provider, kept, configured)
        types = TypesServicer(Types(registry, kept), Operating(access, descriptions, provider, registry))
        nodes = MemoriesServicer(memories, Prime(access, descriptions, provider), clock)
        records = RecordsServicer(
            Records(access, descriptions, provider, AuthzActs(authz), files, registry),
            Recall(access, descriptions, provider),
        )
        snapshots = SnapshotsServicer(Snapshots(access, descriptions, provider, PostgresSnapshots(database)))
        runs = GrpcRuns(providers)
        watching = Watching(runs, AuthzHolds(authz, as_service), JobGuards(database, jobs), clock)
        consolidations = Consolidations(access, descriptions, provider, runs, watching)
        jobs.task(WATCH, _watcher(watching))
        jobs.periodic("consolidate", consolidations.start_due, every_s=settings.memory_consolidate_s)

        named = PostgresQueries(database)
        abilities = AbilitiesServicer(Abilities(access, descriptions, provider, named, registry))
        queries = QueriesServicer(
            Queries(access, descriptions, provider, GrpcQueries(providers), named, clock)
        )

        async def ready() -> bool:
            return await migrate.current(database, SCHEMA)

        derivations = GrpcDerivations(providers)
        work = JobsServicer(
            BackgroundWork(derivations, AuthzActs(authz)), Backlogs(access, descriptions, derivations)
        )

        yield Wiring(
            servicers=[
                lambda server: add_MemoriesServicer_to_server(nodes, server),
                lambda server: add_RecordsServicer_to_server(records, server),
                lambda server: add_JobsServicer_to_server(work, server),
                lambda server: add_AbilitiesServicer_to_server(abilities, server),
                lambda server: add_SnapshotsServicer_to_server(snapshots, server),
                lambda server: add_ConsolidationsServicer_to_server(
                    ConsolidationsServicer(consolidations), server
                ),
                lambda server: add_FilesServicer_to_server(FilesServicer(files), server),
                lambda server: add_QueriesServicer_to_server(queries, server),
                lambda server: add_TypesServicer_to_server(types, server),
            ],
            service_names=_SERVICES,
            background=[jobs.work],
            ready=ready,
        )


def _clearer(access: AccessTree, descriptions: Descriptions) -> Work:
    async def clear(_: Payload) -> None:
        """Clears what was deleted. Safe to run again."""
        await clear_deleted(access, descriptions)

    return clear


def _watcher(watching: Watching) -> Work:
    async def watch(payload: Payload) -> None:
        """Keeps a memory's place while a run of it goes on. Safe to run again."""
        await watching.look(guard_of(payload))

    return watch


def _checker(files: Files) -> Work:
    async def check(payload: Payload) -> None:
        """Removes uploads that a memory keeps no more. Safe to run again."""
        await files.check(Address(payload["provider"], payload["memory_id"]))

    return check


def _purger(provider: Provider, files: Files) -> Work:
    async def purge(payload: Payload) -> None:
        """Removes the records of deleted memories, and what was uploaded for them. Safe to run again."""
        for memory_id in payload["memory_ids"]:
            address = Address(payload["provider"], memory_id)
            await provider.purge(address)
            await files.forget(address)

    return purge
