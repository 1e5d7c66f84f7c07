"""Named and free queries of one memory (Memories, sections 6.4 and 6.5)."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

import msgspec

from memory_service.domain import errors
from memory_service.domain.describe import Describer
from memory_service.domain.keyed import Keyed
from memory_service.domain.model import Address, Node, Page, Place, Privilege, Record, Writer
from memory_service.domain.place import Placing, capabilities_of
from memory_service.domain.ports import AccessTree, Descriptions, KeyedTransaction, Provider
from memory_service.domain.records import writer
from memory_service.domain.references import References
from memory_service.domain.walk import Walk
from service_kit.clock import Clock
from service_kit.idempotency import Idempotency
from service_kit.json_schema import json_schema

__all__ = [
    "Answer",
    "Asked",
    "NamedQueries",
    "NamedQuery",
    "Queries",
    "QueryPage",
    "QueryTransaction",
    "Runs",
]

MAX_QUERIES: Final = 200
"""Named queries of one memory."""
MAX_DESCRIPTION: Final = 1_000
MAX_BODY: Final = 64 * 1024
"""Longest body or statement, in UTF-8 bytes."""
MAX_PARAMS: Final = 64 * 1024
"""Longest params of one run, in bytes."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_REFERENCES: Final = re.compile("references", re.IGNORECASE)
_BATCH: Final = 1_000
_PUT: Final = "put_query"
_DELETE: Final = "delete_query"
_ANY_PARAMS: Final = b'{"type":"object"}'

_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """What the owner of a memory defined. ``params`` is a JSON Schema, byte for byte as written."""

    name: str
    description: str
    params: bytes
    requires: Privilege
    language: str
    body: str
    updated_at: datetime
    written_by: Writer


_answers: Final = msgspec.json.Decoder(NamedQuery)


@dataclass(frozen=True, slots=True)
class QueryPage:
    """Queries by name; ``next_cursor`` is empty on the last page."""

    queries: tuple[NamedQuery, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A statement for a provider. ``readable``: other memories whose references the caller may follow."""

    language: str
    statement: str
    params: bytes = b""
    readable: tuple[str, ...] = ()
    absent_is_null: bool = False
    check: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Records, with where the caller can go from here, or rows as JSON arrays beside their columns."""

    records: tuple[Record, ...] | None
    columns: tuple[str, ...]
    rows: tuple[bytes, ...]
    degraded: tuple[str, ...]
    parent: Place | None = None
    children: tuple[Place, ...] = ()


class QueryTransaction(KeyedTransaction, Protocol):
    """One transaction on the named queries."""

    async def put(self, memory_id: str, query: NamedQuery, most: int) -> bool:
        """Stores or replaces; False when there are ``most`` others. ``memory_not_found`` when it is gone."""
        ...

    async def remove(self, memory_id: str, name: str) -> NamedQuery | None:
        """Removes one; answers it as it was."""
        ...


class NamedQueries(Protocol):
    """Where named queries are kept."""

    def begin(self) -> AbstractAsyncContextManager[QueryTransaction]:
        """A transaction, committed when the block ends without an error."""
        ...

    async def one(self, memory_id: str, name: str) -> NamedQuery | None:
        """One by its name."""
        ...

    async def page(self, memory_id: str, page: Page) -> QueryPage:
        """By name."""
        ...


class Runs(Protocol):
    """The connected providers that declare queries."""

    async def query(self, address: Address, asked: Asked) -> Answer:
        """Runs a statement. ``memory_invalid``, ``memory_unsupported``, ``memory_unavailable``."""
        ...

    async def referenced(self, address: Address) -> tuple[str, ...]:
        """Other memories that references of this memory's records name."""
        ...


class Queries:
    """The use cases."""

    def __init__(
        self,
        access: AccessTree,
        descriptions: Descriptions,
        provider: Provider,
        runs: Runs,
        kept: NamedQueries,
        clock: Clock,
    ) -> None:
        self._access = access
        self._placing = Placing(access, descriptions)
        self._provider = provider
        self._runs = runs
        self._kept = kept
        self._clock = clock
        self._references = References(access, descriptions, provider)
        self._walk = Walk(access, Describer(access, descriptions, provider))

    async def list(self, memory_id: str, page: Page) -> QueryPage:
        """Named queries by name. Whoever may read or write sees them."""
        await self._seen(memory_id)
        return await self._kept.page(memory_id, page)

    async def put(self, memory_id: str, stated: NamedQuery, idempotency: Idempotency) -> NamedQuery:
        """Defines or replaces. Needs ``write``. Name, schema, language and statement are checked now, not when it runs."""
        address, _ = await self._placing.address(memory_id, Privilege.WRITE)
        _check(stated)
        declared = await capabilities_of(self._provider, address.provider)
        if not declared.named_query_languages:
            raise errors.unsupported("named queries")
        if stated.language not in declared.named_query_languages:
            raise errors.unsupported_language(declared.named_query_languages)
        if not stated.params:
            stated = replace(stated, params=_ANY_PARAMS)
        json_schema(stated.params, "params")
        with errors.naming("body"):
            await self._runs.query(
                address, Asked(language=stated.language, statement=stated.body, check=True)
            )
        query = replace(stated, updated_at=self._clock.now(), written_by=writer())
        key = Keyed.of(_PUT, idempotency)
        async with self._kept.begin() as tx:
            done = await tx.claim(key)
            if done is None:
                if not await tx.put(memory_id, query, MAX_QUERIES):
                    raise errors.memory_invalid(f"A memory has at most {MAX_QUERIES} named queries.", "name")
                done = await tx.settle(key, _encoder.encode(query), memory_id)
        return _answers.decode(done)

    async def delete(self, memory_id: str, name: str, idempotency: Idempotency) -> NamedQuery:
        """Removes one and answers it as it was. Needs ``write``."""
        await self._placing.address(memory_id, Privilege.WRITE)
        key = Keyed.of(_DELETE, idempotency)
        async with self._kept.begin() as tx:
            done = await tx.claim(key)
            if done is None:
                query = await tx.remove(memory_id, name)
                if query is None:
                    raise errors.query_not_found()
                done = await tx.settle(key, _encoder.encode(query), memory_id)
        return _answers.decode(done)

    async def run(self, memory_id: str, name: str, params: bytes) -> Answer:
        """Runs a named query. Needs ``read``, and ``write`` too where it says so."""
        address, node = await self._placing.address(memory_id, Privilege.READ)
        query = await self._kept.one(memory_id, name)
        if query is None:
            raise errors.query_not_found()
        if query.requires is Privilege.WRITE and not node.permits(Privilege.WRITE):
            await self._access.check(memory_id, Privilege.WRITE)
        _check_params(params)
        json_schema(query.params, "params").check(params or b"{}", "params")
        asked = Asked(language=query.language, statement=query.body, params=params, absent_is_null=True)
        return await self._run(address, node, asked)

    async def free(self, memory_id: str, language: str, statement: str, params: bytes) -> Answer:
        """Runs a statement of the caller's own. Needs ``read``."""
        address, node = await self._placing.address(memory_id, Privilege.READ)
        declared = (await capabilities_of(self._provider, address.provider)).free_query_languages
        if not declared:
            raise errors.unsupported("free queries")
        if language not in declared:
            raise errors.unsupported_language(declared)
        _check_statement(statement, "statement")
        _check_params(params)
        return await self._run(address, node, Asked(language=language, statement=statement, params=params))

    async def _run(self, address: Address, node: Node, asked: Asked) -> Answer:
        if _REFERENCES.search(asked.statement):
            asked = replace(asked, readable=await self._readable(await self._runs.referenced(address)))
        answer = await self._runs.query(address, asked)
        if answer.records is None:
            return answer
        records, walk = await asyncio.gather(
            self._references.resolve(answer.records), self._walk.from_here(node)
        )
        parent, children, more = walk
        degraded = (*answer.degraded, *more)
        return replace(answer, records=records, parent=parent, children=children, degraded=degraded)

    async def _readable(self, memory_ids: Sequence[str]) -> tuple[str, ...]:
        found = set[str]()
        for start in range(0, len(memory_ids), _BATCH):
            found |= await self._access.check_many(memory_ids[start : start + _BATCH], Privilege.READ)
        return tuple(sorted(found))

    async def _seen(self, memory_id: str) -> None:
        """Whoever may read or write; else ``memory_forbidden``."""
        _, node = await self._placing.address(memory_id, None)
        if not (node.permits(Privilege.READ) or node.permits(Privilege.WRITE)):
            await self._access.check(memory_id, Privilege.READ)


def _check(stated: NamedQuery) -> None:
    if _NAME.fullmatch(stated.name) is None:
        raise errors.memory_invalid(
            "A query's name has 1 to 63 lower-case letters, digits and underscores and begins with a letter.",
            "name",
        )
    if len(stated.description) > MAX_DESCRIPTION:
        raise errors.memory_invalid(
            f"A query's description has at most {MAX_DESCRIPTION} characters.", "description"
        )
    _check_statement(stated.body, "body")


def _check_statement(statement: str, param: str) -> None:
    if not statement.strip():
        raise errors.memory_invalid("A query needs a statement.", param)
    if len(statement.encode()) > MAX_BODY or "\0" in statement:
        raise errors.memory_invalid(f"A statement has at most {MAX_BODY} bytes and no NUL.", param)


def _check_params(params: bytes) -> None:
    if len(params) > MAX_PARAMS:
        raise errors.memory_invalid(f"Params have at most {MAX_PARAMS} bytes.", "params")
