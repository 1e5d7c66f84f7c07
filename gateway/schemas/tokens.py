"""Bearer tokens (``/v1/grovekeeper/tokens``)."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from gateway.schemas.base import UNSET, Answer, Ask, Text, UnsetType, Whole
from service_kit.errors import GroveError

__all__ = [
    "CreateToken",
    "IssuedToken",
    "ListTokens",
    "RevokeToken",
    "RevokedToken",
    "Token",
    "Tokens",
    "group_of",
    "principal_of",
]


class CreateToken(Ask, kw_only=True, frozen=True):
    """Body of ``POST /v1/grovekeeper/tokens``: exactly one of ``person`` and ``credential``."""

    person: Text | None = None
    credential: Text | None = None
    groups: list[Text] | None = None
    scopes: list[Literal["user", "admin"]] | None = None
    ttl_seconds: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class ListTokens(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/grovekeeper/tokens``; ``include_ended``: also those that expired or were revoked."""

    principal: str = ""
    include_ended: bool = False
    limit: Whole = 0
    cursor: str = ""


class Token(Answer, kw_only=True, frozen=True):
    """A token, without the secret. What there is not is absent: an end, a last use, who issued it."""

    id: str
    object: Literal["grovekeeper.token"] = "grovekeeper.token"
    principal: str
    groups: list[str]
    scopes: list[str]
    created_at: datetime | UnsetType = UNSET
    created_by: str | UnsetType = UNSET
    bootstrap: str | UnsetType = UNSET
    expires_at: datetime | UnsetType = UNSET
    revoked_at: datetime | UnsetType = UNSET
    last_used_at: datetime | UnsetType = UNSET


class IssuedToken(Token, kw_only=True, frozen=True):
    """A token just issued, with the secret, shown this once."""

    token: str


class Tokens(Answer, kw_only=True, frozen=True):
    """A page of tokens, newest first."""

    data: list[Token]
    next_cursor: str | None


class RevokeToken(Ask, kw_only=True, frozen=True):
    """Body of ``POST /v1/grovekeeper/tokens/revoke``: exactly one of ``token`` and ``id``."""

    token: Text | None = None
    id: Text | None = None


class RevokedToken(Answer, kw_only=True, frozen=True):
    """What was revoked; it opens nothing from now on."""

    id: str
    object: Literal["grovekeeper.token"] = "grovekeeper.token"
    revoked: Literal[True] = True


def principal_of(asked: CreateToken) -> str:
    """``person:ID`` or ``credential:ID``."""
    if (asked.person is None) == (asked.credential is None):
        raise GroveError(
            "invalid_input", "A token is for a person or a credential; name exactly one.", param="person"
        )
    return f"credential:{asked.credential}" if asked.person is None else f"person:{asked.person}"


def group_of(name: str) -> str:
    """``group:NAME``, whether or not the prefix was written."""
    return name if name.startswith("group:") else f"group:{name}"
