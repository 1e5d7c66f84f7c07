"""What a process of provider_workers needs before it serves, and how it says what is missing."""

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from provider_workers.domain import errors
from provider_workers.main import build
from provider_workers.registry import Registry
from provider_workers.schema import SCHEMA
from provider_workers.settings import Settings
from service_kit.db import migrate
from service_kit.errors import GroveError
from service_kit.settings import SettingsError
from tests.fixtures.databases import Databases

NOWHERE = SecretStr("postgresql://nobody@127.0.0.1:1/nothing")


async def refused(settings: Settings) -> str:
    with pytest.raises(SettingsError) as error:
        async with build(settings):
            pass
    return str(error.value)


async def test_a_model_that_was_not_built_is_one_sentence_that_says_what_to_run(tmp_path: Path):
    said = await refused(Settings(database_url=NOWHERE, embedding_model_dir=tmp_path))
    assert "build it with `python -m provider_workers.adapters.native.embedding.build_model`" in said


async def test_an_endpoint_without_its_model_is_refused_by_the_names_of_its_settings():
    said = await refused(Settings(database_url=NOWHERE, embedding_base_url="http://127.0.0.1:1/v1"))
    assert "GROVE_EMBEDDING_MODEL" in said
    assert "GROVE_EMBEDDING_DIMENSIONS" in said


async def test_deriving_with_a_model_needs_one_by_the_names_of_its_settings():
    said = await refused(
        Settings(
            database_url=NOWHERE,
            native_derivation="model",
            embedding_base_url="http://127.0.0.1:1/v1",
            embedding_model="some",
            embedding_dimensions=256,
        )
    )
    assert "GROVE_DERIVATION_BASE_URL" in said
    assert "GROVE_DERIVATION_MODEL" in said


async def test_with_an_endpoint_no_model_is_needed_and_without_a_database_it_is_not_ready(tmp_path: Path):
    settings = Settings(
        database_url=NOWHERE,
        embedding_base_url="http://127.0.0.1:1/v1",
        embedding_model="some",
        embedding_dimensions=256,
        embedding_api_key=SecretStr("key"),
        embedding_model_dir=tmp_path,
        db_pool_wait_s=0.2,
    )
    async with build(settings) as wiring:
        assert not await wiring.ready()
        assert "grovekeeper.provider.v1.Provider" in wiring.service_names


async def test_a_provider_that_is_not_connected_is_said_to_be_so():
    with pytest.raises(GroveError) as error:
        Registry([]).adapter("graph")
    assert (error.value.code, error.value.message) == (
        "memory_unavailable",
        errors.not_connected("graph").message,
    )


@pytest.mark.parametrize(("extensions", "indexed"), [(("btree_gin",), "(memory_id, words)"), ((), "(words)")])
async def test_words_are_indexed_by_memory_where_the_server_can(
    databases: Databases, extensions: tuple[str, ...], indexed: str
):
    databases.service("provider")  # makes the login role, which belongs to the whole server
    with databases.fresh() as owner:
        await migrate.run(owner, replace(SCHEMA, optional_extensions=extensions))
        with psycopg.connect(owner) as connection:
            row = connection.execute(
                "select indexdef from pg_indexes where schemaname = 'provider' and indexname = 'version_words'"
            ).fetchone()
    assert row is not None
    assert indexed in row[0]
