"""A command that runs: lines in, lines out, and its end."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Final

__all__ = ["LINE_BYTES", "CommandLostError", "Running"]

_log: Final = logging.getLogger(__name__)
LINE_BYTES: Final = 16 * 1024 * 1024
"""Longest line; what a command writes beyond two of them waits in its pipe until somebody reads."""
_TAIL_BYTES: Final = 8 * 1024
_WRITE_S: Final = 30.0
_EXIT_S: Final = 10.0


class CommandLostError(Exception):
    """The command cannot be spoken with: it ended, does not read, or wrote a line nobody can hold. The message is for a log."""


class Running:
    """One command. Reading and writing are one caller's each."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process: asyncio.subprocess.Process = process
        self._tail: bytearray = bytearray()
        self._errors: asyncio.Task[None] = asyncio.create_task(self._gather(), name="stderr of a command")

    async def send(self, line: bytes) -> None:
        """Write one line (without its end). ``CommandLostError``."""
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing():
            raise CommandLostError("its input is closed")
        try:
            async with asyncio.timeout(_WRITE_S):
                stdin.write(line + b"\n")
                await stdin.drain()
        except (OSError, TimeoutError) as error:
            raise CommandLostError(f"its input is not read: {type(error).__name__}") from error

    def close_input(self) -> None:
        """Nothing more is sent."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def lines(self) -> AsyncGenerator[bytes]:
        """What it writes, line by line, until it closes its output. ``CommandLostError`` for a line beyond ``LINE_BYTES``."""
        stdout = self._process.stdout
        while stdout is not None:
            try:
                line = await stdout.readline()
            except ValueError as error:
                raise CommandLostError(f"it wrote a line of more than {LINE_BYTES} bytes") from error
            if not line:
                return
            yield line.rstrip(b"\r\n")

    async def code(self) -> int:
        """Its exit code, once its output is closed; 128 and more where a signal ended it. ``CommandLostError`` when it
        does not end.
        """
        try:
            async with asyncio.timeout(_EXIT_S):
                return await self._process.wait()
        except TimeoutError as error:
            raise CommandLostError("it closed its output and goes on") from error

    async def complaint(self) -> str:
        """The end of what it wrote to its standard error, for a log: it may name anything."""
        await asyncio.wait({self._errors}, timeout=1.0)
        return self._tail.decode(errors="replace").strip()

    async def end(self, wait_s: float) -> None:
        """End it and all that came of it, and see it gone. The launcher was told by its control closing."""
        self.close_input()
        try:
            async with asyncio.timeout(wait_s):
                await self._drained()
        except TimeoutError:
            _log.error("a launcher does not end; it is killed", extra={"pid": self._process.pid})
            self._process.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._drained()

    async def _drained(self) -> None:
        """What nobody read keeps a pipe open."""
        stdout = self._process.stdout
        while stdout is not None and await stdout.read(64 * 1024):
            pass
        await self._process.wait()
        await self._errors

    async def _gather(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (more := await stderr.read(4096)):
            self._tail += more
            del self._tail[:-_TAIL_BYTES]
