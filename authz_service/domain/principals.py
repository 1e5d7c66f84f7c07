"""What a principal may look like: ``kind:id`` (Memories, section 3.1: a server documents the kinds)."""

from typing import Final

from authz_service.domain import errors

GRANTABLE: Final = ("credential", "person", "group", "harness")
"""The kinds that may hold a grant."""
BEARERS: Final = ("credential", "person")
"""The kinds a token may be issued to."""
MAX_ID: Final = 200
"""Longest id of a principal, in characters."""


def check_principal(principal: str, kinds: tuple[str, ...], param: str) -> str:
    """The principal itself, if it is of one of ``kinds`` and its id is acceptable; else ``invalid_input``."""
    kind, _, name = principal.partition(":")
    if kind not in kinds:
        told = ", ".join(f"{one}:" for one in kinds[:-1])
        told = f"{told} or {kinds[-1]}:" if told else f"{kinds[-1]}:"
        raise errors.invalid_input(f"A principal here starts with {told} and names one.", param)
    if not 1 <= len(name) <= MAX_ID or not name.isprintable() or " " in name:
        raise errors.invalid_input(
            f"The id of a principal is 1 to {MAX_ID} printable characters without spaces.", param
        )
    return principal
