"""A statement that is asked all the time, without what a cursor costs: libpq and the event loop, nothing between."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any, Final, LiteralString

import psycopg
from opentelemetry import trace
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

__all__ = ["Quick"]

_numbers: Final = count()
_UNTRACED: Final = nullcontext()


class Quick:
    """One statement (placeholders ``$1``, …) that answers one row, prepared on one connection.

    Nothing else may use the connection while it is asked. ``observed`` surrounds those times that are traced.
    Cut short, by a cancellation or after ``longest`` seconds, it leaves a connection that is of no use, which
    the pool sees and closes.
    """

    def __init__(
        self,
        connection: psycopg.AsyncConnection[Any],
        observed: Callable[[], AbstractContextManager[None]],
        longest: float,
    ) -> None:
        self._pg: PGconn = connection.pgconn
        # A connection outlives what it is used for, and keeps what was prepared on it.
        self._name: bytes = b"quick_%d" % next(_numbers)
        self._observed: Callable[[], AbstractContextManager[None]] = observed
        self._longest: float = longest

    async def prepare(self, query: LiteralString) -> None:
        """Have it planned; once for each connection."""
        self._pg.send_prepare(self._name, query.encode())
        await self._result(ExecStatus.COMMAND_OK)

    async def fetch(self, *parameters: str) -> list[str]:
        """The row, as Postgres writes it ("" for null). Raises psycopg's ``OperationalError``, whatever went wrong."""
        with self._observed() if trace.get_current_span().is_recording() else _UNTRACED:
            self._pg.send_query_prepared(self._name, [one.encode() for one in parameters])
            result = await self._result(ExecStatus.TUPLES_OK)
            return [(result.get_value(0, column) or b"").decode() for column in range(result.nfields)]

    async def _result(self, wanted: ExecStatus) -> PGresult:
        pg, loop = self._pg, asyncio.get_running_loop()
        pg.flush()  # a statement of some hundred bytes on a connection with nothing under way
        arrived = loop.create_future()

        def readable() -> None:
            try:
                pg.consume_input()
            except psycopg.OperationalError as error:
                _settle(arrived, error)
            else:
                if not pg.is_busy():
                    _settle(arrived, None)

        loop.add_reader(pg.socket, readable)
        timer = loop.call_later(
            self._longest, _settle, arrived, psycopg.OperationalError("no answer in time")
        )
        try:
            await arrived
        finally:
            timer.cancel()
            loop.remove_reader(pg.socket)
        result = pg.get_result()
        while pg.get_result() is not None:
            pass
        if result is None or result.status != wanted:
            raise psycopg.OperationalError(
                "a statement failed" if result is None else result.get_error_message()
            )
        return result


def _settle(arrived: "asyncio.Future[None]", error: Exception | None) -> None:
    if not arrived.done():
        if error is None:
            arrived.set_result(None)
        else:
            arrived.set_exception(error)
