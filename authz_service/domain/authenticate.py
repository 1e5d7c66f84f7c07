"""From a bearer token to a passport."""

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final

from authz_service.domain import errors
from authz_service.domain.last_used import LastUsed
from authz_service.domain.model import Bearer
from authz_service.domain.oidc.jwts import Jwts
from authz_service.domain.ports import Tokens
from authz_service.domain.secrets import LONGEST, digest, is_jwt
from service_kit.clock import Clock
from service_kit.identity import LIFETIME, Passport, PassportSigner

FRESH: Final = timedelta(seconds=30)
"""Life a passport must have left to be answered again."""
REMEMBERED: Final = 4_096
"""Most passports kept for that."""
LONGEST_SOURCE: Final = 64
"""Longest source of a request that is kept, in characters; a network address has 45."""


class Authenticate:
    """The use case.

    The credential is looked up anew on every call, so revoking and expiring hold for the next request. Only
    the signature is spared: a passport says nothing but what its credential says and where the request came
    from, and a credential never changes, so one signed a moment ago is answered again while it has life left.
    """

    def __init__(
        self, tokens: Tokens, jwts: Jwts | None, signer: PassportSigner, uses: LastUsed, clock: Clock
    ) -> None:
        self._tokens: Tokens = tokens
        self._jwts: Jwts | None = jwts
        self._signer: PassportSigner = signer
        self._uses: LastUsed = uses
        self._clock: Clock = clock
        self._signed: OrderedDict[tuple[str, str], Passport] = OrderedDict()

    async def __call__(self, secret: str, source: str = "") -> Passport:
        """A passport for the bearer; ``invalid_credential`` for a token that is not, or no longer, one.

        ``source`` is where the request came from; one that is no address by its looks is left out. Without
        an issuer to believe, a JWT is an unknown token like any other. ``grovekeeper_unavailable`` where the
        keys of the issuer cannot be had.
        """
        if self._jwts is not None and is_jwt(secret):
            bearer = await self._jwts.bearer(secret)
        else:
            bearer = await self._bearer(secret)
        return self._passport(bearer, source_named(source))

    async def _bearer(self, secret: str) -> Bearer:
        """Every token takes the same path: hashed, looked up, then judged."""
        token = await self._tokens.find(digest(secret))
        if token is None or len(secret) > LONGEST or not token.valid_at(self._clock.now()):
            raise errors.invalid_credential()
        self._uses.note(token.id)
        return Bearer(token.id, token.principal, token.groups, token.scopes, token.expires_at, token.id)

    def _passport(self, bearer: Bearer, source: str) -> Passport:
        now = self._clock.now()
        known = self._signed.get((bearer.key, source))
        if known is not None and known.expires_at - now >= FRESH:
            return known
        passport = self._signer.sign(
            bearer.principal,
            groups=bearer.groups,
            scopes=bearer.scopes,
            token_id=bearer.token_id or None,
            source=source or None,
            lifetime=_lifetime(bearer, now),
        )
        self._signed[bearer.key, source] = passport
        self._signed.move_to_end((bearer.key, source))
        if len(self._signed) > REMEMBERED:
            self._signed.popitem(last=False)
        return passport


def _lifetime(bearer: Bearer, now: datetime) -> timedelta:
    return LIFETIME if bearer.ends_at is None else min(LIFETIME, bearer.ends_at - now)


def source_named(source: str) -> str:
    """Where a request came from, as it was named; "" for what is no address by its looks."""
    return source if len(source) <= LONGEST_SOURCE and source.isprintable() else ""
