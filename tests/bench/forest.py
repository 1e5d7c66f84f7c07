"""A tree of memories full of records below one memory of the running product: planted by SQL, asked over HTTP."""

import asyncio
from collections.abc import Sequence
from typing import Final, LiteralString

import psycopg

from provider_workers.adapters.native.embedding.files import default_model_dir
from provider_workers.adapters.native.embedding.local import LocalEmbedder
from tests.bench.bench import Bench
from tests.bench.records import Heap, fill, memory_id

__all__ = ["plant"]

_BRANCHES: Final = 100

_STATEMENTS: Final[tuple[LiteralString, ...]] = (
    # A hundred below the root and the others below those, so that the tree has more than one level.
    """
    insert into node (id, parent_id, creator, created_at)
    select id, case when n <= %(branches)s then %(root)s else (%(ids)s::text[])[1 + n %% %(branches)s] end, %(who)s, now()
    from unnest(%(ids)s::text[]) with ordinality made (id, n) order by n
    """,
    """
    insert into memory (id, name, description, provider, created_at, updated_at)
    select id, 'Memory', '', 'native', now(), now() from unnest(%(ids)s::text[]) made (id)
    """,
)


async def plant(bench: Bench, root: str, who: str, heaps: Sequence[Heap]) -> None:
    """The memories of ``heaps`` with their records, below ``root`` and created by ``who``."""
    await asyncio.to_thread(_plant, bench.product.database_url, root, who, heaps)


def _plant(owner: str, root: str, who: str, heaps: Sequence[Heap]) -> None:
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("set search_path = authz, memory")
        for heap in heaps:
            ids = [memory_id(heap, number) for number in range(heap.memories)]
            for statement in _STATEMENTS:
                connection.execute(statement, {"ids": ids, "root": root, "who": who, "branches": _BRANCHES})
        connection.execute("vacuum analyze node")
        connection.execute("vacuum analyze memory")
    fill(owner, heaps, LocalEmbedder(default_model_dir()).generation)
