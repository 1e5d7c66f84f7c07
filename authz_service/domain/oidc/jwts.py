"""JWTs of the one issuer that is trusted, as credentials."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from authz_service.domain import errors
from authz_service.domain.model import Bearer
from authz_service.domain.oidc import claims, signature
from authz_service.domain.oidc.claims import Person, Trust
from authz_service.domain.oidc.keys import Keys, TrustedKey
from authz_service.domain.oidc.signature import RefusedError
from authz_service.domain.ports import Tokens
from service_kit import semconv, telemetry
from service_kit.clock import Clock
from service_kit.errors import GroveError

REMEMBERED: Final = 4_096
"""Most verdicts on signatures that are kept."""
KEPT: Final = timedelta(days=1)
"""How long a revocation outlives its JWT: longer than clocks and leeways can differ."""
SWEEP_S: Final = 3_600.0
"""Seconds between two sweeps for those that are over."""
TOLD: Final = timedelta(minutes=1)
"""A reason is logged once in this time, however many are refused for it."""

_log: Final = logging.getLogger(__name__)
_refused: Final = telemetry.meter(__name__).create_counter(
    semconv.GROVE_OIDC_REFUSED, description="JWTs of the configured issuer that were refused, by reason."
)


@dataclass(frozen=True, slots=True)
class Signed:
    """A JWT that its issuer signed and this server can read, whatever the time is.

    ``sha256`` is of what was signed, without the signature: of one JWT many can be made by writing its
    signature differently, and what is taken back is taken back in every shape.
    """

    sha256: bytes
    person: Person

    @property
    def id(self) -> str:
        """What it is called where it must not be told."""
        return f"jwt_{self.sha256.hex()[:32]}"

    @property
    def principal(self) -> str:
        """Whom it speaks for."""
        return self.person.principal

    @property
    def ends_at(self) -> datetime:
        """When it opens nothing any more."""
        return self.person.ends_at


@dataclass(frozen=True, slots=True)
class _Verdict:
    algorithm: str
    key: TrustedKey
    signed: Signed


class Jwts:
    """Verifies JWTs. A verdict on a signature is kept for as long as the issuer has the key; times and
    revocation are looked at on every call.
    """

    def __init__(self, trust: Trust, keys: Keys, tokens: Tokens, clock: Clock) -> None:
        self._trust: Trust = trust
        self._keys: Keys = keys
        self._tokens: Tokens = tokens
        self._clock: Clock = clock
        self._known: OrderedDict[bytes, _Verdict] = OrderedDict()
        self._told: dict[str, datetime] = {}

    async def bearer(self, text: str) -> Bearer:
        """Whom a JWT speaks for. ``invalid_credential`` for every one that is not good now, or was taken back,
        with a sentence of its own only for who is in too many groups; ``grovekeeper_unavailable`` where the
        issuer's keys cannot be had.
        """
        try:
            signed = await self._signed(text)
            person, now = signed.person, self._clock.now()
            if now >= person.ends_at:
                raise RefusedError("it expired")
            if now < person.starts_at:
                raise RefusedError("its time is not come")
            if await self._tokens.jwt_revoked(signed.sha256):
                raise RefusedError("it was revoked")
        except RefusedError as error:
            self._tell(error.reason)
            raise errors.invalid_credential(error.told) from None
        return Bearer(signed.sha256.hex(), person.principal, person.groups, person.scopes, person.ends_at)

    async def signed(self, text: str) -> Signed | None:
        """A JWT that is or will be good, None for any other; raises as :meth:`bearer` where it cannot be told."""
        try:
            signed = await self._signed(text)
        except RefusedError:
            return None
        return signed if self._clock.now() < signed.ends_at else None

    async def run(self) -> None:
        """Forget, now and then, the revocation of what expired long ago. For ever."""
        while True:
            try:
                await self._tokens.forget_jwts(self._clock.now() - KEPT)
            except GroveError as error:
                _log.warning("revoked JWTs that expired have to wait: %s", error.message)
            await asyncio.sleep(SWEEP_S)

    async def _signed(self, text: str) -> Signed:
        digest = hashlib.sha256(text[: signature.LONGEST + 1].encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(digest)
        if known is None or await self._keys.find(known.key.kid, known.algorithm) != known.key:
            known = await self._verdict(text)
        self._remember(digest, known)
        return known.signed

    async def _verdict(self, text: str) -> _Verdict:
        parsed = signature.parse(text, self._trust.algorithms)
        found = await self._keys.find(parsed.kid, parsed.algorithm)
        if found is None:
            raise RefusedError("its issuer has no such key")
        person = claims.read(signature.verified(parsed, found.key), self._trust)
        return _Verdict(parsed.algorithm, found, Signed(hashlib.sha256(parsed.signed).digest(), person))

    def _remember(self, digest: bytes, verdict: _Verdict) -> None:
        self._known[digest] = verdict
        self._known.move_to_end(digest)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _tell(self, reason: str) -> None:
        """Let the operator know, who has to find out why a new issuer's tokens are not taken."""
        _refused.add(1, {semconv.ERROR_TYPE: reason})
        now = self._clock.now()
        if now - self._told.get(reason, datetime.min.replace(tzinfo=now.tzinfo)) >= TOLD:
            self._told[reason] = now
            _log.info("a JWT was refused: %s", reason)
