"""The refusals of this service, each in one place (Memories, section 12)."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from memory_service.domain.model import Room
from service_kit.errors import GroveError


@contextmanager
def naming(param: str) -> Generator[None]:
    """Refusals of the block are about this field of the request."""
    try:
        yield
    except GroveError as error:
        raise GroveError(error.code, error.message, param=param, detail=error.detail) from error


def memory_not_found(param: str | None = None) -> GroveError:
    """No such memory, or one the caller may not see: one answer for both."""
    return GroveError("memory_not_found", "There is no such memory.", param=param)


def record_not_found() -> GroveError:
    """No such record in this memory."""
    return GroveError("memory_record_not_found", "There is no such record in this memory.")


def file_not_found(param: str | None = None) -> GroveError:
    """No such file, or one that is not the caller's: one answer for both."""
    return GroveError("file_not_found", "There is no such file.", param=param)


def uploads_full(room: Room) -> GroveError:
    """A principal with as much in uploads as one may have."""
    return GroveError(
        "quota_exhausted",
        f"You have as many uploads as are kept of one principal: {room.files} files or {room.bytes} bytes. They go as"
        " their time runs out, and with the records they were erased with.",
        detail={"max_files": room.files, "max_bytes": room.bytes},
    )


def keeps_no_files() -> GroveError:
    """A server without an object store."""
    return GroveError("memory_unsupported", "This server keeps no files.")


def job_not_found() -> GroveError:
    """No such job in this memory."""
    return GroveError("grovekeeper_not_found", "There is no such job.")


def query_not_found() -> GroveError:
    """No such named query in this memory."""
    return GroveError("grovekeeper_not_found", "There is no such query in this memory.")


def memory_invalid(message: str, param: str) -> GroveError:
    """What no memory may have."""
    return GroveError("memory_invalid", message, param=param)


def unsupported_language(supported: Sequence[str]) -> GroveError:
    """A query in a language the memory's provider does not speak."""
    return GroveError(
        "memory_unsupported",
        "The provider of this memory has no queries in that language.",
        param="language",
        detail={"supported": list(supported)},
    )


def unknown_provider(name: str) -> GroveError:
    """A provider that is not connected."""
    return GroveError("memory_unsupported", f"No provider named {name!r} is connected.", param="provider")


def provider_is_fixed() -> GroveError:
    """A memory stays with the provider it was created with (section 2 allows the refusal)."""
    return GroveError("memory_unsupported", "A memory's provider cannot be changed.", param="provider")


def unsupported(what: str) -> GroveError:
    """The memory's provider does not do this at all."""
    return GroveError("memory_unsupported", f"The provider of this memory does not support {what}.")


def asks_nothing() -> GroveError:
    """A recall needs a signal (section 6.2)."""
    return GroveError("memory_invalid", "A recall needs at least one of query, text and filters.")


def invalid(message: str, param: str) -> GroveError:
    """A request field that is not acceptable."""
    return GroveError("invalid_input", message, param=param)


def snapshot_not_found() -> GroveError:
    """No such snapshot of this memory."""
    return GroveError("grovekeeper_not_found", "There is no such snapshot of this memory.")


def snapshot_name_taken() -> GroveError:
    """A name stands for one instant of a memory."""
    return GroveError(
        "memory_invalid", "This memory has a snapshot of that name; delete it first.", param="name"
    )


def too_many_snapshots(most: int) -> GroveError:
    """As many as are kept of one memory."""
    return GroveError("memory_invalid", f"A memory has at most {most} snapshots.")


def needs_admin() -> GroveError:
    """What only administrators may do."""
    return GroveError("insufficient_scope", "This needs a credential with the scope admin.")


def type_is_fixed(name: str) -> GroveError:
    """A name that a registration may not have."""
    return GroveError(
        "grovekeeper_conflict",
        f"The type {name[:100]} is the chapter's, a provider's or the configuration's, and is not changed here.",
        param="type",
    )


def type_not_found() -> GroveError:
    """No such registration."""
    return GroveError("grovekeeper_not_found", "There is no such registered type.")


def invalid_type(message: str, param: str) -> GroveError:
    """A registration that is not well made."""
    return GroveError("memory_invalid", message, param=param)


def too_many_types(most: int) -> GroveError:
    """As many as are registered at once."""
    return GroveError("memory_invalid", f"At most {most} types are registered.")


def operation_not_found() -> GroveError:
    """The record's type has no such operation."""
    return GroveError("grovekeeper_not_found", "The type of this record has no such operation.")
