"""What an agent can be offered on some memories beyond records (Memories, section 9.1): queries and operations."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from memory_service.domain import errors
from memory_service.domain.model import Capabilities, Privilege
from memory_service.domain.ports import AccessTree, Descriptions, Provider

__all__ = [
    "MAX_MEMORIES",
    "Abilities",
    "Ability",
    "ListedQueries",
    "Listing",
    "OperableTypes",
    "RunnableQuery",
]

MAX_MEMORIES: Final = 1_000
"""Most memories that are asked about at once."""
MAX_QUERIES: Final = 1_000
"""Most named queries in one answer, of all memories together."""


class RunnableQuery(Protocol):
    """What is looked at of a named query here; the rest is carried."""

    @property
    def requires(self) -> Privilege:
        """The privilege a run needs."""
        ...


class ListedQueries(Protocol):
    """Where named queries are kept."""

    async def of_memories(
        self, memory_ids: Sequence[str], most: int
    ) -> Mapping[str, Sequence[RunnableQuery]]:
        """The named queries of these memories, by name; ``most`` of them all together."""
        ...


class OperableTypes(Protocol):
    """The registry of types."""

    async def operable(self) -> Sequence[object]:
        """Descriptions of the types that have operations, carried and never looked into."""
        ...


@dataclass(frozen=True, slots=True)
class Ability:
    """What one memory allows the caller. ``query_schema`` says in words what a free query can name."""

    memory_id: str
    provider: str
    queries: tuple[RunnableQuery, ...]
    free_query_languages: tuple[str, ...]
    query_schema: str
    types: bool
    outside: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """Abilities of the memories the caller may read or, as far as that goes, write; types only where one of them carries out operations."""

    abilities: tuple[Ability, ...]
    types: tuple[object, ...]


class Abilities:
    """The use case."""

    def __init__(
        self,
        access: AccessTree,
        descriptions: Descriptions,
        provider: Provider,
        queries: ListedQueries,
        types: OperableTypes,
    ) -> None:
        self._access = access
        self._descriptions = descriptions
        self._provider = provider
        self._queries = queries
        self._types = types

    async def list(self, memory_ids: Sequence[str]) -> Listing:
        """In the order they are asked for. ``invalid_input`` for more than ``MAX_MEMORIES``."""
        asked = list(dict.fromkeys(memory_ids))
        if len(asked) > MAX_MEMORIES:
            raise errors.invalid(f"At most {MAX_MEMORIES} memories are asked about at once.", "memory_ids")
        if not asked:
            return Listing((), ())
        readable, writable = await asyncio.gather(
            self._access.check_many(asked, Privilege.READ), self._access.check_many(asked, Privilege.WRITE)
        )
        placed = await self._descriptions.get([one for one in asked if one in readable | writable])
        declared = {one.id: one for one in await self._provider.describe()}
        known = {
            memory_id: declared[placed[memory_id].provider]
            for memory_id in asked
            if memory_id in placed and placed[memory_id].provider in declared
        }
        queries = await self._runnable({one: known[one] for one in known if one in readable}, writable)
        found = tuple(
            _ability(memory_id, one, queries.get(memory_id, ()))
            if memory_id in readable
            else Ability(memory_id, one.id, (), (), "", types=False, outside=one.outside)
            for memory_id, one in known.items()
        )
        types = await self._types.operable() if any(one.types for one in found) else ()
        return Listing(found, tuple(types))

    async def _runnable(
        self, known: Mapping[str, Capabilities], writable: frozenset[str]
    ) -> dict[str, tuple[RunnableQuery, ...]]:
        """Those the caller may run: one that requires write only where it may write."""
        listing = [memory_id for memory_id, one in known.items() if one.named_query_languages]
        if not listing:
            return {}
        kept = await self._queries.of_memories(listing, MAX_QUERIES)
        return {
            memory_id: tuple(
                one for one in queries if one.requires is not Privilege.WRITE or memory_id in writable
            )
            for memory_id, queries in kept.items()
        }


def _ability(memory_id: str, declared: Capabilities, queries: tuple[RunnableQuery, ...]) -> Ability:
    return Ability(
        memory_id,
        declared.id,
        queries,
        declared.free_query_languages,
        declared.query_schema,
        declared.types,
        declared.outside,
    )
