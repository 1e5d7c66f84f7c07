"""``Tx``: what a store is handed to speak SQL through. It cannot commit.

A statement is a literal string beside the call, or composed with ``psycopg.sql``; a type checker
refuses anything else. Every statement of a traced request is a span that names its operation and
table, and never carries a parameter or a result.
"""

import re
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache, partial
from typing import Any, Final, LiteralString, cast

import psycopg
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from psycopg import sql
from psycopg.rows import DictRow

from service_kit import semconv, telemetry
from service_kit.db.quick import Quick

__all__ = ["Connection", "Params", "Query", "Quick", "Row", "Tx", "describe"]

Connection = psycopg.AsyncConnection[DictRow]
Row = DictRow
"""A row by column name. A store turns it into a domain model at once."""
Query = LiteralString | sql.SQL | sql.Composed
Params = Sequence[object] | Mapping[str, object]

_WORDS: Final = re.compile(r"\s*(?:--[^\n]*\n\s*)*([a-z]+)", re.IGNORECASE)
_TABLE: Final = re.compile(r"\b(?:from|into|update|join)\s+(?:only\s+)?\"?([a-z_][\w.]*)", re.IGNORECASE)
_VERB: Final = re.compile(r"\b(select|insert|update|delete|merge)\b", re.IGNORECASE)

_tracer: Final = telemetry.tracer(__name__)
_duration: Final = telemetry.meter(__name__).create_histogram(
    semconv.DB_CLIENT_OPERATION_DURATION,
    unit="s",
    description="Duration of database client operations.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)


@lru_cache(maxsize=2048)
def describe(text: str) -> tuple[str, str | None]:
    """Operation and first table of a statement: ``select … from grants`` -> ``("SELECT", "grants")``."""
    word = _WORDS.match(text)
    verb = word.group(1).upper() if word else "UNKNOWN"
    if verb == "WITH":
        found = [one.group(1).upper() for one in _VERB.finditer(text)]
        # The statement after the common tables is what it is for, and it writes if any part writes.
        verb = next((one for one in found if one != "SELECT"), "SELECT")
    table = _TABLE.search(text)
    return verb, table.group(1) if table else None


class Tx:
    """One transaction (or, from ``read()``, one read-only connection) of a database."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection: Connection = connection
        self._namespace: str = namespace

    @property
    def connection(self) -> Connection:
        """The connection beneath, for what has no verb here (COPY, a job queue). Never commit on it."""
        return self._connection

    async def execute(self, query: Query, params: Params | None = None) -> int:
        """Run a statement; answers the number of rows it touched."""
        return (await self._run(query, params)).rowcount

    async def execute_many(self, query: Query, rows: Iterable[Params]) -> int:
        """Run a statement once for each of ``rows``, in one pipeline; answers the rows touched in all.
        Prefer one statement over ``unnest`` where that is possible.
        """
        cursor = self._connection.cursor()
        with self._operation(query):
            await cursor.executemany(query, cast("Iterable[Sequence[Any]]", rows))
        return cursor.rowcount

    async def fetch_all(self, query: Query, params: Params | None = None) -> list[Row]:
        """All rows of a query."""
        return await (await self._run(query, params)).fetchall()

    async def fetch_one(self, query: Query, params: Params | None = None) -> Row | None:
        """The first row of a query, or None."""
        return await (await self._run(query, params)).fetchone()

    async def fetch_value(self, query: Query, params: Params | None = None) -> Any:
        """The first column of the first row, or None when there is no row."""
        row = await self.fetch_one(query, params)
        return None if row is None else next(iter(row.values()))

    async def quick(self, query: LiteralString, longest: float) -> Quick:
        """A statement to be run on this connection again and again, each time in ``longest`` seconds at most."""
        made = Quick(self._connection, partial(self._operation, query), longest)
        await made.prepare(query)
        return made

    @asynccontextmanager
    async def nested(self) -> AsyncGenerator["Tx"]:
        """A savepoint: an exception leaving the block undoes the block only."""
        async with self._connection.transaction():
            yield self

    @asynccontextmanager
    async def planning(self, **settings: str) -> AsyncGenerator[None]:
        """Settings of Postgres for the statements of the block: how they are planned, what they may use."""
        async with self._connection.transaction():
            await self._run(
                "select set_config(name, value, true) from unnest(%s::text[], %s::text[]) s (name, value)",
                (list(settings), list(settings.values())),
            )
            yield

    async def _run(self, query: Query, params: Params | None) -> psycopg.AsyncCursor[Row]:
        with self._operation(query):
            return await self._connection.execute(query, params)

    @contextmanager
    def _operation(self, query: Query) -> Generator[None]:
        recording = trace.get_current_span().is_recording()
        # A composed statement is rendered only for a trace somebody reads.
        text = (
            query
            if isinstance(query, str)
            else (query.as_string(self._connection) if recording else "COMPOSED")
        )
        verb, table = describe(text)
        started = time.perf_counter()
        span = self._span(verb, table) if recording else trace.INVALID_SPAN
        failure: str | None = None
        try:
            yield
        except psycopg.Error as error:
            failure = error.sqlstate or type(error).__name__
            span.set_attribute(semconv.DB_RESPONSE_STATUS_CODE, failure)
            span.set_attribute(semconv.ERROR_TYPE, failure)
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.end()
            attributes = {
                semconv.DB_SYSTEM_NAME: semconv.DB_SYSTEM_POSTGRESQL,
                semconv.DB_OPERATION_NAME: verb,
            }
            if failure is not None:
                attributes[semconv.ERROR_TYPE] = failure
            _duration.record(time.perf_counter() - started, attributes)

    def _span(self, verb: str, table: str | None) -> trace.Span:
        summary = f"{verb} {table}" if table else verb
        attributes = {
            semconv.DB_SYSTEM_NAME: semconv.DB_SYSTEM_POSTGRESQL,
            semconv.DB_NAMESPACE: self._namespace,
            semconv.DB_OPERATION_NAME: verb,
            semconv.DB_QUERY_SUMMARY: summary,
        }
        if table is not None:
            attributes[semconv.DB_COLLECTION_NAME] = table
        return _tracer.start_span(summary, kind=SpanKind.CLIENT, attributes=attributes)
