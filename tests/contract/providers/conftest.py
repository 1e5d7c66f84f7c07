"""Every provider that is connected, each put before the same suite."""

from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.chat import ChatModel
from provider_workers.adapters.native.derivation import Derive, derive
from provider_workers.adapters.native.embedding.build_model import build_model
from provider_workers.adapters.native.embedding.embedder import Embedder
from provider_workers.adapters.native.embedding.files import default_model_dir
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from provider_workers.settings import Settings
from service_kit.db.pool import Database, connect
from service_kit.jobs import Jobs
from service_kit.objects.store import Objects, open_objects
from service_kit.settings import ObjectSettings
from tests.contract.providers.subject import Subject
from tests.fixtures.embeddings import Endpoint, serving


@pytest.fixture(scope="session")
def encoder() -> Generator[LocalEmbedder]:
    """The embedded model, loaded once for all tests."""
    directory = default_model_dir()
    build_model(directory, Path.home() / ".cache" / "grovekeeper", lambda _line: None)
    embedder = LocalEmbedder(directory)
    yield embedder
    embedder._executor.shutdown()


@pytest.fixture
def provider_settings(service_database: Callable[[str], str]) -> Settings:
    """Settings of a provider process on a database of its own."""
    return Settings(database_url=SecretStr(service_database("provider")), jobs_backoff_s=0.01)


@pytest_asyncio.fixture
async def database(provider_settings: Settings) -> AsyncGenerator[Database]:
    """That database."""
    async with connect(provider_settings, "provider") as opened:
        yield opened


@pytest_asyncio.fixture
async def endpoint() -> AsyncGenerator[Endpoint]:
    """An embeddings endpoint over HTTP."""
    async with serving() as made:
        yield made


class Bench:
    """Puts native providers together from parts of the test's choice."""

    def __init__(self, database: Database, settings: Settings, encoder: Embedder, objects: Objects) -> None:
        self._database = database
        self._settings = settings
        self.encoder = encoder
        self.objects = objects

    def native(
        self,
        *,
        embedder: Embedder | None = None,
        options: Options | None = None,
        derived_by: Derive | ChatModel = derive,
    ) -> Subject:
        """A native provider and its worker."""
        jobs = Jobs("provider", self._settings)
        adapter = NativeProvider(
            self._database,
            embedder or self.encoder,
            jobs,
            options or Options(objects=self.objects),
            derived_by,
        )
        return Subject(adapter, jobs.run_pending)


@pytest_asyncio.fixture
async def bench(
    database: Database, provider_settings: Settings, encoder: LocalEmbedder, tmp_path: Path
) -> Bench:
    objects = open_objects(ObjectSettings(object_store_url=tmp_path.as_uri()), "kept")
    assert objects is not None
    return Bench(database, provider_settings, encoder, objects)


@pytest.fixture(params=["native"])
def subject(request: pytest.FixtureRequest, bench: Bench) -> Subject:
    """The provider under test, one after the other."""
    makers: dict[str, Callable[[], Subject]] = {"native": bench.native}
    return makers[request.param]()
