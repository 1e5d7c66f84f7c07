"""A write under the caller's idempotency key."""

from dataclasses import dataclass

from service_kit.idempotency import Idempotency
from service_kit.identity import current_passport

__all__ = ["Keyed"]


@dataclass(frozen=True, slots=True)
class Keyed:
    """Whose key it is, what it is used for, and the key."""

    principal: str
    operation: str
    idempotency: Idempotency

    @classmethod
    def of(cls, operation: str, idempotency: Idempotency) -> "Keyed":
        """The caller's own key, for an operation."""
        return cls(current_passport().principal, operation, idempotency)

    def __bool__(self) -> bool:
        return bool(self.idempotency.key)
