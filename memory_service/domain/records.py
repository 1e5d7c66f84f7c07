"""The operations on one memory's records (Memories, section 5), each after its access check."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memory_service.domain import errors
from memory_service.domain.erase import Copies
from memory_service.domain.files import Files
from memory_service.domain.model import (
    Address,
    Erased,
    Idempotency,
    Job,
    Node,
    Observed,
    Page,
    Privilege,
    Record,
    RecordPage,
    Stamp,
    Stated,
    Writer,
)
from memory_service.domain.place import Placing, capabilities_of
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from memory_service.domain.references import References
from memory_service.domain.types import Registry, compiled
from memory_service.domain.work import Acts
from service_kit.attributes import projection
from service_kit.identity import current_passport


class Records:
    """The use cases of records."""

    def __init__(
        self,
        access: AccessTree,
        descriptions: Descriptions,
        provider: Provider,
        acts: Acts,
        files: Files,
        registry: Registry,
    ) -> None:
        self._placing = Placing(access, descriptions)
        self._provider = provider
        self._files = files
        self._references = References(access, descriptions, provider)
        self._registry = registry
        self._copies = Copies(access, descriptions, files, acts)

    async def observe(self, memory_id: str, episodes: Sequence[Stated], idempotency: Idempotency) -> Observed:
        """Appends episodes; the provider decides what to derive. Needs ``write``."""
        address, _ = await self._placing.address(memory_id, Privilege.WRITE)
        episodes = await self._files.keep(address, episodes)
        observed = await self._provider.observe(address, episodes, _stamp(idempotency))
        return replace(observed, records=await self._references.resolve(observed.records))

    async def job(self, memory_id: str, job_id: str) -> Job:
        """A job of this memory. Whoever may read or write sees how it stands, only readers what it wrote."""
        address, node = await self._placing.address(memory_id, None)
        if not node.permits(Privilege.READ):
            address, node = await self._placing.address(memory_id, Privilege.WRITE)
        job = await self._provider.job(address, job_id)
        visible = job.records if node.permits(Privilege.READ) else ()
        return replace(job, records=await self._references.resolve(visible))

    async def remember(self, memory_id: str, draft: Stated, idempotency: Idempotency) -> Record:
        """Writes one record as stated. Needs ``write``."""
        address, _ = await self._placing.address(memory_id, Privilege.WRITE)
        (draft,) = await self._files.keep(address, [await self._fitting(address, draft.type, draft)])
        return await self._one(await self._provider.remember(address, draft, _stamp(idempotency)))

    async def get(self, memory_id: str, record_id: str, as_of: datetime | None) -> Record:
        """One record. Needs ``read``."""
        address, _ = await self._placing.address(memory_id, Privilege.READ)
        return await self._one(await self._provider.get(address, record_id, as_of))

    async def list(self, memory_id: str, selection: Stated, page: Page) -> RecordPage:
        """Records, newest first. Needs ``read``."""
        address, _ = await self._placing.address(memory_id, Privilege.READ)
        found = await self._provider.list(address, selection, page)
        return replace(found, records=await self._references.resolve(found.records))

    async def revise(
        self, memory_id: str, record_id: str, changes: Stated, expected_version: int, idempotency: Idempotency
    ) -> Record:
        """Appends a version. Needs ``write``."""
        address, node = await self._placing.address(memory_id, Privilege.WRITE)
        if changes.attributes is not None:
            kind = (await self._provider.get(address, record_id, None)).type
            changes = await self._fitting(address, kind, changes)
        (changes,) = await self._files.keep(address, [changes])
        stamp = _stamp(idempotency)
        return await self._shown(
            node, await self._provider.revise(address, record_id, changes, expected_version, stamp)
        )

    async def forget(
        self, memory_id: str, record_id: str, expected_version: int, idempotency: Idempotency
    ) -> Record:
        """Closes a record. Needs ``write``."""
        address, node = await self._placing.address(memory_id, Privilege.WRITE)
        stamp = _stamp(idempotency)
        return await self._shown(
            node, await self._provider.forget(address, record_id, expected_version, stamp)
        )

    async def erase(self, memory_id: str, record_ids: Sequence[str], idempotency: Idempotency) -> Erased:
        """Removes content for good, here and from derived copies the caller may erase. Needs ``delete``."""
        address, _ = await self._placing.address(memory_id, Privilege.DELETE)
        if not (await capabilities_of(self._provider, address.provider)).erase:
            raise errors.unsupported("erase")
        return await self._copies.erase(address, record_ids, _stamp(idempotency))

    async def history(self, memory_id: str, record_id: str, as_of: datetime | None) -> tuple[Record, ...]:
        """Every version, oldest first, or those there were at ``as_of``. Needs ``read``."""
        address, _ = await self._placing.address(memory_id, Privilege.READ)
        return await self._references.resolve(await self._provider.history(address, record_id, as_of))

    async def _fitting(self, address: Address, kind: str, stated: Stated) -> Stated:
        """What satisfies the schema of its type, with the words it is found by; ``memory_invalid`` if it does not
        (section 8). Of a type that is not registered it is carried as it is.
        """
        found = await self._registry.find(kind, address.provider)
        if found is None:
            return replace(stated, projection="")
        attributes = stated.attributes or b"{}"
        compiled(found.schema).check(attributes, "attributes")
        return replace(stated, projection=projection(attributes, found.projection))

    async def _shown(self, node: Node, record: Record) -> Record:
        """A record that was written, as its writer may see it: what it says is for readers (section 3.1)."""
        if not node.permits(Privilege.READ):
            return replace(record, withheld=True)
        return await self._one(record)

    async def _one(self, record: Record) -> Record:
        return (await self._references.resolve([record]))[0]


def writer() -> Writer:
    """The authenticated caller as a record's writer (section 13: stamped, never supplied)."""
    passport = current_passport()
    return Writer(passport.kind, passport.id)


def _stamp(idempotency: Idempotency) -> Stamp:
    return Stamp(writer(), idempotency)
