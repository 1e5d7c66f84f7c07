"""The refusals of this service, each said once."""

from collections.abc import Sequence

from service_kit.errors import GroveError

__all__ = [
    "BaseFailureError",
    "GroveError",
    "LeaseLostError",
    "harness_mismatch",
    "harness_not_found",
    "harness_unavailable",
    "idempotency_mismatch",
    "invalid",
    "memories_not_attached",
    "memory_invalid",
    "memory_not_found",
    "model_unavailable",
    "not_shared",
    "nothing_here",
    "response_not_found",
    "session_busy",
    "session_expired",
    "session_not_found",
    "too_large",
    "unsupported_base",
]


class BaseFailureError(Exception):
    """A base could not finish a turn. ``code`` is ``provider_error`` or ``harness_error``; ``message`` is
    a sentence safe to show: the true reason without key, address, path or stack trace.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code: str = code
        self.message: str = message


class LeaseLostError(Exception):
    """Another runner holds the session now: nothing more may be written."""


def invalid(message: str, param: str | None = None) -> GroveError:
    """A request that cannot be meant."""
    return GroveError("invalid_input", message, param=param)


def too_large(message: str) -> GroveError:
    """More than may be asked for or answered."""
    return GroveError("grovekeeper_too_large", message)


def harness_not_found(param: str | None = None) -> GroveError:
    """No such harness, or somebody else's."""
    return GroveError("harness_not_found", "There is no such harness.", param=param)


def response_not_found(param: str | None = None) -> GroveError:
    """No such response, or somebody else's, or one that was not stored."""
    return GroveError("response_not_found", "There is no such response.", param=param)


def session_not_found() -> GroveError:
    """No such session, or somebody else's."""
    return GroveError("session_not_found", "There is no such session.")


def not_shared() -> GroveError:
    """The session has no link."""
    return GroveError("grovekeeper_not_found", "This session is not shared.")


def nothing_here() -> GroveError:
    """A link that never was, or opens no more; as any address that leads nowhere."""
    return GroveError("grovekeeper_not_found", "There is nothing at this address.")


def session_expired(param: str) -> GroveError:
    """The session of this response was idle for longer than sessions are kept."""
    return GroveError(
        "session_expired",
        "This session was idle for so long that it is gone; begin a new one.",
        param=param,
    )


def harness_mismatch() -> GroveError:
    """A conversation stays with the harness it began on."""
    return GroveError(
        "harness_mismatch",
        "This conversation belongs to another harness.",
        param="metadata.harness_id",
    )


def session_busy(
    message: str = "A task is still running in this session; wait for its end or cancel it.",
) -> GroveError:
    """One task at a time in a session."""
    return GroveError("session_busy", message)


def model_unavailable(model: str) -> GroveError:
    """The harness's base does not serve this model."""
    return GroveError(
        "model_unavailable", f"This harness cannot serve the model {model[:200]!r}.", param="model"
    )


def harness_unavailable(message: str) -> GroveError:
    """The harness cannot take a task now."""
    return GroveError("harness_unavailable", message)


def unsupported_base(base: str, supported: Sequence[str]) -> GroveError:
    """No such base here."""
    return GroveError(
        "unsupported_base",
        f"This server has no base called {base[:100]!r}.",
        param="base",
        detail={"supported": list(supported)},
    )


def memory_not_found(param: str) -> GroveError:
    """No such memory, or one the harness holds nothing on (Memories §9)."""
    return GroveError("memory_not_found", "There is no such memory.", param=param)


def memories_not_attached() -> GroveError:
    """The harness has no memories attached (Memories §12)."""
    return GroveError("memories_not_attached", "This harness has no memories attached.")


def memory_invalid(message: str) -> GroveError:
    """A list of attachments that contradicts itself (Memories §12)."""
    return GroveError("memory_invalid", message, param="memories")


def idempotency_mismatch() -> GroveError:
    """The key was used for something else."""
    return GroveError(
        "grovekeeper_idempotency_mismatch", "This Idempotency-Key was used for a different request."
    )
