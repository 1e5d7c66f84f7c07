"""Passports: who is asking, signed by authz_service, verified by everybody, carried in a context variable.

A passport is a JWT (RFC 7519) signed with Ed25519 (``alg: Ed25519``, RFC 9864), good for about a
minute. Claims: ``iss``, ``sub`` (the principal), ``groups``, ``scopes``, ``tid`` (the token it came
from), ``sid`` (a session it is bound to), ``src`` (the network address its bearer came from, for the
audit), ``narrow`` (memories it is capped on), ``iat``, ``exp``.
Keys are a JWK set, each key with a ``kid``; rotation is: add the new public key everywhere, sign with
it, remove the old one a minute later.
"""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, cast

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OKPKey

from service_kit.clock import Clock, SystemClock
from service_kit.errors import GroveError

__all__ = [
    "Narrowing",
    "Passport",
    "PassportSigner",
    "PassportVerifier",
    "current_passport",
    "fresh_passport",
    "generate_keys",
    "passport_or_none",
    "set_passport",
    "use_passport",
]

ISSUER: Final = "grovekeeper"
ALGORITHM: Final = "Ed25519"
LIFETIME: Final = timedelta(seconds=60)
LEEWAY: Final = timedelta(seconds=5)
_REMEMBERED: Final = 2048

Access = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A cap on one memory: ``read`` takes every writing privilege away, ``write`` takes none."""

    memory_id: str
    access: Access


@dataclass(frozen=True, slots=True)
class Passport:
    """Who is asking. ``principal`` is ``kind:id``; ``token`` is the JWT to send on."""

    principal: str
    groups: tuple[str, ...]
    scopes: frozenset[str]
    session: str | None
    narrowing: tuple[Narrowing, ...]
    token: str
    expires_at: datetime
    token_id: str | None = None
    source: str | None = None

    @property
    def kind(self) -> str:
        """``person``, ``credential``, ``harness`` or ``service``."""
        return self.principal.partition(":")[0]

    @property
    def id(self) -> str:
        """The principal without its kind."""
        return self.principal.partition(":")[2]

    def require_scope(self, scope: str) -> None:
        """``insufficient_scope`` unless this passport has ``scope``."""
        if scope not in self.scopes:
            raise GroveError("insufficient_scope", f"This needs a credential with the scope {scope!r}.")


Renew = Callable[[], Awaitable[Passport]]

_current: ContextVar[Passport | None] = ContextVar("grove_passport", default=None)
_renew: ContextVar[Renew | None] = ContextVar("grove_passport_renewal", default=None)


def current_passport() -> Passport:
    """The passport of the call being served; ``missing_credential`` when there is none."""
    passport = _current.get()
    if passport is None:
        raise GroveError("missing_credential", "This request carries no credential.")
    return passport


def passport_or_none() -> Passport | None:
    """The passport of the call being served, if any."""
    return _current.get()


def set_passport(passport: Passport | None) -> None:
    """Set the passport for the rest of this context (an RPC has a context of its own)."""
    _current.set(passport)
    _renew.set(None)


async def fresh_passport() -> Passport | None:
    """The passport to send with a call: the current one, renewed where it can be."""
    renew = _renew.get()
    if renew is not None:
        _current.set(await renew())
    return _current.get()


@contextmanager
def use_passport(passport: Passport | None, *, renew: Renew | None = None) -> Generator[Passport | None]:
    """Act as ``passport`` (or as nobody) inside the block; with ``renew`` for longer than it lasts."""
    previous = _current.get(), _renew.get()
    _current.set(passport)
    _renew.set(renew)
    try:
        yield passport
    finally:
        _current.set(previous[0])
        _renew.set(previous[1])


class PassportSigner:
    """Signs passports with one private key. Only authz_service holds one."""

    def __init__(self, key: Path | OKPKey, clock: Clock | None = None) -> None:
        self._key: OKPKey = _private_key(key.read_text()) if isinstance(key, Path) else key
        self._clock: Clock = clock or SystemClock()
        if not self._key.is_private or self._key.kid is None:
            raise ValueError("the signing key must be a private key with a kid")

    def sign(  # noqa: PLR0913 - keywords only, one for each claim
        self,
        principal: str,
        *,
        groups: Iterable[str] = (),
        scopes: Iterable[str] = ("user",),
        session: str | None = None,
        narrowing: Iterable[Narrowing] = (),
        token_id: str | None = None,
        source: str | None = None,
        lifetime: timedelta = LIFETIME,
    ) -> Passport:
        """A passport for ``principal``, good for ``lifetime`` from now."""
        now = self._clock.now()
        expires_at = datetime.fromtimestamp(int((now + lifetime).timestamp()), UTC)
        groups, scopes, narrowing = tuple(groups), frozenset(scopes), tuple(narrowing)
        claims: dict[str, object] = {
            "iss": ISSUER,
            "sub": principal,
            "groups": list(groups),
            "scopes": sorted(scopes),
            "iat": int(now.timestamp()),
            "exp": int(expires_at.timestamp()),
        }
        if token_id is not None:
            claims["tid"] = token_id
        if session is not None:
            claims["sid"] = session
        if source is not None:
            claims["src"] = source
        if narrowing:
            claims["narrow"] = [[one.memory_id, one.access] for one in narrowing]
        token = jwt.encode({"alg": ALGORITHM, "kid": self._key.kid}, claims, self._key, [ALGORITHM])
        return Passport(principal, groups, scopes, session, narrowing, token, expires_at, token_id, source)


class PassportVerifier:
    """Verifies passports with the public keys of a JWK set.

    A verdict on a signature never changes, so tokens already verified are remembered (a bounded
    number) and only their times are looked at again.
    """

    def __init__(self, keys: Path | KeySet, clock: Clock | None = None) -> None:
        self._keys: KeySet = _key_set(keys.read_text()) if isinstance(keys, Path) else keys
        self._clock: Clock = clock or SystemClock()
        self._known: OrderedDict[str, tuple[Passport, datetime]] = OrderedDict()

    def verify(self, token: str) -> Passport:
        """The passport in ``token``; ``invalid_credential`` for anything but a valid, current one."""
        passport, issued_at = self._known.get(token) or self._decode(token)
        now = self._clock.now()
        if now >= passport.expires_at + LEEWAY or now < issued_at - LEEWAY:
            self._known.pop(token, None)
            raise _refused()
        self._known[token] = passport, issued_at
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return passport

    def _decode(self, token: str) -> tuple[Passport, datetime]:
        try:
            claims = cast("dict[str, object]", jwt.decode(token, self._keys, [ALGORITHM]).claims)
            if claims["iss"] != ISSUER:
                raise _refused()
            return _passport(token, claims), _time(claims["iat"])
        except (JoseError, KeyError, ValueError, TypeError, OverflowError):
            raise _refused() from None


def _private_key(text: str) -> OKPKey:
    """The private key of a JWK document."""
    return OKPKey.import_key(cast("dict[str, str | list[str]]", json.loads(text)))


def _key_set(text: str) -> KeySet:
    """The Ed25519 keys of a JWKS document."""
    document = cast("dict[str, list[dict[str, str | list[str]]]]", json.loads(text))
    return KeySet([OKPKey.import_key(key) for key in document["keys"]])


def _passport(token: str, claims: dict[str, object]) -> Passport:
    token_id, session, source = claims.get("tid"), claims.get("sid"), claims.get("src")
    return Passport(
        principal=_text(claims["sub"]),
        groups=tuple(_texts(claims["groups"])),
        scopes=frozenset(_texts(claims["scopes"])),
        session=None if session is None else _text(session),
        narrowing=tuple(_narrowing(one) for one in _list(claims.get("narrow", []))),
        token=token,
        expires_at=_time(claims["exp"]),
        token_id=None if token_id is None else _text(token_id),
        source=None if source is None else _text(source),
    )


def _narrowing(value: object) -> Narrowing:
    memory_id, access = _texts(value)
    if access not in ("read", "write"):
        raise ValueError(access)
    return Narrowing(memory_id, access)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return cast("list[object]", value)


def _texts(value: object) -> list[str]:
    return [_text(one) for one in _list(value)]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _time(value: object) -> datetime:
    if not isinstance(value, int):
        raise TypeError(value)
    return datetime.fromtimestamp(value, UTC)


def _refused() -> GroveError:
    return GroveError("invalid_credential", "The credential is not valid.")


def generate_keys(kid: str | None = None) -> tuple[str, str]:
    """A fresh key pair: (private JWK for the signer, JWK set with its public half for everybody), as JSON."""
    key = OKPKey.generate_key("Ed25519")
    kid = kid or key.thumbprint()
    private = {**key.as_dict(private=True), "kid": kid, "use": "sig", "alg": ALGORITHM}
    public = {**key.as_dict(private=False), "kid": kid, "use": "sig", "alg": ALGORITHM}
    return json.dumps(private), json.dumps({"keys": [public]})
