"""Names for instants of a memory (Memories, section 5.3)."""

from typing import Final

import msgspec

from memory_service.domain import errors
from memory_service.domain.keyed import Keyed
from memory_service.domain.model import Page, Privilege, Snapshot, SnapshotPage
from memory_service.domain.place import Placing, capabilities_of
from memory_service.domain.ports import AccessTree, Descriptions, Provider, SnapshotStore
from memory_service.domain.records import writer
from service_kit.idempotency import Idempotency
from service_kit.ids import new_id

MAX_NAME: Final = 200
"""Longest name, in characters."""
MAX_MESSAGE: Final = 4_000
"""Longest message, in characters."""
MAX_SNAPSHOTS: Final = 1_000
"""Most snapshots of one memory."""

_CREATE: Final = "create_snapshot"
_DELETE: Final = "delete_snapshot"
_answers: Final = msgspec.json.Decoder(Snapshot)


class Snapshots:
    """The use cases of snapshots."""

    def __init__(
        self, access: AccessTree, descriptions: Descriptions, provider: Provider, kept: SnapshotStore
    ) -> None:
        self._placing = Placing(access, descriptions)
        self._provider = provider
        self._kept = kept

    async def create(self, memory_id: str, name: str, message: str, idempotency: Idempotency) -> Snapshot:
        """Names the present instant. Needs ``write``.

        The provider says which instant no write is across; only then is the name kept, so a name that is
        refused has cost an instant and nothing else.
        """
        address, _ = await self._placing.address(memory_id, Privilege.WRITE)
        _check(name, message)
        if not (await capabilities_of(self._provider, address.provider)).snapshots:
            raise errors.unsupported("snapshots")
        at = await self._provider.snapshot(address)
        made = Snapshot(new_id("hsnap"), memory_id, name, message, at, writer())
        key = Keyed.of(_CREATE, idempotency)
        async with self._kept.begin() as tx:
            done = await tx.claim(key)
            if done is not None:
                return _answers.decode(done)
            await tx.add(made, MAX_SNAPSHOTS)
            await tx.settle(key, msgspec.json.encode(made), memory_id)
        return made

    async def list(self, memory_id: str, page: Page) -> SnapshotPage:
        """Newest first. Needs ``read``."""
        await self._placing.address(memory_id, Privilege.READ)
        return await self._kept.list(memory_id, page)

    async def get(self, memory_id: str, snapshot_id: str) -> Snapshot:
        """One of them. Needs ``read``."""
        await self._placing.address(memory_id, Privilege.READ)
        return _found(await self._kept.get(memory_id, snapshot_id))

    async def delete(self, memory_id: str, snapshot_id: str, idempotency: Idempotency) -> Snapshot:
        """Forgets the name; the records are as they were. Needs ``write``; answers it as it was."""
        await self._placing.address(memory_id, Privilege.WRITE)
        key = Keyed.of(_DELETE, idempotency)
        async with self._kept.begin() as tx:
            done = await tx.claim(key)
            if done is not None:
                return _answers.decode(done)
            gone = _found(await tx.remove(memory_id, snapshot_id))
            await tx.settle(key, msgspec.json.encode(gone), memory_id)
        return gone


def _found(one: Snapshot | None) -> Snapshot:
    if one is None:
        raise errors.snapshot_not_found()
    return one


def _check(name: str, message: str) -> None:
    if not name.strip():
        raise errors.invalid("A snapshot needs a name.", "name")
    if len(name) > MAX_NAME:
        raise errors.invalid(f"A snapshot's name has at most {MAX_NAME} characters.", "name")
    if len(message) > MAX_MESSAGE:
        raise errors.invalid(f"A snapshot's message has at most {MAX_MESSAGE} characters.", "message")
