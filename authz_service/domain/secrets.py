"""What a bearer token looks like, and what is kept of it."""

import hashlib
import secrets
from typing import Final

PREFIX: Final = "gk_"
LONGEST: Final = 512
"""Longest token that is looked at, in characters; ours have 46."""


def new_secret() -> str:
    """``gk_`` and 43 characters that hold 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def is_jwt(secret: str) -> bool:
    """Whether a credential has the shape of a JWT: three parts between dots, which no token of ours has."""
    return secret.count(".") == 2 and not secret.startswith(PREFIX)


def digest(secret: str) -> bytes:
    """The SHA-256 a token is kept and found by. The secret is random, so it needs no salt and no stretching."""
    return hashlib.sha256(secret[:LONGEST].encode("utf-8", "surrogatepass")).digest()
