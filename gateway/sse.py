"""Server-sent events of a response (UHP Streaming; HTML §9.2)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import StreamingResponse

from gateway.schemas.responses import Event

__all__ = ["KEEP_ALIVE", "stream"]

KEEP_ALIVE: Final = b": keep-alive\n\n"

_HEADERS: Final = {
    "Cache-Control": "no-cache",
    # Tells a proxy in front (nginx and its kin) to pass events on as they come.
    "X-Accel-Buffering": "no",
}
_AHEAD: Final = 16
"""Batches read before the client took them; a slow client slows the reading, not the work."""

_Queue = asyncio.Queue[list[Event] | None]


def stream(
    events: AsyncGenerator[list[Event]], keepalive_s: float, *, numbered: bool = True
) -> StreamingResponse:
    """The answer that carries ``events`` as they come, and a comment after each silence. ``numbered``: an event's number
    is its id, after which the stream can be taken up again.

    The call behind ``events`` is given up as soon as the client is gone. When it breaks, the answer
    breaks off too, without its last chunk: a client takes that for what it is and resumes.
    """
    return StreamingResponse(
        _lines(events, keepalive_s, numbered), headers=_HEADERS, media_type="text/event-stream"
    )


async def _lines(
    events: AsyncGenerator[list[Event]],
    keepalive_s: float,
    numbered: bool,
) -> AsyncGenerator[bytes]:
    ready = _Queue(_AHEAD)
    # One task reads from first to last, so that the call behind it begins and ends in one context.
    reading = asyncio.create_task(_read(events, ready))
    try:
        while True:
            try:
                async with asyncio.timeout(keepalive_s):
                    batch = await ready.get()
            except TimeoutError:
                yield KEEP_ALIVE
                continue
            if batch is None:
                await reading
                return
            yield b"".join(_event(one, numbered) for one in batch)
    finally:
        reading.cancel()
        reading.add_done_callback(_noted)


async def _read(events: AsyncGenerator[list[Event]], ready: _Queue) -> None:
    task = asyncio.current_task()
    try:
        async with aclosing(events):
            async for batch in events:
                await ready.put(batch)
    finally:
        # Nobody waits for the end of a stream that was given up.
        if task is not None and not task.cancelling():
            await ready.put(None)


def _noted(reading: asyncio.Task[None]) -> None:
    if not reading.cancelled():
        reading.exception()


def _event(event: Event, numbered: bool) -> bytes:
    # A line break between two tokens would end the event; inside strings JSON has none.
    data = event.json.replace(b"\n", b" ") if b"\n" in event.json else event.json
    name = b"id: %d\n" % event.sequence_number if numbered else b""
    return b"%bdata: %b\n\n" % (name, data)
