"""What makes a write safe to repeat: the caller's key and the hash of its request."""

from dataclasses import dataclass

from service_kit.errors import GroveError

__all__ = ["Idempotency", "mismatch"]


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A caller's key, its own in each operation, and the SHA-256 of its request. No key, no promise."""

    key: str = ""
    request_sha256: bytes = b""


def mismatch() -> GroveError:
    """A key that was used for another request."""
    return GroveError(
        "grovekeeper_idempotency_mismatch", "This Idempotency-Key was used for a different request."
    )
