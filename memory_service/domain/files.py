"""Files: sent once, named by records, read back through them (Memories, section 7; UHP, Files).

An upload belongs to whoever sent it. A record that names it makes its provider keep a copy of the bytes inside the
memory, so that a memory stays one unit and nothing done to the upload reaches its records.
"""

import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, Protocol

from memory_service.domain import errors
from memory_service.domain.file_kinds import HEAD_BYTES, clean_name, media_type_of
from memory_service.domain.file_ports import Objects, ProviderFiles, Uploads
from memory_service.domain.keyed import Keyed
from memory_service.domain.model import Address, Erased, File, Piece, Privilege, Room, Stamp, Stated, Upload
from memory_service.domain.place import Placing, capabilities_of
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from service_kit.clock import Clock
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency
from service_kit.identity import current_passport
from service_kit.ids import new_id
from service_kit.tasks import told_to_stop

__all__ = ["CUT_SHORT", "MAX_FILES", "MAX_PURPOSE", "Files", "Incoming", "Keeping"]

MAX_FILES: Final = 32
"""Different files that one write names."""
MAX_PURPOSE: Final = 64
"""Characters of a purpose."""
CUT_SHORT: Final = timedelta(minutes=20)
"""An upload that is not whole by then, and a file not kept, never will be: every call that could do it is over."""

_BATCH: Final = 100
_UPLOAD: Final = "file.upload"

_log: Final = logging.getLogger(__name__)


class Incoming(Protocol):
    """An upload on its way."""

    name: str
    media_type: str
    idempotency: Idempotency

    def chunks(self) -> AsyncGenerator[bytes]:
        """Its bytes."""
        ...

    def purpose(self, received: int) -> str:
        """What it is for. Asked for after the last chunk: ``invalid_input`` when bytes are missing."""
        ...


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where uploads are kept, and how: ``objects`` None for nowhere."""

    uploads: Uploads
    objects: Objects | None
    limit_bytes: int
    keep_for: timedelta
    room: Room = field(default_factory=Room)


class Files:
    """The use cases of files."""

    def __init__(
        self,
        access: AccessTree,
        descriptions: Descriptions,
        provider: Provider,
        kept: ProviderFiles,
        keeping: Keeping,
        clock: Clock,
    ) -> None:
        self._placing = Placing(access, descriptions)
        self._provider = provider
        self._kept = kept
        self._keeping = keeping
        self._uploads = keeping.uploads
        self._clock = clock

    async def upload(self, incoming: Incoming) -> Upload:
        """Takes a file. It is durable when this answers; of one that breaks off nothing is kept.

        The key is claimed at the end, when there is something to compare: a repeat is the same when name, purpose
        and bytes are.
        """
        principal = current_passport().principal
        made = Upload(new_id("file"), principal, clean_name(incoming.name), self._clock.now())
        _ = self._objects  # refused before anything is written where there are none
        most = replace(made, bytes=self._keeping.limit_bytes)
        made = replace(made, bytes=await self._uploads.begin_upload(most, self._keeping.room))
        finished = ""
        head = _Head(incoming.chunks())
        try:
            made = await self._stored(made, head, incoming)
            finished = await self._uploads.finish(made, _keyed(made, incoming.idempotency))
        finally:
            # However it ended, also with its sender gone in the middle of it.
            if finished != made.id:
                await self._abandon(made.id, whole=head.ended)
        return made if finished == made.id else await self.get(finished)

    async def _stored(self, made: Upload, head: "_Head", incoming: Incoming) -> Upload:
        """The upload, once its bytes are kept: at most as many as there is room for."""
        try:
            stored = await self._objects.put(made.id, head.chunks(), made.bytes)
        except GroveError as error:
            if error.code == "file_too_large" and made.bytes < self._keeping.limit_bytes:
                raise errors.uploads_full(self._keeping.room) from None
            raise
        purpose = incoming.purpose(stored.bytes)
        if len(purpose) > MAX_PURPOSE or not purpose.isprintable():
            raise errors.invalid(f"A purpose has at most {MAX_PURPOSE} printable characters.", "purpose")
        return replace(
            made,
            media_type=media_type_of(head.bytes, made.name, incoming.media_type),
            bytes=stored.bytes,
            sha256=stored.sha256,
            purpose=purpose,
        )

    async def _abandon(self, file_id: str, *, whole: bool) -> None:
        """Lets go of an upload that came to nothing. What this cannot do the sweep does."""
        try:
            await self._uploads.hide([file_id])
            await self._objects.delete([file_id])
            # A store that has it all may put it in place even now: then the row stays, for the sweep.
            if not (whole and told_to_stop()):
                await self._uploads.remove([file_id])
        except GroveError as error:
            _log.warning("an upload is left to the sweep: %s", error.message)

    async def get(self, file_id: str) -> Upload:
        """The caller's own upload."""
        found = await self._uploads.get([file_id], current_passport().principal)
        if file_id not in found:
            raise errors.file_not_found()
        return found[file_id]

    async def content(self, memory_id: str, record_id: str, piece: Piece) -> AsyncGenerator[File | bytes]:
        """A file that a record names, then the bytes asked for. Needs ``read``."""
        address, _ = await self._placing.address(memory_id, Privilege.READ)
        await self._require_files(address)
        async for one in self._kept.read(address, record_id, piece):
            yield one

    async def keep(self, address: Address, stated: Sequence[Stated]) -> list[Stated]:
        """What is stated, once the provider keeps every upload of the caller that it names.

        A file that is not the caller's upload is left to the provider, which knows whether a record of this memory
        names it already.
        """
        wanted = list(dict.fromkeys(one for each in stated for one in each.files))
        if not wanted:
            return list(stated)
        await self._require_files(address)
        if len(wanted) > MAX_FILES:
            raise errors.invalid(f"A write names at most {MAX_FILES} files.", "content")
        owned = await self._uploads.get(wanted, current_passport().principal)
        if owned:
            await self._uploads.note_kept(list(owned), address.memory_id)
        vouched = {one.id: await self._keep(address, one) for one in owned.values()}
        return [
            replace(one, vouched={id_: vouched[id_] for id_ in one.files if id_ in vouched}) for one in stated
        ]

    async def _keep(self, address: Address, upload: Upload) -> File:
        file = File(upload.id, upload.name, upload.media_type, upload.bytes)
        return await self._kept.keep(address, file, self._objects.read(upload.id, 0, upload.bytes))

    async def erase(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        """Erases records at their provider, and the uploads of the files that went with them.

        Should this die before it hears which those are, a job finds out. Should the store fail by then, this fails
        though the records are gone: nobody reaches the uploads any more, and a repeat under the same key, or the
        sweep, deletes their bytes.
        """
        await self.forget(address)
        erased = await self._provider.erase(address, record_ids, stamp)
        await self._remove(erased.file_ids)
        return erased

    async def forget(self, address: Address) -> None:
        """Enqueues :meth:`check` for a memory that is about to lose files."""
        await self._uploads.enqueue_check(address)

    async def check(self, address: Address) -> None:
        """Removes the uploads that a memory was given and keeps no more. Safe to run again."""
        given = await self._uploads.kept_in(address.memory_id, self._clock.now() - CUT_SHORT)
        for start in range(0, len(given), _BATCH):
            some = given[start : start + _BATCH]
            there = await self._kept.kept(address, some)
            await self._remove([one for one in some if one not in there])

    async def sweep(self) -> None:
        """Removes uploads whose time is up, and what is left of those that broke off."""
        now = self._clock.now()
        while old := await self._uploads.old(now - self._keeping.keep_for, now - CUT_SHORT, _BATCH):
            await self._objects.delete(old)
            await self._uploads.remove(old)

    async def _remove(self, file_ids: Sequence[str]) -> None:
        """Nobody reaches these uploads from now on; their bytes are gone when this answers, else the sweep's."""
        if file_ids:
            await self._uploads.hide(file_ids)
            await self._objects.delete(file_ids)
            await self._uploads.remove(file_ids)

    async def _require_files(self, address: Address) -> None:
        """A provider that keeps no files is not asked to (section 10.3: never approximated in silence)."""
        if not (await capabilities_of(self._provider, address.provider)).files:
            raise errors.unsupported("files")

    @property
    def _objects(self) -> Objects:
        if self._keeping.objects is None:
            raise errors.keeps_no_files()
        return self._keeping.objects


class _Head:
    """Remembers how a stream of bytes began."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks
        self.bytes: bytes = b""
        self.ended: bool = False

    async def chunks(self) -> AsyncGenerator[bytes]:
        """What is remembered."""
        async for chunk in self._chunks:
            if len(self.bytes) < HEAD_BYTES:
                self.bytes += chunk[: HEAD_BYTES - len(self.bytes)]
            yield chunk
        self.ended = True


def _keyed(upload: Upload, idempotency: Idempotency) -> Keyed:
    said = f"{upload.name}\0{upload.purpose}\0{upload.sha256}".encode()
    return Keyed.of(_UPLOAD, Idempotency(idempotency.key, hashlib.sha256(said).digest()))
