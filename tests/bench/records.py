"""Memories full of records: a Postgres of their own and a native provider on it, in this process.

The rows are written by SQL, in the shape the provider writes them. Each says something common and ten words of
20,000, of which a few are frequent and most are rare. Their vectors are taken in turns from a pool of random ones: an
exact search takes as long, whatever they are.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from provider_workers.adapters.native.adapter import NativeProvider, Options
from provider_workers.adapters.native.embedding.files import default_model_dir
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from provider_workers.settings import Settings
from service_kit.db.pool import connect
from service_kit.jobs import Jobs
from tests.fixtures.parts import embedded_postgres

__all__ = ["Filled", "Heap", "fill", "filled", "memory_id", "record_id"]

_PASSWORD: Final = "bench"
_POOL: Final = 1_000

_VECTORS: Final[LiteralString] = """
    create unlogged table if not exists pool as
    select n, (select array_agg(random() - 0.5 + 0 * n + 0 * s) from generate_series(1, 384) s)::halfvec as vector
    from generate_series(0, 999) n
"""
_RECORDS: Final[LiteralString] = """
    insert into record (memory_id, record_id, created_at)
    select memory, 'hrec_' || lpad(to_hex(n), 32, '0'), at from made
"""
_VERSIONS: Final[LiteralString] = """
    insert into version (memory_id, record_id, version, type, content, attributes, attributes_json, refs, prefix,
        text, words, digest, valid_from, valid_to, created_at, written_at, invalidated_at, status, supersedes,
        writer_kind, writer_id, derived, size)
    select memory, 'hrec_' || lpad(to_hex(n), 32, '0'), v, 'fact',
        convert_to(format('[{"type":"text","text":"%s"}]', said), 'UTF8'),
        convert_to(format('{"account":"a%s","amount":%s}', n % 97, n), 'UTF8'),
        jsonb_build_object('account', 'a' || n % 97, 'amount', n), convert_to('[]', 'UTF8'), '', said,
        words_of(said, ''), sha256(convert_to(said, 'UTF8')), null, null, at, at + (v - 1) * interval '1 minute',
        case when v < versions then at + v * interval '1 minute' end,
        case when v < versions then 'superseded' else 'active' end, '', 'person', 'bench', false, length(said) + 60
    from (select made.*, v, format('%s prefers %s on day %s of version %s',
            (array['Alice', 'Bob', 'Carol', 'Dan', 'Eve'])[1 + n % 5],
            (array['tea', 'the train to Oslo', 'early meetings', 'the blue design', 'quiet offices', 'old maps',
                   'rye bread'])[1 + n % 7], n, v) || (
                select string_agg(' term' || floor(exp(random() * ln(20000)))::int, '')
                from generate_series(1, 10) s where s > 0 * n + 0 * v) as said
          from made, generate_series(1, versions) v) said
"""
_EMBEDDINGS: Final[LiteralString] = """
    insert into embedding (memory_id, record_id, version, generation, dimension, invalidated_at, vector)
    select version.memory_id, version.record_id, version.version, %(generation)s, 384, version.invalidated_at, pool.vector
    from version join pool on pool.n = hashtext(version.record_id) & 511
    where version.memory_id like %(like)s
"""


@dataclass(frozen=True, slots=True)
class Heap:
    """``memories`` memories named by ``letter``, each with ``records``; one record in ten has three versions."""

    letter: str
    memories: int
    records: int


@dataclass(frozen=True, slots=True)
class Filled:
    """The provider, and a bare connection to what it keeps."""

    provider: NativeProvider
    bare: psycopg.AsyncConnection[tuple[object, ...]]
    generation: str


def memory_id(heap: Heap, number: int = 0) -> str:
    """The id of a heap's memory."""
    return f"hmem_{heap.letter}{number:031x}"


def record_id(number: int) -> str:
    """The id of a heap's record; numbers run through all its memories."""
    return f"hrec_{number:032x}"


@asynccontextmanager
async def filled(heaps: Sequence[Heap]) -> AsyncGenerator[Filled]:
    """The heaps, for the length of the block."""
    async with AsyncExitStack() as stack:
        owner = stack.enter_context(embedded_postgres())
        await _migrate(owner)
        embedder = LocalEmbedder(default_model_dir())
        await embedder.warm()
        stack.push_async_callback(embedder.aclose)
        await asyncio.to_thread(fill, owner, heaps, embedder.generation)
        settings = Settings(
            database_url=SecretStr(make_conninfo(owner, user="grove_provider", password=_PASSWORD))
        )
        database = await stack.enter_async_context(connect(settings, "provider"))
        provider = NativeProvider(database, embedder, Jobs("provider", settings), Options())
        bare = await psycopg.AsyncConnection.connect(settings.dsn(), autocommit=True)
        stack.push_async_callback(bare.close)
        yield Filled(provider, bare, embedder.generation)


def fill(owner: str, heaps: Sequence[Heap], generation: str) -> None:
    """Write the heaps, in the database its owner reaches."""
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("set search_path = provider, extensions")
        connection.execute("set synchronous_commit = off")
        connection.execute("set statement_timeout = 0")
        connection.execute(_VECTORS)
        for heap in heaps:
            connection.execute(
                "create temporary table made as select 'hmem_' || %s || lpad(to_hex(n / %s), 31, '0') as memory, n,"
                " timestamptz '2026-01-01' + n * interval '1 second' as at,"
                " case when n %% 10 = 0 then 3 else 1 end as versions from generate_series(0, %s) n",
                (heap.letter, heap.records, heap.memories * heap.records - 1),
            )
            connection.execute(_RECORDS)
            connection.execute(_VERSIONS)
            connection.execute(_EMBEDDINGS, {"generation": generation, "like": f"hmem_{heap.letter}%"})
            connection.execute("drop table made")
        connection.execute("vacuum analyze record")
        connection.execute("vacuum analyze version")
        connection.execute("vacuum analyze embedding")


async def _migrate(owner: str) -> None:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("GROVE_", "OTEL_"))
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "provider_workers",
        "migrate",
        env={**inherited, "GROVE_DATABASE_URL": owner, "GROVE_ROLE_PASSWORD": _PASSWORD},
        stderr=asyncio.subprocess.DEVNULL,
    )
    if await process.wait():
        raise RuntimeError("the schema of the provider could not be made")
