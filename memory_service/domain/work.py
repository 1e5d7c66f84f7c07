"""Background work: of every memory for operators, of one for its readers (no section of the chapter asks for it).
No contents.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from memory_service.domain import errors
from memory_service.domain.model import Address, Job, JobPage, Page, Privilege
from memory_service.domain.place import Placing
from memory_service.domain.ports import AccessTree, Descriptions
from service_kit.identity import current_passport
from service_kit.ids import is_id

__all__ = ["Acts", "BackgroundWork", "Backlogs", "Derivations"]

RETRY: Final = "job.retry"


class Derivations(Protocol):
    """The jobs of the connected providers."""

    async def jobs(self, statuses: Sequence[str], page: Page) -> JobPage:
        """Of every memory, newest first."""
        ...

    async def retry(self, job_id: str) -> Job:
        """A failed job, begun again. ``grovekeeper_not_found``, ``grovekeeper_conflict``."""
        ...

    async def backlog(self, address: Address) -> object:
        """What is still to be derived in one memory: the provider's own answer, carried and never looked into.
        ``memory_unsupported``, ``memory_unavailable``.
        """
        ...


class Acts(Protocol):
    """The audit, which authz keeps."""

    async def record(self, action: str, memory_id: str, **detail: str) -> None:
        """Adds what the caller is about to do, if it may: else ``memory_not_found``, ``memory_forbidden`` or
        ``insufficient_scope``.
        """
        ...


class BackgroundWork:
    """The use cases; all need the scope ``admin``."""

    def __init__(self, derivations: Derivations, acts: Acts) -> None:
        self._derivations = derivations
        self._acts = acts

    async def list(self, statuses: Sequence[str], page: Page) -> JobPage:
        """Jobs of every memory, newest first; without ``statuses`` those that have not ended well."""
        current_passport().require_scope("admin")
        return await self._derivations.jobs(statuses, page)

    async def retry(self, job_id: str) -> Job:
        """Begins a failed job again; the audit says who did."""
        current_passport().require_scope("admin")
        if not is_id("hjob", job_id):
            raise errors.job_not_found()
        await self._acts.record(RETRY, "", job=job_id)
        return await self._derivations.retry(job_id)


class Backlogs:
    """What is still to be derived in a memory."""

    def __init__(self, access: AccessTree, descriptions: Descriptions, derivations: Derivations) -> None:
        self._placing = Placing(access, descriptions)
        self._derivations = derivations

    async def of(self, memory_id: str) -> object:
        """Of one memory. Needs ``read``."""
        address, _ = await self._placing.address(memory_id, Privilege.READ)
        return await self._derivations.backlog(address)
