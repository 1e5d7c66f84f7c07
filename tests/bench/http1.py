"""The least HTTP/1.1 client: what it costs itself must not blur what a server costs."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec

__all__ = ["Answer", "Http", "RefusedError"]


class RefusedError(Exception):
    """The server answered with another status than 2xx."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of a response."""

    status: int
    body: bytes

    def ok(self) -> bytes:
        """The body of a 2xx; raises :class:`RefusedError` else."""
        if not 200 <= self.status < 300:
            raise RefusedError(f"{self.status}: {self.body[:300].decode(errors='replace')}")
        return self.body


class Http:
    """One kept-alive connection; one request at a time."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self._host = host
        self._port = port
        self._head = f" HTTP/1.1\r\nhost: {host}:{port}\r\n" + (
            f"authorization: Bearer {token}\r\n" if token else ""
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        self._streams = await asyncio.open_connection(self._host, self._port, limit=2**22)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def get(self, path: str) -> Answer:
        """``GET path``."""
        return await self._send("GET", path, b"")

    async def post(self, path: str, body: object) -> Answer:
        """``POST path`` with ``body`` as JSON."""
        return await self._send("POST", path, msgspec.json.encode(body))

    async def events(self, method: str, path: str, body: bytes = b"") -> AsyncGenerator[bytes]:
        """The payload of each ``data:`` line until the stream ends. The connection cannot be used after."""
        reader, writer = self._open()
        writer.write(self._request(method, path, body))
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1] != b"200":
            raise RefusedError(head.decode(errors="replace"))
        while line := await reader.readline():
            if line.startswith(b"data:"):
                yield line[5:].strip()
            elif line == b"0\r\n":  # the last chunk of a chunked body
                return

    async def _send(self, method: str, path: str, body: bytes) -> Answer:
        reader, writer = self._open()
        writer.write(self._request(method, path, body))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        at = head.index(b"content-length:") + 15
        size = int(head[at : head.index(b"\r\n", at)])
        return Answer(int(head[9:12]), await reader.readexactly(size))

    def _request(self, method: str, path: str, body: bytes) -> bytes:
        fields = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n" if body else ""
        return f"{method} {path}{self._head}{fields}\r\n".encode() + body

    def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            raise RuntimeError("the connection is not open")
        return self._streams
