"""Issuing a bearer token."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from authz_service.domain import errors
from authz_service.domain.model import IssuedToken, NewToken, Token
from authz_service.domain.ports import Tokens
from authz_service.domain.principals import BEARERS, check_principal
from authz_service.domain.secrets import digest, new_secret
from service_kit.clock import Clock
from service_kit.ids import new_id

MOST_GROUPS: Final = 32
"""Most groups of one token: they travel in every passport of it, and a call's metadata is small."""
MOST_GROUP_CHARACTERS: Final = 2_000
"""Most characters in the names of a token's groups together, for the same reason."""
LONGEST: Final = 10 * 366 * 24 * 3600
"""Longest life of a token that expires, in seconds."""


class CreateToken:
    """The use case. What it issues has the scope ``user`` and no other."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens: Tokens = tokens
        self._clock: Clock = clock

    async def __call__(self, principal: str, groups: Sequence[str], ttl_seconds: int) -> IssuedToken:
        """A new token with its secret, which is told this once. ``ttl_seconds`` 0: it does not expire."""
        check_principal(principal, BEARERS, "principal")
        named = tuple(dict.fromkeys(check_principal(one, ("group",), "groups") for one in groups))
        if len(named) > MOST_GROUPS or sum(map(len, named)) > MOST_GROUP_CHARACTERS:
            raise errors.invalid_input(
                f"A token has at most {MOST_GROUPS} groups with {MOST_GROUP_CHARACTERS} characters in all.",
                "groups",
            )
        if not 0 <= ttl_seconds <= LONGEST:
            raise errors.invalid_input("The ttl is 0 (never) up to ten years, in seconds.", "ttl_seconds")
        now = self._clock.now()
        expires_at = now + timedelta(seconds=ttl_seconds) if ttl_seconds else None
        token = Token(new_id("tok"), principal, named, ("user",), now, expires_at)
        secret = new_secret()
        await self._tokens.add(NewToken(token, digest(secret)))
        return IssuedToken(token, secret)
