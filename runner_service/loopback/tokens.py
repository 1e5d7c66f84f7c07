"""Who may come in: a random token for each turn, gone when the turn ends."""

import hashlib
import secrets
from typing import Final, Generic, TypeVar

__all__ = ["TurnTokens", "bearer"]

_T = TypeVar("_T")
_BYTES: Final = 32


class TurnTokens(Generic[_T]):
    """The tokens in use at one door of this process, and what each stands for.

    Only their hashes are kept and compared, so that the time an answer takes tells nothing of a token.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix: str = prefix
        self._open: dict[bytes, _T] = {}

    def add(self, meant: _T) -> str:
        """A token for ``meant``."""
        token = f"{self._prefix}{secrets.token_urlsafe(_BYTES)}"
        self._open[_hash(token)] = meant
        return token

    def remove(self, token: str) -> None:
        """The token is worth nothing from now on."""
        self._open.pop(_hash(token), None)

    def find(self, token: str | None) -> _T | None:
        """What a token stands for; None for one that is not in use."""
        return self._open.get(_hash(token)) if token else None


def bearer(header: str | None) -> str | None:
    """The token of an ``Authorization`` header."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
