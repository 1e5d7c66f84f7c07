"""The verbs of keyed writes, the same in every transaction of this service."""

from memory_service.domain.keyed import Keyed
from service_kit.db import keys
from service_kit.db.tx import Tx


class KeyedTransaction:
    """The verbs of ``domain.ports.KeyedTransaction``."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    async def claim(self, key: Keyed) -> bytes | None:
        return await keys.claim(self._tx, key.principal, key.operation, key.idempotency)

    async def settle(self, key: Keyed, answer: bytes, memory_id: str | None) -> bytes:
        return await keys.settle(
            self._tx, key.principal, key.operation, key.idempotency, answer, memory_id=memory_id
        )
