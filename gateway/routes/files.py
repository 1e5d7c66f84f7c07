"""``/v1/files`` and the content of records (UHP, Files; Memories, section 7)."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.clients.files import Content, FilesClient
from gateway.http import answer, idempotency, query
from gateway.multipart import boundary_of, upload
from gateway.openapi import KEY, binary, form
from gateway.openapi_headers import IF_NONE_MATCH, IF_RANGE, RANGE
from gateway.ranges import Range, asked_range, not_satisfiable
from gateway.schemas import files as schema
from gateway.schemas.content import File

__all__ = ["routes"]

_CONTENT: Final = "/v1/memories/{memory_id}/records/{record_id}/content"
_WHOLE: Final = Range(0, 0)
_FIRST_FILE: Final = -1
_DOCUMENTED: Final = binary(
    schema.ReadContent,
    headers=(RANGE, IF_RANGE, IF_NONE_MATCH),
    errors=("file_not_found", "memory_unsupported"),
)
_RUN_BY_BROWSERS: Final = frozenset(
    {
        "text/html",
        "image/svg+xml",
        "application/xml",
        "text/xml",
        "application/xhtml+xml",
        "text/javascript",
        "text/css",
    }
)
_ALWAYS: Final = {
    # Whatever it is, and whatever it says it is, no browser shows or runs it here.
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "Accept-Ranges": "bytes",
}


def routes(on: FastAPI, files: FilesClient, limit: int) -> None:
    """Upload; read what a record names."""

    @on.post(
        "/v1/files",
        openapi_extra=form(
            schema.UploadedFile,
            schema.UploadForm,
            headers=(KEY,),
            errors=("file_too_large", "memory_unsupported", "quota_exhausted"),
        ),
    )
    async def upload_file(request: Request) -> Response:
        """Send a file, to be named by its id."""
        boundary = boundary_of(request.headers.get("content-type", ""))
        parts = upload(request.stream(), boundary, limit)
        return answer(await files.upload(parts, idempotency(request, b"")))

    @on.get(_CONTENT, openapi_extra=_DOCUMENTED)
    async def content(request: Request, memory_id: str, record_id: str) -> Response:
        """The bytes of the first file that a record names."""
        return await _content(request, files, (memory_id, record_id), _FIRST_FILE)

    @on.head(_CONTENT, include_in_schema=False)
    async def content_head(request: Request, memory_id: str, record_id: str) -> Response:
        return await _content(request, files, (memory_id, record_id), _FIRST_FILE)

    @on.get(f"{_CONTENT}/{{index}}", openapi_extra=_DOCUMENTED)
    async def content_at(request: Request, memory_id: str, record_id: str, index: str) -> Response:
        """The bytes of the file that one part of a record's content names."""
        return await _content(request, files, (memory_id, record_id), _index(index))

    @on.head(f"{_CONTENT}/{{index}}", include_in_schema=False)
    async def content_at_head(request: Request, memory_id: str, record_id: str, index: str) -> Response:
        return await _content(request, files, (memory_id, record_id), _index(index))


def _index(text: str) -> int:
    """Which part; what is no number is a part that is not there."""
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        # Asked for all the same: that it is not there is for those who may read to know.
        return 2**31 - 1
    return int(text)


async def _content(request: Request, files: FilesClient, record: tuple[str, str], index: int) -> Response:
    place = (query(request, schema.ReadContent).version or 0, index)
    part = asked_range(request.headers.get("range")) if request.method == "GET" else None
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(files.content(*record, place, part or _WHOLE))
        if part is not None and not _still(request, found.file):
            # The client has something else of it: it gets everything.
            part = None
            found = await stack.enter_async_context(files.content(*record, place, _WHOLE))
        headers = _headers(found.file)
        if _etag(found.file) in _tags(request.headers.get("if-none-match")):
            return Response(status_code=304, headers=headers)
        size, status = found.file.bytes, 200
        if part is not None:
            span = part.within(size)
            if span is None:
                raise not_satisfiable(size)
            headers["Content-Range"] = f"bytes {span[0]}-{span[1]}/{size}"
            size, status = span[1] - span[0] + 1, 206
        headers["Content-Length"] = str(size)
        if request.method == "HEAD":
            return Response(status_code=status, headers=headers)
        return _Streamed(found, stack.pop_all(), status, headers)


class _Streamed(StreamingResponse):
    """Passes bytes on as they come, and ends the call behind them however the answer ends."""

    def __init__(
        self, content: Content, held: AsyncExitStack, status: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(content.chunks, status, headers)
        self._held: AsyncExitStack = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)


def _headers(file: File) -> dict[str, str]:
    kind = "text/plain" if file.media_type in _RUN_BY_BROWSERS else file.media_type
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    return {
        **_ALWAYS,
        "Content-Type": kind,
        "Content-Disposition": _disposition(file.name),
        "ETag": _etag(file),
    }


def _disposition(name: str) -> str:
    """The name for those who read ASCII only, and in full (RFC 6266); nothing in it ends the header."""
    plain = "".join(char if " " <= char <= "~" and char not in '"\\%' else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _etag(file: File) -> str:
    return f'"{file.version}"'


def _tags(header: str | None) -> set[str]:
    return {one.strip().removeprefix("W/") for one in (header or "").split(",")}


def _still(request: Request, file: File) -> bool:
    """Whether the client's ``If-Range`` is about this file."""
    condition = request.headers.get("if-range")
    return condition is None or condition.strip() == _etag(file)
