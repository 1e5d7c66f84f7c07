"""Files, of memory_service."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc

from gateway.clients.convert import idempotency
from gateway.http import Idempotency
from gateway.multipart import Upload, begun
from gateway.ranges import Range
from gateway.schemas import files as schema
from gateway.schemas.base import UNSET
from gateway.schemas.content import File
from protos.memory.v1 import files_pb2, files_pb2_grpc
from service_kit.errors import internal
from service_kit.rpc.client import streaming

__all__ = ["Content", "FilesClient"]

_UPLOAD_S: Final = 600.0
_READ_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Content:
    """A file that a record names, and the bytes of it that were asked for."""

    file: File
    chunks: AsyncGenerator[bytes]


class FilesClient:
    """Uploads, and the bytes of files that records name (Memories, section 7)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._files = files_pb2_grpc.FilesStub(channel)

    async def upload(self, parts: AsyncGenerator[Upload | bytes], key: Idempotency) -> schema.UploadedFile:
        """Pass a file on as it comes: no more of it is taken than the other side has taken."""

        async def requests() -> AsyncGenerator[files_pb2.UploadFileRequest]:
            file, sent = await begun(parts), 0
            stated = files_pb2.Upload(
                name=file.name, media_type=file.media_type, idempotency=idempotency(key)
            )
            yield files_pb2.UploadFileRequest(upload=stated)
            async for part in parts:
                if isinstance(part, bytes):
                    sent += len(part)
                    yield files_pb2.UploadFileRequest(chunk=part)
            yield files_pb2.UploadFileRequest(end=files_pb2.UploadEnd(bytes=sent, purpose=file.purpose))

        made = await self._files.UploadFile(requests(), timeout=_UPLOAD_S)
        return schema.UploadedFile(
            id=made.id,
            filename=made.name,
            bytes=made.bytes,
            created_at=made.created_at.seconds,
            media_type=made.media_type,
            purpose=made.purpose or UNSET,
        )

    @asynccontextmanager
    async def content(
        self, memory_id: str, record_id: str, place: tuple[int, int], part: Range
    ) -> AsyncGenerator[Content]:
        """The content at ``place`` (version and index) and its bytes, as long as the block lasts."""
        version, index = place
        request = files_pb2.ReadContentRequest(
            memory_id=memory_id,
            record_id=record_id,
            version=version,
            index=index,
            offset=part.offset,
            length=part.length,
        )
        async with streaming(self._files.ReadContent(request, timeout=_READ_S)) as answers:
            first = await anext(answers, None)
            if first is None or not first.HasField("file"):
                raise internal()
            held = first.file
            file = File(
                id=held.id,
                name=held.name,
                media_type=held.media_type,
                bytes=held.bytes,
                version=held.version,
            )

            async def chunks() -> AsyncGenerator[bytes]:
                async for answer in answers:
                    yield answer.chunk

            yield Content(file, chunks())
