"""The words in a file: of text as they stand, of the rest by a process of its own, bounded in every way.

A file comes from anybody, and the libraries that read it have been surprised before. What is larger, slower or
hungrier than the bounds is kept without words, as is everything that cannot be read: no file makes extraction fail.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Final

from provider_workers.adapters.native import extract_child
from provider_workers.domain.turns import Turns

__all__ = ["HAVE_WORDS", "MAX_WORDS_BYTES", "Extraction"]

MAX_WORDS_BYTES: Final = 256 * 1024
"""Most UTF-8 that is kept of one file's words; the rest is cut off."""

_PLAIN: Final = frozenset(
    {
        "text/plain",
        "text/markdown",
        "text/csv",
        "text/tab-separated-values",
        "application/json",
        "application/x-ndjson",
    }
)
HAVE_WORDS: Final = tuple(sorted(_PLAIN | extract_child.READERS.keys()))
"""The media types of files whose words are found."""

_AT_ONCE: Final = 2
_WAITING: Final = 64
_WAIT_S: Final = 20.0
_CHILD: Final = Path(extract_child.__file__)

_log: Final = logging.getLogger(__name__)


class Extraction:
    """``max_bytes``: files that are looked into; ``timeout_s``: how long one may take."""

    def __init__(self, *, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._turns = Turns(running=_AT_ONCE, waiting=_WAITING, wait_s=_WAIT_S, what="files")

    async def words(self, whose: str, media_type: str, size: int, chunks: AsyncIterable[bytes]) -> str:
        """The words of a file, "" for none. ``chunks`` is read only when it is worth it.

        ``whose`` is who takes turns; ``grovekeeper_busy`` when too many wait for theirs.
        """
        if media_type in _PLAIN:
            return await self._plain(chunks)
        if media_type not in extract_child.READERS or size > self._max_bytes:
            return ""
        async with self._turns.turn(whose):
            content = b"".join([chunk async for chunk in chunks])
            said = await self._asked(media_type, content)
        return said.decode(errors="ignore").strip()

    async def _plain(self, chunks: AsyncIterable[bytes]) -> str:
        """The text as it stands, as much as is kept of it."""
        head = b""
        async for chunk in chunks:
            head += chunk
            if len(head) >= 2 * MAX_WORDS_BYTES:  # UTF-16 has two bytes where UTF-8 has one
                break
        encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        text = head.decode(encoding, errors="ignore")
        return text.encode(errors="ignore")[:MAX_WORDS_BYTES].decode(errors="ignore").strip()

    async def _asked(self, media_type: str, content: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_CHILD),
            media_type,
            str(MAX_WORDS_BYTES),
            str(max(1, round(self._timeout_s))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                # The child writes no more than it was told, and nothing when it fails.
                said, _ = await process.communicate(content)
        except (TimeoutError, OSError, RuntimeError):
            # RuntimeError is what uvloop says of the stdin of a child that has already died.
            said = b""
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode != 0:
            _log.info("no words were found in a file", extra={"media_type": media_type})
            return b""
        return said
