"""Uploads, in Postgres."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from memory_service.domain import errors
from memory_service.domain.files import CUT_SHORT
from memory_service.domain.keyed import Keyed
from memory_service.domain.model import Address, Room, Upload
from service_kit.db import keys
from service_kit.db.pool import Database
from service_kit.db.tx import Row
from service_kit.jobs import Jobs

__all__ = ["CHECK", "PostgresUploads"]

CHECK: Final = "check_uploads"
"""The job that looks for uploads whose records were erased."""
_ROOM: Final = 0x75706C64
"""The first half of the advisory lock of a principal's uploads ("upld"); its hash is the other."""
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresUploads:
    """The verbs of ``domain.file_ports.Uploads``."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    async def begin_upload(self, upload: Upload, room: Room) -> int:
        async with self._database.begin() as tx:
            await tx.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_ROOM, upload.principal))
            taken = await tx.fetch_one(
                "select count(*) as files, coalesce(sum(bytes), 0)::bigint as bytes from upload where principal = %s",
                (upload.principal,),
            )
            files, used = (taken["files"], taken["bytes"]) if taken is not None else (0, 0)
            left = min(upload.bytes, room.bytes - used)
            if files >= room.files or left <= 0:
                raise errors.uploads_full(room)
            await tx.execute(
                "insert into upload (id, principal, name, bytes, created_at) values (%s, %s, %s, %s, %s)",
                (upload.id, upload.principal, upload.name, left, upload.created_at),
            )
        return left

    async def finish(self, upload: Upload, key: Keyed) -> str:
        async with self._database.begin() as tx:
            earlier = await keys.claim(tx, key.principal, key.operation, key.idempotency)
            if earlier is not None:
                return earlier.decode()
            await tx.execute(
                "update upload set media_type = %s, bytes = %s, sha256 = %s, purpose = %s, operation = %s, key = %s,"
                " complete = true where id = %s",
                (
                    upload.media_type,
                    upload.bytes,
                    upload.sha256,
                    upload.purpose,
                    key.operation if key else None,
                    key.idempotency.key if key else None,
                    upload.id,
                ),
            )
            kept = await keys.settle(tx, key.principal, key.operation, key.idempotency, upload.id.encode())
        return kept.decode()

    async def get(self, file_ids: Sequence[str], principal: str) -> Mapping[str, Upload]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select id, principal, name, media_type, bytes, sha256, purpose, created_at from upload"
                " where id = any(%s) and principal = %s and complete",
                (list(file_ids), principal),
            )
        return {row["id"]: _upload(row) for row in rows}

    async def note_kept(self, file_ids: Sequence[str], memory_id: str) -> None:
        async with self._database.begin() as tx:
            await tx.execute(
                "insert into upload_kept (file_id, memory_id) select id, %s from upload where id = any(%s)"
                " on conflict (memory_id, file_id) do update set created_at = now()",
                (memory_id, list(file_ids)),
            )

    async def kept_in(self, memory_id: str, before: datetime) -> tuple[str, ...]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select file_id from upload_kept where memory_id = %s and created_at < %s order by file_id",
                (memory_id, before),
            )
        return tuple(row["file_id"] for row in rows)

    async def enqueue_check(self, address: Address) -> None:
        async with self._database.begin() as tx:
            given = await tx.fetch_value(
                "select exists (select 1 from upload_kept where memory_id = %s)", (address.memory_id,)
            )
            if given:
                payload = {"provider": address.provider, "memory_id": address.memory_id}
                # By then nothing of what was given by now can still be on its way.
                await self._jobs.defer(tx, CHECK, payload, after_s=CUT_SHORT.total_seconds() + 60)

    async def hide(self, file_ids: Sequence[str]) -> None:
        async with self._database.begin() as tx:
            await tx.execute(
                "update upload set complete = false, created_at = %s where id = any(%s)",
                (_NEVER, list(file_ids)),
            )

    async def old(self, complete: datetime, incomplete: datetime, limit: int) -> tuple[str, ...]:
        async with self._database.read() as tx:
            rows = await tx.fetch_all(
                "select id from upload where (complete and created_at < %s)"
                " or (not complete and created_at < %s) limit %s",
                (complete, incomplete, limit),
            )
        return tuple(row["id"] for row in rows)

    async def remove(self, file_ids: Sequence[str]) -> None:
        async with self._database.begin() as tx:
            rows = await tx.fetch_all(
                "delete from upload where id = any(%s) returning principal, operation, key", (list(file_ids),)
            )
            # No hash is left that a guess at what it was could be tried on.
            await tx.execute_many(
                "delete from answered where principal = %s and operation = %s and key = %s",
                [(row["principal"], row["operation"], row["key"]) for row in rows if row["key"] is not None],
            )


def _upload(row: Row) -> Upload:
    return Upload(
        id=row["id"],
        principal=row["principal"],
        name=row["name"],
        created_at=row["created_at"],
        media_type=row["media_type"],
        bytes=row["bytes"],
        sha256=row["sha256"],
        purpose=row["purpose"],
    )
