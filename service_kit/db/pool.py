"""``Database``: the pools of one service and the only place a transaction is begun and committed.

Two pools: ``begin()`` takes a connection that may write, ``read()`` one on which Postgres itself
refuses to. A read costs one round trip a statement; nothing is opened around it unless a snapshot is
asked for. Foreign errors become ours here and nowhere else.

Connections are direct or session-pooled: settings are made once for each connection.
"""

import logging
import select
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import psycopg
from opentelemetry.metrics import CallbackOptions, Observation
from psycopg import errors as postgres
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from service_kit import semconv, telemetry
from service_kit.db.tx import Connection, Params, Query, Quick, Row, Tx
from service_kit.errors import GroveError
from service_kit.settings import Settings
from service_kit.tasks import let_cancellation_pass

__all__ = [
    "Database",
    "Limits",
    "Params",
    "Query",
    "Quick",
    "Row",
    "Tx",
    "connect",
    "queue_pool",
    "translated",
]

_log: Final = logging.getLogger(__name__)

_Pool = AsyncConnectionPool[Connection]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a pool, in connections and seconds."""

    minimum: int = 1
    maximum: int = 8
    wait_s: float = 5.0
    statement_timeout_s: float = 15.0
    idle_in_transaction_s: float = 30.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits a process was told."""
        return cls(
            minimum=settings.db_pool_min,
            maximum=max(settings.db_pool_min, settings.db_pool_max),
            wait_s=settings.db_pool_wait_s,
            statement_timeout_s=settings.db_statement_timeout_s,
            idle_in_transaction_s=settings.db_idle_in_transaction_s,
        )


class Database:
    """A service's schema, reached with its own role."""

    def __init__(self, name: str, writing: _Pool, reading: _Pool) -> None:
        self._name: str = name
        self._writing: _Pool = writing
        self._reading: _Pool = reading
        _observe(name, {"write": writing, "read": reading})

    @classmethod
    async def open(cls, dsn: str, name: str, limits: Limits | None = None) -> Self:
        """Open the pools. Does not wait for Postgres: until it answers, calls are ``grovekeeper_unavailable``.

        ``name`` is the service's (it names connections in ``pg_stat_activity``, spans and metrics).
        """
        limits = limits or Limits()
        writing, reading = _pool(dsn, name, limits, read_only=False), _pool(dsn, name, limits, read_only=True)
        await writing.open(wait=False)
        await reading.open(wait=False)
        return cls(name, writing, reading)

    async def close(self) -> None:
        """Close the pools; waits for connections in use."""
        await self._reading.close()
        await self._writing.close()

    async def renew(self) -> None:
        """Let calls from now on have new connections; those in use end as they come back."""
        await self._reading.drain()
        await self._writing.drain()

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Tx]:
        """One transaction: committed when the block ends, undone when an exception leaves it.

        Raises ``grovekeeper_unavailable`` (no connection, lost connection, deadlock, serialization) and
        ``grovekeeper_deadline`` (a statement ran too long). Integrity errors come as psycopg's, for the
        store to say what they mean.
        """
        with translated():
            async with self._writing.connection() as connection, connection.transaction():
                yield Tx(connection, self._name)

    @asynccontextmanager
    async def read(self, *, snapshot: bool = False) -> AsyncGenerator[Tx]:
        """Read only, each statement seeing what is committed when it starts; with ``snapshot`` all
        statements of the block see one moment. Raises as :meth:`begin` does.
        """
        with translated():
            async with self._reading.connection() as connection:
                if not snapshot:
                    yield Tx(connection, self._name)
                    return
                await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
                try:
                    async with connection.transaction():
                        yield Tx(connection, self._name)
                finally:
                    if not connection.closed:
                        await connection.set_isolation_level(None)

    async def ping(self) -> bool:
        """Whether Postgres answers now."""
        try:
            async with self.read() as tx:
                return await tx.fetch_value("select 1") == 1
        except GroveError:
            return False


@contextmanager
def translated() -> Generator[None]:
    """Turn what psycopg raises for want of a database into our errors."""
    try:
        yield
    except (PoolTimeout, TooManyRequests) as error:
        _log.warning("no database connection became free in time")
        raise GroveError("grovekeeper_unavailable", "The server is too busy; try again.") from error
    except postgres.QueryCanceled as error:
        let_cancellation_pass(error)
        raise GroveError("grovekeeper_deadline", "The request took too long.") from error
    except (postgres.SerializationFailure, postgres.DeadlockDetected) as error:
        raise GroveError("grovekeeper_unavailable", "The request met another one; try again.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        let_cancellation_pass(error)
        _log.warning("the database cannot be reached: %s", type(error).__name__)
        raise GroveError(
            "grovekeeper_unavailable", "The server cannot reach its database; try again."
        ) from error
    except (postgres.UntranslatableCharacter, postgres.CharacterNotInRepertoire, UnicodeEncodeError) as error:
        raise GroveError("invalid_input", "The request holds a character that cannot be kept.") from error
    except psycopg.DataError as error:
        if error.sqlstate is None and "NUL" in str(error):
            raise GroveError("invalid_input", "The request holds a character that cannot be kept.") from error
        raise


@asynccontextmanager
async def connect(settings: Settings, name: str) -> AsyncGenerator[Database]:
    """The database of ``settings``, open inside the block."""
    database = await Database.open(settings.dsn(), name, Limits.of(settings))
    try:
        yield database
    finally:
        await database.close()


async def _sound(connection: psycopg.AsyncConnection[Any]) -> None:
    """Called for each connection handed out. An idle one has nothing to say: if something can be read,
    the server closed it (or sent a notice), and only then is a round trip spent on finding out.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        await AsyncConnectionPool.check_connection(connection)


def queue_pool(dsn: str, name: str, maximum: int, wait_s: float) -> AsyncConnectionPool:
    """A pool for the job queue's library: unobserved, each borrowing one transaction. Closed by its owner."""
    return AsyncConnectionPool(
        dsn,
        kwargs={"application_name": f"grovekeeper {name}", "connect_timeout": max(2, int(wait_s))},
        min_size=1,
        max_size=maximum,
        timeout=wait_s,
        reconnect_timeout=wait_s,
        name=name,
        check=_sound,
        open=False,
    )


def _pool(dsn: str, name: str, limits: Limits, *, read_only: bool) -> _Pool:
    async def configure(connection: Connection) -> None:
        await connection.execute(
            "select set_config('statement_timeout', %s, false),"
            " set_config('idle_in_transaction_session_timeout', %s, false),"
            " set_config('default_transaction_read_only', %s, false)",
            (
                str(int(limits.statement_timeout_s * 1000)),
                str(int(limits.idle_in_transaction_s * 1000)),
                "on" if read_only else "off",
            ),
        )

    return AsyncConnectionPool(
        dsn,
        connection_class=psycopg.AsyncConnection[Row],
        kwargs={
            "autocommit": True,
            "row_factory": dict_row,
            "application_name": f"grovekeeper {name}",
            "connect_timeout": max(2, int(limits.wait_s)),
        },
        min_size=limits.minimum,
        max_size=limits.maximum,
        max_waiting=limits.maximum * 50,
        timeout=limits.wait_s,
        # Giving up early keeps the pauses between attempts short; the next call tries again.
        reconnect_timeout=limits.wait_s,
        name=f"{name}-{'read' if read_only else 'write'}",
        configure=configure,
        check=_sound,
        open=False,
    )


def _observe(name: str, pools: dict[str, _Pool]) -> None:
    """Gauges over what the pools know of themselves."""
    meter = telemetry.meter(__name__)

    def gauge(metric: str, field: str, unit: str, **extra: str) -> None:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            for kind, pool in pools.items():
                attributes = {semconv.DB_CLIENT_CONNECTION_POOL_NAME: f"{name}-{kind}", **extra}
                yield Observation(pool.get_stats().get(field, 0), attributes)

        meter.create_observable_gauge(metric, [read], unit=unit)

    gauge(semconv.DB_CLIENT_CONNECTION_COUNT, "pool_size", "{connection}")
    gauge(semconv.DB_CLIENT_CONNECTION_MAX, "pool_max", "{connection}")
    gauge(semconv.DB_CLIENT_CONNECTION_PENDING_REQUESTS, "requests_waiting", "{request}")
    gauge(semconv.DB_CLIENT_CONNECTION_TIMEOUTS, "requests_errors", "{timeout}")
