"""What the use cases of files need from outside (Memories, section 7)."""

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from memory_service.domain.keyed import Keyed
from memory_service.domain.model import Address, File, Piece, Room, Upload


class ProviderFiles(Protocol):
    """The files of the connected providers. ``memory_unavailable`` when one does not answer."""

    async def keep(self, address: Address, file: File, chunks: AsyncIterable[bytes]) -> File:
        """Keeps the bytes for this memory; answers the file with its version. What is kept already is not read."""
        ...

    def read(self, address: Address, record_id: str, piece: Piece) -> AsyncGenerator[File | bytes]:
        """The file that a record's content names, then its bytes. ``memory_record_not_found``, ``file_not_found``."""
        ...

    async def kept(self, address: Address, file_ids: Sequence[str]) -> frozenset[str]:
        """Which of these files the memory keeps."""
        ...


class Stored(Protocol):
    """What was written."""

    @property
    def bytes(self) -> int:
        """How many."""
        ...

    @property
    def sha256(self) -> str:
        """Their hash, in hex."""
        ...


class Objects(Protocol):
    """The bytes of uploads. ``grovekeeper_unavailable`` when the store does not answer."""

    async def put(self, key: str, chunks: AsyncIterable[bytes], limit: int) -> Stored:
        """Writes an object whole or not at all, durably. ``file_too_large``; what ``chunks`` raises is raised."""
        ...

    def read(self, key: str, offset: int, length: int) -> AsyncGenerator[bytes]:
        """So many bytes of it. ``file_not_found`` when it is gone."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Deletes objects, those that are not there too."""
        ...


class Uploads(Protocol):
    """What this service keeps of uploads. Each verb is one transaction."""

    async def begin_upload(self, upload: Upload, room: Room) -> int:
        """Says that bytes are about to come, ``upload.bytes`` at most. Answers how many of them the principal has room
        for, which is kept for this upload until it is finished or removed; ``quota_exhausted`` for none.
        """
        ...

    async def finish(self, upload: Upload, key: Keyed) -> str:
        """The upload is there, whole; answers its id, or that of the same one which was sent under the key before.
        ``grovekeeper_idempotency_mismatch``.
        """
        ...

    async def get(self, file_ids: Sequence[str], principal: str) -> Mapping[str, Upload]:
        """Those of them that are there, whole, and belong to the principal."""
        ...

    async def note_kept(self, file_ids: Sequence[str], memory_id: str) -> None:
        """Says that a memory is about to keep them."""
        ...

    async def kept_in(self, memory_id: str, before: datetime) -> tuple[str, ...]:
        """The uploads that a memory was given before a moment."""
        ...

    async def enqueue_check(self, address: Address) -> None:
        """Enqueues the check of the uploads a memory was given, if there are any, for a while from now."""
        ...

    async def hide(self, file_ids: Sequence[str]) -> None:
        """From now on they are not there; the next sweep removes what is left of them."""
        ...

    async def old(self, complete: datetime, incomplete: datetime, limit: int) -> tuple[str, ...]:
        """Those that came before a moment, and those that did not come whole before another."""
        ...

    async def remove(self, file_ids: Sequence[str]) -> None:
        """Lets go of them, once their bytes are gone."""
        ...
