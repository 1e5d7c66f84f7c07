"""The composition root: settings, then pool, then adapters, then operations, then the servicer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

import grpc

from protos.provider.v1.consolidations_pb2_grpc import add_ConsolidationsServicer_to_server
from protos.provider.v1.files_pb2_grpc import add_FilesServicer_to_server
from protos.provider.v1.jobs_pb2_grpc import add_JobsServicer_to_server
from protos.provider.v1.provider_pb2_grpc import add_ProviderServicer_to_server
from protos.provider.v1.queries_pb2_grpc import add_QueriesServicer_to_server, add_SnapshotsServicer_to_server
from protos.provider.v1.types_pb2_grpc import add_TypesServicer_to_server
from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.capabilities import NAME
from provider_workers.adapters.native.chat import ChatEndpoint, ChatModel
from provider_workers.adapters.native.consolidation.due import When
from provider_workers.adapters.native.consolidation.keeper import Tidy
from provider_workers.adapters.native.derivation import Derive, derive
from provider_workers.adapters.native.embedding.embedder import Embedder, Endpoint, make_embedder
from provider_workers.adapters.native.embedding.files import ModelFilesError
from provider_workers.adapters.native.querying import Querying
from provider_workers.api.consolidations import ConsolidationsServicer
from provider_workers.api.files import FilesServicer
from provider_workers.api.queries import QueriesServicer
from provider_workers.api.servicer import ProviderServicer
from provider_workers.api.snapshots import SnapshotsServicer
from provider_workers.api.types import TypesServicer
from provider_workers.api.work import JobsServicer
from provider_workers.container.container import Container, Limits
from provider_workers.domain.consolidations import Consolidations
from provider_workers.domain.operations import Operations
from provider_workers.domain.queries import Queries
from provider_workers.domain.work import BackgroundWork
from provider_workers.registry import DEFAULT_PROVIDER, Registry
from provider_workers.schema import SCHEMA
from provider_workers.settings import Settings, named
from service_kit.db import migrate
from service_kit.db.pool import connect
from service_kit.jobs import Jobs
from service_kit.objects.store import Objects, tried_objects
from service_kit.rpc.server import Wiring
from service_kit.settings import SettingsError

_SERVICES: Final = [
    "grovekeeper.provider.v1.Provider",
    "grovekeeper.provider.v1.Files",
    "grovekeeper.provider.v1.Jobs",
    "grovekeeper.provider.v1.Snapshots",
    "grovekeeper.provider.v1.Queries",
    "grovekeeper.provider.v1.Types",
    "grovekeeper.provider.v1.Consolidations",
]


@asynccontextmanager
async def build(settings: Settings) -> AsyncGenerator[Wiring]:
    """The service, ready to be served."""
    async with (
        connect(settings, "provider") as database,
        _embedder(settings) as embedder,
        _deriver(settings) as deriver,
        aclosing(Container(_limits(settings))) as container,
    ):
        jobs = Jobs("provider", settings)
        native = NativeProvider(
            database, embedder, jobs, _options(settings, await tried_objects(settings, "kept")), deriver
        )
        registry, work = Registry([native]), JobsServicer(BackgroundWork({NAME: native.work}))
        operations = Operations(registry)
        servicer, snapshots = ProviderServicer(operations, DEFAULT_PROVIDER), SnapshotsServicer(operations)
        files = FilesServicer(operations)
        querying = Querying(
            database,
            container,
            native.capabilities,
            rows=settings.query_read_rows,
            bytes_read=settings.query_read_bytes,
        )
        consolidations = ConsolidationsServicer(Consolidations({NAME: native.consolidation}))
        queries = QueriesServicer(Queries({NAME: querying}))

        async def ready() -> bool:
            return await migrate.current(database, SCHEMA)

        def register(server: grpc.aio.Server) -> None:
            add_ProviderServicer_to_server(servicer, server)
            add_JobsServicer_to_server(work, server)
            add_SnapshotsServicer_to_server(snapshots, server)
            add_FilesServicer_to_server(files, server)
            add_QueriesServicer_to_server(queries, server)
            add_ConsolidationsServicer_to_server(consolidations, server)
            add_TypesServicer_to_server(TypesServicer(operations), server)

        yield Wiring(
            servicers=[register],
            service_names=_SERVICES,
            background=[jobs.work, native.generations.watch, native.lateness.watch],
            ready=ready,
        )


@asynccontextmanager
async def _embedder(settings: Settings) -> AsyncGenerator[Embedder]:
    """The embeddings endpoint when one is set, else the embedded encoder, loaded."""
    embedder = make_embedder(
        endpoint=_endpoint(settings),
        model_dir=settings.embedding_model_dir,
        threads=settings.native_embed_threads,
    )
    try:
        await embedder.warm()
        yield embedder
    except ModelFilesError as error:
        raise SettingsError(str(error)) from error
    finally:
        await embedder.aclose()


@asynccontextmanager
async def _deriver(settings: Settings) -> AsyncGenerator[Derive | ChatModel]:
    """The model that derives facts when that is asked for, else the rules."""
    if settings.native_derivation != "model":
        yield derive
        return
    if settings.derivation_base_url is None or settings.derivation_model is None:
        raise SettingsError(
            "GROVE_NATIVE_DERIVATION=model also needs GROVE_DERIVATION_BASE_URL and GROVE_DERIVATION_MODEL"
        )
    key = settings.derivation_api_key
    async with aclosing(
        ChatModel(
            ChatEndpoint(
                settings.derivation_base_url,
                settings.derivation_model,
                None if key is None else key.get_secret_value(),
            )
        )
    ) as model:
        yield model


def _endpoint(settings: Settings) -> Endpoint | None:
    if settings.embedding_base_url is None:
        return None
    if settings.embedding_model is None or settings.embedding_dimensions is None:
        raise SettingsError(
            "GROVE_EMBEDDING_BASE_URL also needs GROVE_EMBEDDING_MODEL and GROVE_EMBEDDING_DIMENSIONS"
        )
    key = settings.embedding_api_key
    return Endpoint(
        settings.embedding_base_url,
        settings.embedding_model,
        settings.embedding_dimensions,
        None if key is None else key.get_secret_value(),
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        running=settings.query_concurrency,
        query_s=settings.query_timeout_s,
        rows=settings.query_rows,
        bytes=settings.query_bytes,
        heap_bytes=settings.query_heap_bytes,
    )


def _options(settings: Settings, objects: Objects | None) -> Options:
    return Options(
        derivation=settings.native_derivation,
        derivation_tokens_per_day=settings.native_derivation_tokens_per_day,
        language=settings.native_language,
        embed_timeout_s=settings.native_embed_timeout_s,
        sweep_s=settings.native_sweep_s,
        model_given_up_s=settings.native_model_given_up_s,
        prime_tokens=settings.native_prime_tokens,
        abstain_below=settings.native_abstain_below,
        without_signals=named(settings.native_without_signals),
        keep_jobs_days=settings.native_keep_jobs_days,
        keep_keys_hours=settings.native_keep_keys_hours,
        answer_bytes=settings.rpc_max_message_bytes // 2,
        objects=objects,
        file_limit_bytes=settings.file_limit_bytes,
        extract_max_bytes=settings.native_extract_max_bytes,
        extract_timeout_s=settings.native_extract_timeout_s,
        tidy=Tidy(
            similarity=settings.native_consolidate_similarity,
            seconds=settings.native_consolidate_seconds,
            summary_episodes=settings.native_consolidate_summary_episodes,
            when=When(
                every_h=settings.native_consolidate_every_h,
                idle_min=settings.native_consolidate_idle_min,
                idle_episodes=settings.native_consolidate_idle_episodes,
                at_once=settings.native_consolidate_at_once,
            ),
        ),
    )
