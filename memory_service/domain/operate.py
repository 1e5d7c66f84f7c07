"""Operations of extension types on a record (Memories, section 8), each after its access check."""

from dataclasses import replace

from memory_service.domain import errors
from memory_service.domain.model import Privilege, Stamp
from memory_service.domain.place import Placing, capabilities_of
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from memory_service.domain.record_types import Operate, Operated
from memory_service.domain.records import writer
from memory_service.domain.references import References
from memory_service.domain.types import Registry, compiled
from service_kit.idempotency import Idempotency


class Operating:
    """The use case of ``memory_operate``."""

    def __init__(
        self, access: AccessTree, descriptions: Descriptions, provider: Provider, registry: Registry
    ) -> None:
        self._placing = Placing(access, descriptions)
        self._provider = provider
        self._registry = registry
        self._references = References(access, descriptions, provider)

    async def operate(
        self, memory_id: str, record_id: str, name: str, given: bytes, expected: int, idempotency: Idempotency
    ) -> Operated:
        """Carries out an operation. Needs what the operation requires.

        Which that is depends on the record, so whoever may neither read nor write is refused before it is looked
        at, and only then whoever holds the other of the two.
        """
        address, node = await self._placing.address(memory_id, None)
        if not (node.permits(Privilege.READ) or node.permits(Privilege.WRITE)):
            await self._placing.address(memory_id, Privilege.WRITE)
        kind = (await self._provider.get(address, record_id, None)).type
        found = await self._registry.find(kind, address.provider)
        operation = None if found is None else found.operation(name)
        if found is None or operation is None:
            raise errors.operation_not_found()
        if not node.permits(operation.requires):
            await self._placing.address(memory_id, operation.requires)
        compiled(operation.input).check(given or b"{}", "input")
        if not (await capabilities_of(self._provider, address.provider)).types:
            raise errors.unsupported("operations of types")
        asked = Operate(found, operation, given or b"{}", expected)
        operated = await self._provider.operate(address, record_id, asked, Stamp(writer(), idempotency))
        if not node.permits(Privilege.READ):
            return Operated(replace(operated.record, withheld=True), b"")
        (record,) = await self._references.resolve([operated.record])
        return Operated(record, operated.result)
