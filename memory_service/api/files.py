"""The RPCs of protos/memory/v1/files.proto."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import ServicerContext

from memory_service.api import convert
from memory_service.domain import errors
from memory_service.domain.files import Files
from memory_service.domain.model import File, Piece, Upload
from protos.common.v1 import record_pb2
from protos.memory.v1 import files_pb2 as wire
from protos.memory.v1.files_pb2_grpc import FilesServicer as Base

Context = ServicerContext[Any, Any]


class FilesServicer(Base):
    """Uploads, and the bytes of the files that records name."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def UploadFile(
        self, request_iterator: AsyncIterator[wire.UploadFileRequest], context: Context
    ) -> wire.UploadedFile:
        first = await anext(request_iterator, None)
        if first is None or first.WhichOneof("part") != "upload":
            raise errors.invalid("A file is named before its bytes are sent.", "file")
        return _uploaded(await self._files.upload(_Incoming(first.upload, request_iterator)))

    async def GetFile(self, request: wire.GetFileRequest, context: Context) -> wire.UploadedFile:
        return _uploaded(await self._files.get(request.id))

    async def ReadContent(
        self, request: wire.ReadContentRequest, context: Context
    ) -> AsyncGenerator[wire.ReadContentResponse]:
        piece = Piece(request.version, request.index, request.offset, request.length)
        async with aclosing(self._files.content(request.memory_id, request.record_id, piece)) as content:
            async for one in content:
                if isinstance(one, File):
                    yield wire.ReadContentResponse(file=_file(one))
                else:
                    yield wire.ReadContentResponse(chunk=one)


class _Incoming:
    """The messages of an upload after the first."""

    def __init__(self, upload: wire.Upload, requests: AsyncIterator[wire.UploadFileRequest]) -> None:
        self.name = upload.name
        self.media_type = upload.media_type
        self.idempotency = convert.idempotency(upload.idempotency)
        self._purpose = upload.purpose
        self._requests = requests
        self._end: wire.UploadEnd | None = None

    async def chunks(self) -> AsyncGenerator[bytes]:
        async for request in self._requests:
            if request.WhichOneof("part") == "end":
                self._end = request.end
                return
            yield request.chunk

    def purpose(self, received: int) -> str:
        if self._end is None or self._end.bytes != received:
            raise errors.invalid("The upload broke off.", "file")
        return self._end.purpose or self._purpose


def _uploaded(one: Upload) -> wire.UploadedFile:
    created_at = Timestamp()
    created_at.FromDatetime(one.created_at.astimezone(UTC))
    return wire.UploadedFile(
        id=one.id,
        name=one.name,
        media_type=one.media_type,
        bytes=one.bytes,
        purpose=one.purpose,
        created_at=created_at,
    )


def _file(one: File) -> record_pb2.File:
    return record_pb2.File(
        id=one.id, name=one.name, media_type=one.media_type, bytes=one.bytes, version=one.version
    )
