"""The refusals of this service, each in one place (Memories, section 12)."""

from service_kit.errors import GroveError


def memory_not_found(param: str | None = None) -> GroveError:
    """No such memory, or one the caller holds nothing on: one answer for both."""
    return GroveError("memory_not_found", "There is no such memory.", param=param)


def memory_forbidden(param: str | None = None) -> GroveError:
    """The caller sees the memory and lacks the privilege."""
    return GroveError("memory_forbidden", "You lack the privilege for this on this memory.", param=param)


def memory_invalid(message: str, param: str | None = None) -> GroveError:
    """What is asked would break the tree."""
    return GroveError("memory_invalid", message, param=param)


def memory_busy() -> GroveError:
    """Work is under way in the memory or below it."""
    return GroveError("memory_busy", "A consolidation runs in this memory or below it; try again later.")


def invalid_input(message: str, param: str) -> GroveError:
    """A request field that is not acceptable."""
    return GroveError("invalid_input", message, param=param)


def invalid_credential(told: str | None = None) -> GroveError:
    """Malformed, unknown, expired or revoked: one answer for all. ``told`` is for who bears a good one."""
    return GroveError("invalid_credential", told or "The credential is not valid.")


def issuer_away() -> GroveError:
    """A JWT that cannot be told good from bad, because its issuer's keys cannot be had."""
    return GroveError(
        "grovekeeper_unavailable", "The issuer of this credential cannot be reached; try again."
    )


def grant_not_found() -> GroveError:
    """No such grant on this memory."""
    return GroveError("grovekeeper_not_found", "There is no such grant on this memory.", param="grant_id")


def token_not_found() -> GroveError:
    """No such token."""
    return GroveError("grovekeeper_not_found", "There is no such token.")


def group_not_found() -> GroveError:
    """No such group is kept here."""
    return GroveError("grovekeeper_not_found", "There is no such group.", param="name")


def group_exists() -> GroveError:
    """A group of this name is kept already."""
    return GroveError("grovekeeper_conflict", "There is a group of this name already.", param="name")


def member_not_found() -> GroveError:
    """The principal is not in the group."""
    return GroveError("grovekeeper_not_found", "There is no such member in this group.", param="principal")


def id_is_taken() -> GroveError:
    """A node with this id was made by somebody else."""
    return GroveError("grovekeeper_conflict", "This memory id is taken.", param="id")
