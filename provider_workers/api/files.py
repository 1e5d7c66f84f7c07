"""The RPCs of protos/provider/v1/files.proto."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from grpc.aio import ServicerContext

from protos.provider.v1 import files_pb2 as wire
from protos.provider.v1.files_pb2_grpc import FilesServicer as Base
from provider_workers.api import convert
from provider_workers.domain import errors
from provider_workers.domain.model import Place
from provider_workers.domain.operations import Operations

Context = ServicerContext[Any, Any]


class FilesServicer(Base):
    """Bytes of the files that records name."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def KeepFile(
        self, request_iterator: AsyncIterator[wire.KeepFileRequest], context: Context
    ) -> wire.KeepFileResponse:
        first = await anext(request_iterator, None)
        if first is None or first.WhichOneof("part") != "file":
            raise errors.invalid("A file is named before its bytes are sent.", "file")
        address, file = convert.address(first.file.address), convert.file(first.file.file)
        kept = await self._operations.keep(address, file, _chunks(request_iterator))
        return wire.KeepFileResponse(file=convert.wire_file(kept))

    async def ReadFile(
        self, request: wire.ReadFileRequest, context: Context
    ) -> AsyncGenerator[wire.ReadFileResponse]:
        place = Place(request.version, request.index, request.offset, request.length)
        file, chunks = await self._operations.read(convert.address(request.address), request.record_id, place)
        async with aclosing(chunks):
            yield wire.ReadFileResponse(file=convert.wire_file(file))
            async for chunk in chunks:
                yield wire.ReadFileResponse(chunk=chunk)

    async def KeptFiles(self, request: wire.KeptFilesRequest, context: Context) -> wire.KeptFilesResponse:
        kept = await self._operations.kept(convert.address(request.address), request.file_ids)
        return wire.KeptFilesResponse(file_ids=sorted(kept))


async def _chunks(requests: AsyncIterator[wire.KeepFileRequest]) -> AsyncGenerator[bytes]:
    async for request in requests:
        yield request.chunk
