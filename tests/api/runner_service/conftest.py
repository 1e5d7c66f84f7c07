from collections.abc import AsyncGenerator, Callable

import pytest

from tests.api.runner_service.cluster import Keys, Runner, make_keys, runner, runner_settings
from tests.fixtures.model_stub import ModelStub, model_stub


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
async def stub() -> AsyncGenerator[ModelStub]:
    """A model's endpoint."""
    async with model_stub() as made:
        yield made


@pytest.fixture
async def alone(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str
) -> AsyncGenerator[Runner]:
    """A runner without any other service: enough for whatever has no memory. Acts as alice."""
    settings = runner_settings(service_database("runner"), clean_redis, keys)
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            yield made


@pytest.fixture
async def looped(
    keys: Keys, service_database: Callable[[str], str], clean_redis: str, stub: ModelStub
) -> AsyncGenerator[Runner]:
    """The same with a model: the loop base speaks to ``stub``."""
    settings = runner_settings(
        service_database("runner"),
        clean_redis,
        keys,
        model_base_url=stub.url,
        model_name="stub-1",
        model_api_key="sk-secret-of-the-endpoint",
    )
    async with runner(settings, keys) as made:
        with made.act_as("person:alice"):
            yield made
