"""Issuing a bearer token."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.model import IssuedToken, NewToken, Token
from authz_service.domain.ports import Tokens
from authz_service.domain.principals import (
    BEARERS,
    MOST_GROUP_CHARACTERS,
    MOST_GROUPS,
    check_principal,
    fit,
)
from authz_service.domain.secrets import digest, new_secret
from service_kit.clock import Clock
from service_kit.ids import new_id

SCOPES: Final = ("user", "admin")
"""The scopes a token may have; every one has the first."""
LONGEST: Final = 10 * 366 * 24 * 3600
"""Longest life of a token that expires, in seconds."""
MOST: Final = 1_000
"""Most tokens of one principal that open something at the same time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token to be issued. ``ttl_seconds`` 0: it does not expire. No scope named: ``user``."""

    principal: str
    groups: Sequence[str] = ()
    scopes: Sequence[str] = ()
    ttl_seconds: int = 0


class CreateToken:
    """The use case."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens: Tokens = tokens
        self._clock: Clock = clock

    async def __call__(self, issuer: str, wanted: Wanted) -> IssuedToken:
        """A new token with its secret, which is told this once; ``issuer`` is the principal that asks.

        ``invalid_input`` for a principal or group that is none, an unknown scope, a life that is too long,
        and where the principal has :data:`MOST` live tokens already.
        """
        token = _token(issuer, wanted, self._clock.now())
        secret = new_secret()
        async with self._tokens.change() as tx:
            if await tx.live(token.principal, token.created_at) >= MOST:
                raise errors.invalid_input(
                    f"A principal has at most {MOST:,} live tokens; revoke some first.", "principal"
                )
            await tx.add(NewToken(token, digest(secret)))
            await tx.record(issued(token))
        return IssuedToken(token, secret)


def issued(token: Token) -> Act:
    """What the audit keeps of it."""
    detail: dict[str, object] = {
        "token": token.id,
        "scopes": list(token.scopes),
        "groups": list(token.groups),
        "expires_at": None if token.expires_at is None else token.expires_at.isoformat(),
    }
    if token.bootstrap:
        detail["bootstrap"] = token.bootstrap
    return Act("token.create", principal=token.principal, detail=detail)


def _token(issuer: str, wanted: Wanted, now: datetime) -> Token:
    check_principal(wanted.principal, BEARERS, "principal")
    groups = tuple(dict.fromkeys(check_principal(one, ("group",), "groups") for one in wanted.groups))
    if not fit(groups):
        raise errors.invalid_input(
            f"A token has at most {MOST_GROUPS} groups with {MOST_GROUP_CHARACTERS:,} characters in all.",
            "groups",
        )
    if not set(wanted.scopes) <= set(SCOPES):
        raise errors.invalid_input("A token's scopes are user and admin.", "scopes")
    scopes = tuple(one for one in SCOPES if one == SCOPES[0] or one in wanted.scopes)
    if not 0 <= wanted.ttl_seconds <= LONGEST:
        raise errors.invalid_input("The ttl is 0 (never) up to ten years, in seconds.", "ttl_seconds")
    expires_at = now + timedelta(seconds=wanted.ttl_seconds) if wanted.ttl_seconds else None
    return Token(new_id("tok"), wanted.principal, groups, scopes, now, expires_at, created_by=issuer)
