"""What a principal may look like: ``kind:id`` (Memories, section 3.1: a server documents the kinds)."""

from collections.abc import Sequence
from typing import Final

from authz_service.domain import errors

SERVICE: Final = "service"
"""The kind of the product's own processes."""
GRANTABLE: Final = ("credential", "person", "group", "harness")
"""The kinds that may hold a grant."""
BEARERS: Final = ("credential", "person")
"""The kinds a token may be issued to."""
MAX_ID: Final = 200
"""Longest id of a principal, in characters."""
MOST_GROUPS: Final = 128
"""Most groups of one credential: they travel in every passport of it, and a call's metadata is bounded."""
MOST_GROUP_CHARACTERS: Final = 6_000
"""Most characters in the names of a credential's groups together, for the same reason."""


def is_id(name: str) -> bool:
    """Whether a name can be the id of a principal."""
    return 1 <= len(name) <= MAX_ID and name.isprintable() and " " not in name


def fit(groups: Sequence[str]) -> bool:
    """Whether a credential may be in all these groups (``group:…``)."""
    return len(groups) <= MOST_GROUPS and sum(map(len, groups)) <= MOST_GROUP_CHARACTERS


def check_principal(principal: str, kinds: tuple[str, ...], param: str) -> str:
    """The principal itself, if it is of one of ``kinds`` and its id is acceptable; else ``invalid_input``."""
    kind, _, name = principal.partition(":")
    if kind not in kinds:
        told = ", ".join(f"{one}:" for one in kinds[:-1])
        told = f"{told} or {kinds[-1]}:" if told else f"{kinds[-1]}:"
        raise errors.invalid_input(f"A principal here starts with {told} and names one.", param)
    if not is_id(name):
        raise errors.invalid_input(
            f"The id of a principal is 1 to {MAX_ID} printable characters without spaces.", param
        )
    return principal


def is_principal(text: str) -> bool:
    """Whether this is a principal of any kind there is."""
    kind, _, name = text.partition(":")
    return kind in (*GRANTABLE, SERVICE) and is_id(name)
