"""Reading an upload as it comes: one file of any size and a few short fields, nothing of it kept.

The body is ``multipart/form-data`` (RFC 7578). The fields may come before the file or after it. What is not ours is
passed over, and counts against :data:`MAX_REST_BYTES` with everything else that is not the file's own bytes.
"""

from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass, field
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.errors import invalid
from service_kit.errors import GroveError

__all__ = ["MAX_REST_BYTES", "Upload", "begun", "boundary_of", "too_large", "upload"]

MAX_REST_BYTES: Final = 64 * 1024
"""Most that an upload may have beside the file's own bytes: fields, headers, boundaries."""
_MAX_PURPOSE: Final = 1024  # the owner of uploads says how long one may really be
_FILE: Final = b"file"
_PURPOSE: Final = b"purpose"


def boundary_of(content_type: str) -> bytes:
    """The boundary a request's ``Content-Type`` names. ``invalid_input`` for anything that is no form."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not 1 <= len(boundary) <= 70:
        raise invalid(
            "An upload is multipart/form-data with a boundary of 1 to 70 characters.", "Content-Type"
        )
    return boundary


@dataclass
class Upload:
    """What is known once the file's bytes begin; ``purpose`` may come after them."""

    name: str
    media_type: str
    purpose: str = ""


@dataclass
class _Reader:
    """The parser's callbacks, and what they have found since it was last looked."""

    limit: int
    file: Upload | None = None
    purpose: bytes = b""
    data: bytearray = field(default_factory=bytearray)
    received: int = 0
    ended: bool = False
    _headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    _name: bytes = b""
    _value: bytes = b""
    _part: bytes | None = None
    _files: int = 0

    def parser(self, boundary: bytes) -> MultipartParser:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_begin": self._header_begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_end": self._end,
            },
        )

    def _begin(self) -> None:
        self._headers, self._part = {}, None

    def _header_begin(self) -> None:
        self._name = self._value = b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.strip().lower()] = self._value.strip()

    def _headers_finished(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b"").decode("latin-1"))
        if kind != b"form-data" or b"name" not in options:
            raise invalid("Every part of an upload is form-data with a name.")
        self._part = options[b"name"]
        if self._part == _PURPOSE and self.purpose:
            raise invalid("An upload has one purpose.", "purpose")
        if self._part != _FILE:
            return
        if self._files:
            raise invalid("An upload is one file.", "file")
        self._files += 1
        if b"filename" not in options:
            raise invalid("The file has no filename.", "file")
        stated = self._headers.get(b"content-type", b"").decode("latin-1")
        self.file = Upload(_decoded(options[b"filename"]), stated[:200])

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._part == _FILE:
            self.received += end - start
            if self.received > self.limit:
                raise too_large(self.limit)
            self.data += data[start:end]
        elif self._part == _PURPOSE:
            self.purpose += data[start:end]
            if len(self.purpose) > _MAX_PURPOSE:
                raise invalid("The purpose is too long.", "purpose")

    def _end(self) -> None:
        self.ended = True


async def upload(body: AsyncIterable[bytes], boundary: bytes, limit: int) -> AsyncGenerator[Upload | bytes]:
    """The file's :class:`Upload`, its bytes as they come, and the same :class:`Upload` once more at the end.

    ``file_too_large`` past ``limit`` bytes, ``invalid_input`` for a body that is no such upload.
    """
    reader = _Reader(limit)
    parser = reader.parser(boundary)
    total, told = 0, False
    async for chunk in body:
        total += len(chunk)
        _parse(parser, chunk)
        if total - reader.received > MAX_REST_BYTES:
            raise invalid(f"An upload has at most {MAX_REST_BYTES} bytes beside its file.")
        if reader.file is not None and not told:
            told = True
            yield reader.file
        if reader.data:
            yield bytes(reader.data)
            reader.data.clear()
    if not reader.ended:
        raise invalid("The body ends before the upload does.")
    if reader.file is None:
        raise invalid("An upload needs a part called file.", "file")
    reader.file.purpose = _decoded(reader.purpose)
    yield reader.file


async def begun(parts: AsyncGenerator[Upload | bytes]) -> Upload:
    """The first of :func:`upload`'s answers."""
    first = await anext(parts)
    if isinstance(first, bytes):
        raise TypeError("a file's bytes came before its name")
    return first


def _parse(parser: MultipartParser, chunk: bytes) -> None:
    try:
        parser.write(chunk)
    except FormParserError:
        raise invalid("The body is not the multipart/form-data it says it is.") from None


def too_large(limit: int) -> GroveError:
    """A file past the limit."""
    return GroveError(
        "file_too_large", f"A file may have {limit} bytes at most.", detail={"max_bytes": limit}
    )


def _decoded(text: bytes) -> str:
    """Names are UTF-8 nowadays; what is not was written in Latin-1."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
