"""The files of the connected providers (protos/provider/v1/files.proto)."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from typing import Final

import grpc

from memory_service.clients.provider import address_of, reachable
from memory_service.domain.model import Address, File, Piece
from protos.common.v1 import record_pb2
from protos.provider.v1 import files_pb2 as wire
from protos.provider.v1.files_pb2_grpc import FilesStub
from service_kit.rpc.client import streaming

__all__ = ["SAFE", "GrpcProviderFiles"]

SAFE: Final = ("grovekeeper.provider.v1.Files/KeptFiles",)
"""What may be sent twice."""

_KEEP_S: Final = 120.0
_READ_S: Final = 600.0


class GrpcProviderFiles:
    """The verbs of ``domain.file_ports.ProviderFiles``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = FilesStub(channel)

    async def keep(self, address: Address, file: File, chunks: AsyncIterable[bytes]) -> File:
        async def requests() -> AsyncGenerator[wire.KeepFileRequest]:
            named = record_pb2.File(id=file.id, name=file.name, media_type=file.media_type, bytes=file.bytes)
            yield wire.KeepFileRequest(file=wire.KeptFile(address=address_of(address), file=named))
            async for chunk in chunks:
                yield wire.KeepFileRequest(chunk=chunk)

        async with reachable():
            answer = await self._stub.KeepFile(requests(), timeout=_KEEP_S)
        return _file(answer.file)

    async def read(self, address: Address, record_id: str, piece: Piece) -> AsyncGenerator[File | bytes]:
        request = wire.ReadFileRequest(
            address=address_of(address),
            record_id=record_id,
            version=piece.version,
            index=piece.index,
            offset=piece.offset,
            length=piece.length,
        )
        async with reachable(), streaming(self._stub.ReadFile(request, timeout=_READ_S)) as answers:
            async for answer in answers:
                yield _file(answer.file) if answer.WhichOneof("part") == "file" else answer.chunk

    async def kept(self, address: Address, file_ids: Sequence[str]) -> frozenset[str]:
        async with reachable():
            answer = await self._stub.KeptFiles(
                wire.KeptFilesRequest(address=address_of(address), file_ids=file_ids)
            )
        return frozenset(answer.file_ids)


def _file(message: record_pb2.File) -> File:
    return File(message.id, message.name, message.media_type, message.bytes, message.version)
