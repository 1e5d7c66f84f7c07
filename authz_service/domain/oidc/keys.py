"""The keys of the issuer: fetched ahead of time, kept while the issuer is away, changed without a restart.

A request waits for a fetch only when it names a key that is not known, and all that do wait for the same one.
"""

import asyncio
import contextvars
import logging
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol, cast

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from authz_service.domain import errors
from authz_service.domain.oidc.signature import PublicKey, suits
from service_kit.clock import Clock

MOST: Final = 100
"""Most keys of an issuer that are looked at."""
RSA_BITS: Final = range(2048, 8192 + 1)
"""Lengths of an RSA key that is trusted (RFC 7518, section 3.3), and whose signatures are verified in good time."""
AGAIN: Final = timedelta(seconds=5)
"""Wait after a fetch that failed."""

_KINDS: Final[Mapping[str, tuple[type[PublicKey], tuple[str, ...]]]] = {
    "RSA": (RSAKey, ("n", "e")),
    "EC": (ECKey, ("crv", "x", "y")),
    "OKP": (OKPKey, ("crv", "x")),
}
_log: Final = logging.getLogger(__name__)


class IssuerAwayError(Exception):
    """The issuer's keys could not be fetched. The message says why, for the operator."""


class Issuer(Protocol):
    """Where the keys are published."""

    async def keys(self) -> Sequence[object]:
        """The members of the issuer's JWK set, in bounded time. Raises :class:`IssuerAwayError`."""
        ...


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key of the issuer. Two are equal when they are the same key, by the same name, for the same use."""

    kid: str
    thumbprint: str
    algorithm: str | None
    key: PublicKey = field(compare=False, repr=False)

    def verifies(self, algorithm: str) -> bool:
        """Whether signatures of this algorithm may be verified with it."""
        return self.algorithm in (None, algorithm) and suits(self.key, algorithm)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long keys are good.

    ``fresh``: after this they are fetched again. ``unknown``: a key that is not known is asked for no more
    often than this. ``oldest``: after this they are trusted no more, though the issuer be away.
    """

    fresh: timedelta
    unknown: timedelta
    oldest: timedelta


class Keys:
    """The issuer's keys in this process."""

    def __init__(self, issuer: Issuer, patience: Patience, clock: Clock) -> None:
        self._issuer: Issuer = issuer
        self._patience: Patience = patience
        self._clock: Clock = clock
        self._known: list[TrustedKey] = []
        self._fetched_at: datetime | None = None
        self._asked_at: datetime | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str, algorithm: str) -> TrustedKey | None:
        """The one key of this name for this algorithm; None when the issuer has none, by what it said last.

        ``grovekeeper_unavailable`` when the issuer has to be asked and does not answer.
        """
        found = self._find(kid, algorithm)
        if found is not None or self._asked_lately():
            return found
        await self._ask()
        found = self._find(kid, algorithm)
        if found is None and not self._asked_lately():
            raise errors.issuer_away()
        return found

    async def run(self) -> None:
        """Fetch the keys ahead of time, for ever."""
        try:
            while True:
                await self._ask(anyway=True)
                fetched = self._fetched_at is not None and self._fetched_at == self._asked_at
                await asyncio.sleep((self._patience.fresh if fetched else AGAIN).total_seconds())
        finally:
            if self._fetching is not None:
                self._fetching.cancel()

    def age(self) -> timedelta | None:
        """How long ago the keys were fetched; None before the first time."""
        return None if self._fetched_at is None else self._clock.now() - self._fetched_at

    def _find(self, kid: str, algorithm: str) -> TrustedKey | None:
        age = self.age()
        if age is None or age > self._patience.oldest:
            return None
        found = [one for one in self._known if one.kid == kid and one.verifies(algorithm)]
        return found[0] if len(found) == 1 else None

    def _asked_lately(self) -> bool:
        """Whether the issuer said not long ago which keys it has."""
        age = self.age()
        return age is not None and age < self._patience.unknown

    async def _ask(self, *, anyway: bool = False) -> None:
        """Fetch, or wait for the fetch under way; leave an issuer alone that failed just now."""
        if self._fetching is None:
            since = None if self._asked_at is None else self._clock.now() - self._asked_at
            if not anyway and since is not None and since < min(AGAIN, self._patience.unknown):
                return
            self._asked_at = self._clock.now()
            # An empty context: it outlives the request that began it and acts for none.
            self._fetching = asyncio.create_task(self._fetch(self._asked_at), context=contextvars.Context())
        await asyncio.shield(self._fetching)

    async def _fetch(self, asked_at: datetime) -> None:
        try:
            published = await self._issuer.keys()
        except IssuerAwayError as error:
            _log.warning("the keys of the OIDC issuer cannot be fetched: %s", error)
        else:
            first = self._fetched_at is None
            self._known, self._fetched_at = _trusted(published), asked_at
            if first:
                _log.info("%d keys of the OIDC issuer are trusted", len(self._known))
        finally:
            self._fetching = None


def _trusted(published: Sequence[object]) -> list[TrustedKey]:
    """Those keys that signatures can be verified with; others are left out, and one line counts them."""
    found = list(dict.fromkeys(one for one in map(_key, published[:MOST]) if one is not None))
    if len(found) < len(published):
        _log.info(
            "%d of the issuer's %d keys are of no use here", len(published) - len(found), len(published)
        )
    return found


def _key(document: object) -> TrustedKey | None:
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, object]", document)
    kid, algorithm, kind = fields.get("kid"), fields.get("alg"), _KINDS.get(str(fields.get("kty")))
    operations = fields.get("key_ops", ["verify"])
    if (
        kind is None
        or not isinstance(kid, str)
        or not isinstance(algorithm, str | None)
        or fields.get("use", "sig") != "sig"
        or not (isinstance(operations, list) and "verify" in operations)
    ):
        return None
    key = _imported(kind[0], {name: fields.get(name) for name in ("kty", *kind[1])})
    return None if key is None else TrustedKey(kid, key.thumbprint(), algorithm, key)


def _imported(kind: type[PublicKey], fields: Mapping[str, object]) -> PublicKey | None:
    """The public half, whatever else was published beside it."""
    if not all(isinstance(value, str) for value in fields.values()):
        return None
    try:
        if kind is RSAKey and _bits(str(fields["n"])) not in RSA_BITS:
            return None
        return kind.import_key(cast("dict[str, str | list[str]]", dict(fields)))
    except (JoseError, LookupError, ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _bits(number: str) -> int:
    """How many bits a number has that is written as RFC 7518 (section 2) says."""
    return int.from_bytes(urlsafe_b64decode(number + "=="), "big").bit_length()
