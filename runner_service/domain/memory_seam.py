"""Where a session's memory comes from and goes to (Memories §9): which memories, which one by default,
what an agent is told of them, and what may be done there.
"""

from collections.abc import Sequence

from runner_service.domain import errors
from runner_service.domain.errors import GroveError
from runner_service.domain.model import Attachment, Priming, Reach, Session
from runner_service.domain.ports import Access, Memory
from service_kit.ids import is_id

__all__ = ["Seam", "narrowing", "reach"]


def reach(session: Session, attachments: Sequence[Attachment], *, may_write: bool) -> Reach:
    """The attached memories, and the one the task named.

    ``may_write`` is whether the harness may write the latter. An attachment of the same memory narrows
    it: attached to read, it is read, whoever names it.
    """
    default = next((one.memory_id for one in attachments if one.is_default), "")
    named = session.memory_id
    if not named:
        return Reach(tuple(attachments), default)
    same = next((one for one in attachments if one.memory_id == named), None)
    if same is not None:
        return Reach(tuple(attachments), named if same.access == "write" and may_write else default)
    extra = Attachment(named, "write" if may_write else "read")
    return Reach((*attachments, extra), named if may_write else default)


def narrowing(session: Session, attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """What caps the harness in this session: its attachments. The task's own memory is not capped
    unless it is attached too; there the harness's grants alone decide.
    """
    if not session.memory_id or any(one.memory_id == session.memory_id for one in attachments):
        return tuple(attachments)
    return (*attachments, Attachment(session.memory_id, "write"))


class Seam:
    """The server's own moments of a session: reach, what may be read of it still, and prime. (Observe is a job.)"""

    def __init__(self, access: Access, memory: Memory) -> None:
        self._access: Access = access
        self._memory: Memory = memory

    async def check_named(self, session: Session, attachments: Sequence[Attachment]) -> None:
        """``memory_not_found`` unless the harness holds something on the memory this session's task names (§9)."""
        if not is_id("hmem", session.memory_id):
            # Nothing has such an id, and no passport is narrowed to it.
            raise errors.memory_not_found("metadata.memory")
        caps = narrowing(session, attachments)
        async with self._access.as_harness(session.harness_id, session.id, caps):
            try:
                await self._access.privileges(session.memory_id)
            except GroveError as error:
                if error.code != "memory_not_found":
                    raise
                raise errors.memory_not_found("metadata.memory") from None

    async def reach(self, session: Session, attachments: Sequence[Attachment]) -> Reach:
        """What this turn starts from, as the grants stand now."""
        if not session.memory_id:
            return reach(session, attachments, may_write=False)
        try:
            async with self._access.as_harness(
                session.harness_id, session.id, narrowing(session, attachments)
            ):
                held = await self._access.privileges(session.memory_id)
        except GroveError as error:
            if error.code not in {"memory_not_found", "memory_forbidden"}:
                raise
            held = frozenset[str]()
        return reach(session, attachments, may_write="write" in held)

    async def readable(
        self, session: Session, attachments: Sequence[Attachment], memory_ids: frozenset[str]
    ) -> frozenset[str]:
        """Which of these the harness may read now, in this session."""
        if not memory_ids:
            return memory_ids
        async with self._access.as_harness(session.harness_id, session.id, narrowing(session, attachments)):
            return await self._access.readable(sorted(memory_ids))

    async def prime(self, session: Session, attachments: Sequence[Attachment], where: Reach) -> Priming:
        """What this session's agent is told of its memories; see ``Session.priming``."""
        if not where.attachments:
            return Priming("", ())
        async with self._access.as_harness(session.harness_id, session.id, narrowing(session, attachments)):
            return await self._memory.prime(where.attachments, where.default)
