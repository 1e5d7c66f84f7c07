"""The files of records: bytes in the object store, one row each, and the words found in them.

A row is written before its bytes and deleted after them: the store holds nothing that no row knows of, whatever
dies in between. Rows are locked after records, in the order of their ids.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from provider_workers.adapters.native.extraction import Extraction
from provider_workers.adapters.native.rows import parts_of
from provider_workers.domain import checks, errors, limits
from provider_workers.domain.model import Draft, File, Part, Place
from service_kit.db.pool import Database
from service_kit.db.tx import Row, Tx
from service_kit.errors import GroveError
from service_kit.identity import passport_or_none
from service_kit.ids import new_id
from service_kit.objects.store import Objects, Stored

__all__ = ["EXTRACTED", "Files"]

EXTRACTED: Final = "extracted"
"""``text_source`` of words that were found in the bytes."""

_BATCH: Final = 100
_VERSION: Final = 32  # characters of a hash: as many as nobody can find two files for
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Files:
    """What the native provider keeps of files. ``objects`` None: none are kept."""

    def __init__(
        self, database: Database, objects: Objects | None, extraction: Extraction, limit: int
    ) -> None:
        self._database = database
        self._store = objects
        self._extraction = extraction
        self._limit = limit

    async def keep(self, memory_id: str, file: File, chunks: AsyncIterable[bytes]) -> File:
        async with self._database.begin() as tx:
            row = await tx.fetch_one(
                "update kept_file set created_at = now() where memory_id = %s and file_id = %s and kept"
                " returning file_id, name, media_type, bytes, version",
                (memory_id, file.id),
            )
            if row is not None:
                return _file(row)
            made = new_id("hobj")
            await tx.execute(
                "insert into kept_file (memory_id, object, file_id, name, media_type, bytes)"
                " values (%s, %s, %s, %s, %s, %s)",
                (memory_id, made, file.id, file.name, file.media_type, file.bytes),
            )
        key = _key(memory_id, made)
        stored = await self._objects.put(key, chunks, self._limit)
        if stored.bytes != file.bytes:
            await self._drop(memory_id, made)
            raise errors.invalid(
                "The bytes of the file are not as many as it was said to have.", "file.bytes"
            )
        passport = passport_or_none()
        try:
            text = await self._extraction.words(
                memory_id if passport is None else passport.principal,
                file.media_type,
                stored.bytes,
                self._objects.read(key, 0, stored.bytes),
            )
        except GroveError:
            await self._drop(memory_id, made)
            raise
        return await self._kept(memory_id, made, replace(file, version=_version(stored)), text)

    async def _kept(self, memory_id: str, made: str, file: File, text: str) -> File:
        """Says that the bytes are there, unless another call said it first, or the memory was purged meanwhile."""
        async with self._database.begin() as tx:
            # One at a time of those that keep the same file.
            await tx.execute(
                "select 1 from kept_file where memory_id = %s and file_id = %s order by object for update",
                (memory_id, file.id),
            )
            done = await tx.execute(
                "update kept_file k set kept = true, version = %s, text = %s, created_at = now()"
                " where memory_id = %s and object = %s and not exists (select 1 from kept_file o"
                " where o.memory_id = k.memory_id and o.file_id = k.file_id and o.kept)",
                (file.version, text.replace("\0", ""), memory_id, made),
            )
        if not done:
            await self._drop(memory_id, made)
        return file

    async def _drop(self, memory_id: str, made: str) -> None:
        await self._objects.delete([_key(memory_id, made)])
        async with self._database.begin() as tx:
            await tx.execute(
                "delete from kept_file where memory_id = %s and object = %s and not kept", (memory_id, made)
            )

    async def read(self, memory_id: str, record_id: str, place: Place) -> tuple[File, AsyncGenerator[bytes]]:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select content from version where memory_id = %(memory)s and record_id = %(record)s"
                " and %(version)s in (0, version) order by version desc limit 1",
                {"memory": memory_id, "record": record_id, "version": place.version},
            )
            if row is None:
                raise errors.record_not_found()
            named = _named(parts_of(row["content"]), place.index)
            kept = await tx.fetch_one(
                "select object, bytes from kept_file where memory_id = %s and file_id = %s and kept",
                (memory_id, named.id),
            )
        if kept is None:
            raise errors.file_not_found()
        start, length = _range(place, kept["bytes"])
        return named, self._objects.read(_key(memory_id, kept["object"]), start, length)

    async def kept(self, memory_id: str, file_ids: Sequence[str]) -> frozenset[str]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select file_id from kept_file where memory_id = %s and file_id = any(%s) and kept",
                (memory_id, list(file_ids)),
            )
        return frozenset(row["file_id"] for row in rows)

    async def completed(self, memory_id: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts with what is known of the files they name, and the words found in them where the writer gave
        none. One that names what it may not keeps its id alone, and is refused where the version is written.
        """
        ids = sorted({part.file.id for part in parts if part.file is not None})
        if not ids:
            return parts
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select file_id, name, media_type, bytes, version, named, text from kept_file"
                " where memory_id = %s and file_id = any(%s) and kept",
                (memory_id, ids),
            )
        known = {str(row["file_id"]): row for row in rows}
        room = limits.MAX_CONTENT_BYTES - checks.content_bytes(parts)
        made = list[Part]()
        for part in parts:
            one = part if part.file is None else _completed(part, part.file, known.get(part.file.id), room)
            room -= len(one.text.encode()) - len(part.text.encode())
            made.append(one)
        return tuple(made)

    async def stated(self, memory_id: str, draft: Draft) -> Draft:
        """The draft with its parts completed."""
        return replace(draft, content=await self.completed(memory_id, draft.content))

    async def unnamed(self, tx: Tx, memory_id: str, file_ids: Iterable[str]) -> list[str]:
        """Of these files, whose rows :meth:`hold` holds, those that no version names any more: their bytes and
        rows are deleted.
        """
        rows = await tx.fetch_all(
            "select object, file_id from kept_file k where memory_id = %s and file_id = any(%s) and not exists"
            " (select 1 from version_file v where v.memory_id = k.memory_id and v.file_id = k.file_id)",
            (memory_id, list(file_ids)),
        )
        await self._delete(tx, memory_id, [row["object"] for row in rows])
        return sorted({row["file_id"] for row in rows})

    async def hold(self, tx: Tx, memory_id: str, record_ids: Sequence[str]) -> list[str]:
        """The files that these records name in any version, which nobody else can name until the end."""
        rows = await tx.fetch_all(
            "select distinct file_id from version_file where memory_id = %s and record_id = any(%s)",
            (memory_id, list(record_ids)),
        )
        file_ids = [row["file_id"] for row in rows]
        await tx.execute(
            "select 1 from kept_file where memory_id = %s and file_id = any(%s) order by file_id for update",
            (memory_id, file_ids),
        )
        return file_ids

    async def purge(self, memory_id: str) -> None:
        """Everything of a memory, what a write that is cut short may have left included."""
        if self._store is None:
            return
        await self._store.clear(_folder(memory_id))
        async with self._database.begin() as tx:
            await tx.execute("delete from kept_file where memory_id = %s", (memory_id,))

    async def sweep(self) -> None:
        """Drops what no version named within a day."""
        while self._store is not None and await self._sweep() == _BATCH:
            pass

    async def _sweep(self) -> int:
        async with self._database.begin() as tx:
            rows = await tx.fetch_all(
                "select memory_id, object from kept_file where not named and created_at < now() - interval '1 day'"
                " order by created_at limit %s for update skip locked",
                (_BATCH,),
            )
            for row in rows:
                await self._delete(tx, row["memory_id"], [row["object"]])
        return len(rows)

    async def _delete(self, tx: Tx, memory_id: str, objects: list[str]) -> None:
        if not objects:
            return
        await self._objects.delete([_key(memory_id, one) for one in objects])
        await tx.execute(
            "delete from kept_file where memory_id = %s and object = any(%s)", (memory_id, objects)
        )

    @property
    def _objects(self) -> Objects:
        if self._store is None:
            raise errors.unsupported("files")
        return self._store


def _named(parts: Sequence[Part], index: int) -> File:
    """The file of that part; of the first that has one for -1."""
    if index < 0:
        found = next((part.file for part in parts if part.file is not None), None)
    else:
        found = parts[index].file if index < len(parts) else None
    if found is None:
        raise errors.file_not_found()
    return found


def _range(place: Place, size: int) -> tuple[int, int]:
    start = max(0, size + place.offset) if place.offset < 0 else min(place.offset, size)
    return start, min(place.length or size, size - start)


def _completed(part: Part, file: File, row: Row | None, room: int) -> Part:
    if row is None or (not row["named"] if not file.version else row["version"] != file.version):
        return replace(part, file=File(file.id))
    text, source = part.text, part.text_source
    if not text:
        text = _cut(row["text"], room)
        source = EXTRACTED if text else ""
    elif source == EXTRACTED and not row["text"].startswith(text):
        source = ""  # it is the server's to say that
    return replace(part, file=_file(row), text=text, text_source=source)


def _cut(text: str, room: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= room else encoded[: max(0, room)].decode(errors="ignore")


def _file(row: Row) -> File:
    return File(row["file_id"], row["name"], row["media_type"], row["bytes"], row["version"])


def _version(stored: Stored) -> str:
    return stored.sha256[:_VERSION]


def _folder(memory_id: str) -> str:
    """A name for a memory that is one in every store."""
    return memory_id if _SAFE.fullmatch(memory_id) else sha256(memory_id.encode()).hexdigest()


def _key(memory_id: str, made: str) -> str:
    return f"{_folder(memory_id)}/{made}"
