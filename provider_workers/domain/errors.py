"""The refusals of a provider, each in one place (Memories, section 12)."""

from service_kit.errors import GroveError


def record_not_found(param: str | None = None) -> GroveError:
    """No such record in this memory, also when another memory has it."""
    return GroveError("memory_record_not_found", "There is no such record in this memory.", param=param)


def file_not_found(param: str | None = None) -> GroveError:
    """No such file: not there, not kept in this memory, or not what this part of a content is."""
    return GroveError("file_not_found", "There is no such file.", param=param)


def file_too_large(limit: int) -> GroveError:
    """More bytes than are kept of one file."""
    return GroveError(
        "file_too_large", f"A file may have {limit} bytes at most.", detail={"max_bytes": limit}
    )


def job_not_found() -> GroveError:
    """No such job in this memory."""
    return GroveError("grovekeeper_not_found", "There is no such job.")


def not_failed(status: str) -> GroveError:
    """A retry of a job that is under way or done."""
    return GroveError("grovekeeper_conflict", f"Only a failed job is retried; this one is {status}.")


def run_not_found() -> GroveError:
    """No such consolidation run of this memory."""
    return GroveError("grovekeeper_not_found", "There is no such consolidation run of this memory.")


def run_not_ended(status: str) -> GroveError:
    """A run that is still to be worked on cannot be undone."""
    return GroveError("grovekeeper_conflict", f"Only a run that has ended is reverted; this one is {status}.")


def too_many_runs(most: int) -> GroveError:
    """As many runs of one memory as may work or wait."""
    return GroveError(
        "grovekeeper_conflict", f"{most} runs of this memory work or wait already; try again later."
    )


def not_connected(provider: str) -> GroveError:
    """The memory is bound to a provider that is not served here."""
    return GroveError("memory_unavailable", f"No provider named {provider!r} is connected.")


def unsupported(what: str) -> GroveError:
    """The provider does not do this at all."""
    return GroveError("memory_unsupported", f"The provider of this memory does not support {what}.")


def wrong_version(version: int) -> GroveError:
    """A compare-and-set that came too late."""
    return GroveError(
        "grovekeeper_conflict",
        f"The record was changed meanwhile: its version is {version}.",
        param="expected_version",
        detail={"version": version},
    )


def closed(status: str, param: str | None = None) -> GroveError:
    """A change to a record that was forgotten or superseded."""
    return GroveError(
        "grovekeeper_conflict", f"The record is {status} and can no longer be changed.", param=param
    )


def idempotency_mismatch() -> GroveError:
    """A key that was used for another request."""
    return GroveError(
        "grovekeeper_idempotency_mismatch", "This Idempotency-Key was used for a different request."
    )


def invalid(message: str, param: str) -> GroveError:
    """A request field that is not acceptable."""
    return GroveError("invalid_input", message, param=param)


def invalid_content(message: str, param: str = "content") -> GroveError:
    """Content no record may have."""
    return GroveError("memory_invalid", message, param=param)


def too_large(message: str, param: str) -> GroveError:
    """More than is kept or answered at once."""
    return GroveError("grovekeeper_too_large", message, param=param)
