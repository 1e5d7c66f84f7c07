"""From a bearer token to a passport."""

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final

from authz_service.domain import errors
from authz_service.domain.model import Token
from authz_service.domain.ports import Tokens
from authz_service.domain.secrets import LONGEST, digest
from service_kit.clock import Clock
from service_kit.identity import LIFETIME, Passport, PassportSigner

FRESH: Final = timedelta(seconds=30)
"""Life a passport must have left to be answered again."""
REMEMBERED: Final = 4_096
"""Most passports kept for that."""


class Authenticate:
    """The use case.

    The token is looked up anew on every call, so revoking and expiring hold for the next request. Only the
    signature is spared: a passport says nothing but what its token says, and a token never changes, so one
    signed a moment ago is answered again while it has life left.
    """

    def __init__(self, tokens: Tokens, signer: PassportSigner, clock: Clock) -> None:
        self._tokens: Tokens = tokens
        self._signer: PassportSigner = signer
        self._clock: Clock = clock
        self._signed: OrderedDict[str, Passport] = OrderedDict()

    async def __call__(self, secret: str) -> Passport:
        """A passport for the bearer; ``invalid_credential`` for a token that is not, or no longer, one.

        Every token takes the same path: hashed, looked up, then judged.
        """
        token = await self._tokens.find(digest(secret))
        now = self._clock.now()
        if token is None or len(secret) > LONGEST or not token.valid_at(now):
            raise errors.invalid_credential()
        return self._passport(token, now)

    def _passport(self, token: Token, now: datetime) -> Passport:
        known = self._signed.get(token.id)
        if known is not None and known.expires_at - now >= FRESH:
            return known
        passport = self._signer.sign(
            token.principal,
            groups=token.groups,
            scopes=token.scopes,
            token_id=token.id,
            lifetime=LIFETIME if token.expires_at is None else min(LIFETIME, token.expires_at - now),
        )
        self._signed[token.id] = passport
        self._signed.move_to_end(token.id)
        if len(self._signed) > REMEMBERED:
            self._signed.popitem(last=False)
        return passport
