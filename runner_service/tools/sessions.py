"""Who may call the tools: one random token for each turn, gone when the turn ends."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from runner_service.domain.model import Attachment, Session
from runner_service.tools.offer import Offered

__all__ = ["ToolSession", "ToolSessions"]


@dataclass(frozen=True, slots=True)
class ToolSession:
    """What a token stands for."""

    session: Session
    caps: tuple[Attachment, ...]
    starts: tuple[str, ...]
    default: str
    offered: Mapping[str, Offered]

    @property
    def here(self) -> str:
        """The memory of a call that names none; empty when there is none."""
        return self.default or next(iter(self.starts), "")


class ToolSessions:
    """The tokens in use in this process. Only their hashes are kept."""

    def __init__(self) -> None:
        self._open: dict[bytes, ToolSession] = {}

    def add(self, session: ToolSession) -> str:
        """A token for ``session``."""
        token = f"gt_{secrets.token_urlsafe(32)}"
        self._open[_hash(token)] = session
        return token

    def remove(self, token: str) -> None:
        """The token is worth nothing from now on."""
        self._open.pop(_hash(token), None)

    def find(self, header: str | None) -> ToolSession | None:
        """Whose ``Authorization`` this is."""
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self._open.get(_hash(token.strip()))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
