"""A turn's share of the relay: its calls end when it ends, and no more run at a time than there is room for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from opentelemetry import context as otel_context

from runner_service.relay.ledger import Ledger

__all__ = ["Turn", "cut"]

_AT_ONCE: Final = 16
"""Calls of one turn at a time; others wait. An agent with parallel helpers makes a dozen."""
_BODIES: Final = 2
"""Of them, those whose body is here: on its way to the endpoint, and not yet with it."""
_END_S: Final = 5.0
"""How long a turn waits for calls that were cut off."""


@dataclass(slots=True)
class Turn:
    """What a token stands for."""

    session_id: str
    response_id: str
    model: str
    context: otel_context.Context
    ledger: Ledger = field(default_factory=Ledger)
    at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    bodies: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_BODIES))
    _running: set[asyncio.Timeout] = field(default_factory=set[asyncio.Timeout])
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[asyncio.Timeout]:
        """A call, inside the block. ``TimeoutError`` at its end when the turn ended first, or the deadline was moved
        to now.
        """
        async with asyncio.timeout(None) as deadline:
            self._running.add(deadline)
            self._idle.clear()
            try:
                yield deadline
            finally:
                self._running.discard(deadline)
                if not self._running:
                    self._idle.set()

    async def end(self) -> None:
        """Cut off what still runs, and wait until what it cost is known."""
        for deadline in tuple(self._running):
            cut(deadline)
        if self._running:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _END_S)


def cut(deadline: asyncio.Timeout) -> None:
    """End now what runs under ``deadline``; what is ending already is left to it."""
    if not deadline.expired():
        deadline.reschedule(asyncio.get_running_loop().time())
