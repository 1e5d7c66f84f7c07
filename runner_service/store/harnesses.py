"""Harnesses and their attached memories, in Postgres."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from runner_service.domain import errors
from runner_service.domain.model import Attachment, Configuration, Harness, Idempotency
from runner_service.store import rows
from runner_service.store.keys import remember, remembered
from service_kit.db.pool import Database
from service_kit.db.tx import Tx

_CREATE: Final = "create_harness"
_ATTACH: Final = "attach_memories"


class PostgresHarnesses:
    """The verbs of ``domain.ports.HarnessStore``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database

    async def add_harness(self, harness: Harness, idempotency: Idempotency) -> Harness:
        async with self._database.begin() as tx:
            first = await remember(tx, harness.owner, _CREATE, idempotency, harness.id)
            if first is not None:
                return await _made(tx, first)
            row = {
                **asdict(harness.configuration),
                "disabled_tools": list(harness.configuration.disabled_tools),
            }
            added = await tx.execute(
                "insert into harness (id, owner, base, name, default_model, system_prompt, disabled_tools,"
                " max_step, timeout_seconds, is_default, created_at)"
                " values (%(id)s, %(owner)s, %(base)s, %(name)s, %(default_model)s, %(system_prompt)s,"
                " %(disabled_tools)s, %(max_step)s, %(timeout_seconds)s, %(is_default)s, %(created_at)s)"
                " on conflict (owner, base) where is_default and deleted_at is null do nothing",
                {
                    **row,
                    "id": harness.id,
                    "owner": harness.owner,
                    "base": harness.base,
                    "is_default": harness.is_default,
                    "created_at": harness.created_at,
                },
            )
            if added:
                return harness
            known = await tx.fetch_one(
                "select * from harness where owner = %s and base = %s and is_default and deleted_at is null",
                (harness.owner, harness.base),
            )
            return harness if known is None else rows.harness(known)

    async def harness(self, owner: str, harness_id: str) -> Harness | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select * from harness where id = %s and owner = %s and deleted_at is null",
                (harness_id, owner),
            )
        return None if row is None else rows.harness(row)

    async def default_harness(self, owner: str, base: str) -> Harness | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select * from harness where owner = %s and base = %s and is_default and deleted_at is null",
                (owner, base),
            )
        return None if row is None else rows.harness(row)

    async def harnesses(self, owner: str) -> tuple[Harness, ...]:
        async with self._database.read() as tx:
            found = await tx.fetch_all(
                "select * from harness where owner = %s and deleted_at is null order by created_at, id",
                (owner,),
            )
        return tuple(rows.harness(row) for row in found)

    async def change_harness(
        self, owner: str, harness_id: str, configuration: Configuration
    ) -> Harness | None:
        async with self._database.begin() as tx:
            row = await tx.fetch_one(
                "update harness set name = %(name)s, default_model = %(default_model)s,"
                " system_prompt = %(system_prompt)s, disabled_tools = %(disabled_tools)s,"
                " max_step = %(max_step)s, timeout_seconds = %(timeout_seconds)s"
                " where id = %(id)s and owner = %(owner)s and deleted_at is null returning *",
                {
                    **asdict(configuration),
                    "disabled_tools": list(configuration.disabled_tools),
                    "id": harness_id,
                    "owner": owner,
                },
            )
        return None if row is None else rows.harness(row)

    async def delete_harness(self, owner: str, harness_id: str) -> bool:
        async with self._database.begin() as tx:
            return bool(
                await tx.execute(
                    "update harness set deleted_at = now()"
                    " where id = %s and owner = %s and deleted_at is null",
                    (harness_id, owner),
                )
            )

    async def attached_before(self, owner: str, idempotency: Idempotency) -> bool:
        if not idempotency.key:
            return False
        async with self._database.read() as tx:
            return await remembered(tx, owner, _ATTACH, idempotency) is not None

    async def attach(
        self, owner: str, harness_id: str, attachments: Sequence[Attachment], idempotency: Idempotency
    ) -> None:
        async with self._database.begin() as tx:
            if await remember(tx, owner, _ATTACH, idempotency, harness_id) is not None:
                return
            # Two replacements at a time must not be mixed.
            await tx.execute("select 1 from harness where id = %s for update", (harness_id,))
            await tx.execute("delete from attachment where harness_id = %s", (harness_id,))
            await tx.execute(
                "insert into attachment (harness_id, position, memory_id, access, is_default)"
                " select %s, position, memory_id, access, is_default"
                " from unnest(%s::text[], %s::text[], %s::boolean[]) with ordinality"
                " as one (memory_id, access, is_default, position)",
                (
                    harness_id,
                    [one.memory_id for one in attachments],
                    [one.access for one in attachments],
                    [one.is_default for one in attachments],
                ),
            )

    async def attachments(self, harness_id: str) -> tuple[Attachment, ...]:
        async with self._database.read() as tx:
            return await attached(tx, harness_id)


async def attached(tx: Tx, harness_id: str) -> tuple[Attachment, ...]:
    """The memories a harness is attached to, in order."""
    found = await tx.fetch_all(
        "select memory_id, access, is_default from attachment where harness_id = %s order by position",
        (harness_id,),
    )
    return tuple(rows.attachment(row) for row in found)


async def _made(tx: Tx, harness_id: str) -> Harness:
    """What a keyed create made; deleted since, it is not there."""
    row = await tx.fetch_one("select * from harness where id = %s and deleted_at is null", (harness_id,))
    if row is None:
        raise errors.harness_not_found()
    return rows.harness(row)
