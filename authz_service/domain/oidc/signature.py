"""What a JWT says of itself, and whether a key signed it (RFC 7515, 7519, 8725).

Only what is signed is believed. The header chooses among the keys and algorithms that are trusted already;
keys and addresses in it (``jwk``, ``jku``, ``x5c``, ``x5u``) are never looked at.
"""

import binascii
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

LONGEST: Final = 16_384
"""Longest JWT that is looked at, in characters."""
ALGORITHMS: Final = {
    "RS256": "RS256",
    "RS384": "RS384",
    "RS512": "RS512",
    "PS256": "PS256",
    "PS384": "PS384",
    "PS512": "PS512",
    "ES256": "ES256",
    "ES384": "ES384",
    "ES512": "ES512",
    "EdDSA": "Ed25519",
    "Ed25519": "Ed25519",
}
"""The algorithms that can be trusted, with the library's names: signatures by a private key, nothing else."""
TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
"""What a header's ``typ`` may say; it may also be left out. A logout token, for one, says otherwise."""

PublicKey = RSAKey | ECKey | OKPKey

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_KID: Final = 256


class RefusedError(Exception):
    """A JWT is not accepted. ``reason`` is for the operator: fixed words, nothing of the token.

    ``told`` is a sentence for the bearer, where its issuer did sign it and it can do something about it.
    """

    def __init__(self, reason: str, told: str | None = None) -> None:
        super().__init__(reason)
        self.reason: str = reason
        self.told: str | None = told


@dataclass(frozen=True, slots=True)
class Parsed:
    """A JWT taken apart and not verified: what the header chooses, and what is signed by what."""

    algorithm: str
    kid: str
    signed: bytes
    payload: str
    signature: bytes


def parse(text: str, allowed: frozenset[str]) -> Parsed:
    """Take a JWT apart, as far as its header is acceptable. Raises :class:`RefusedError`."""
    if len(text) > LONGEST:
        raise RefusedError("it is too long")
    parts = text.split(".")
    if len(parts) != 3 or not all(map(_SEGMENT.fullmatch, parts)):
        raise RefusedError("it is malformed")
    header = _object(parts[0], "its header")
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in allowed or algorithm not in ALGORITHMS:
        raise RefusedError("its algorithm is not allowed")
    if "crit" in header:
        raise RefusedError("its header has extensions that have to be understood")
    if not isinstance(kind, str) or kind.lower() not in TYPES:
        raise RefusedError("it is of another type")
    if not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_KID:
        raise RefusedError("it names no key")
    return Parsed(
        algorithm, kid, f"{parts[0]}.{parts[1]}".encode(), parts[1], _bytes(parts[2], "its signature")
    )


def verified(parsed: Parsed, key: PublicKey) -> Mapping[str, object]:
    """The claims, if ``key`` signed them. Raises :class:`RefusedError`."""
    if not _model(parsed.algorithm).verify(parsed.signed, parsed.signature, key):
        raise RefusedError("its signature is wrong")
    return _object(parsed.payload, "its payload")


def suits(key: PublicKey, algorithm: str) -> bool:
    """Whether a key is of the type and curve an algorithm is used with."""
    model = _model(algorithm)
    return bool(key.key_type == model.key_type and getattr(model, "curve", None) in (None, _curve(key)))


def _curve(key: PublicKey) -> str | None:
    return None if isinstance(key, RSAKey) else key.curve_name


def _model(algorithm: str) -> Any:
    return JWSRegistry.algorithms[ALGORITHMS[algorithm]]


def _bytes(segment: str, what: str) -> bytes:
    try:
        return urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except (binascii.Error, ValueError):
        raise RefusedError(f"{what} is malformed") from None


def _object(segment: str, what: str) -> Mapping[str, object]:
    try:
        value = cast("object", json.loads(_bytes(segment, what), parse_constant=_no_number))
    except (ValueError, RecursionError):
        raise RefusedError(f"{what} is malformed") from None
    if not isinstance(value, dict):
        raise RefusedError(f"{what} is malformed")
    return cast("Mapping[str, object]", value)


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)
