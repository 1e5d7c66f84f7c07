"""Stores in memory."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

from authz_service.domain.audit import Act
from authz_service.domain.model import NewToken, Token, TokensWanted
from service_kit.errors import GroveError

__all__ = ["TokensInMemory"]


class TokensInMemory:
    """``domain.ports.Tokens`` and ``TokensChange`` in dictionaries."""

    def __init__(self) -> None:
        self.kept: dict[bytes, Token] = {}
        self.acts: list[Act] = []
        self.written: list[dict[str, datetime]] = []
        self.revoked: set[bytes] = set()
        self.away: bool = False

    async def find(self, sha256: bytes) -> Token | None:
        return self.kept.get(sha256)

    async def jwt_revoked(self, sha256: bytes) -> bool:
        return sha256 in self.revoked

    async def page(
        self, wanted: TokensWanted, before: tuple[datetime, str] | None, limit: int
    ) -> list[Token]:
        raise NotImplementedError

    async def used(self, times: Mapping[str, datetime]) -> None:
        if self.away:
            raise GroveError("grovekeeper_unavailable", "Try again.")
        self.written.append(dict(times))

    async def forget_jwts(self, before: datetime) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def change(self) -> AsyncGenerator["TokensInMemory"]:
        yield self

    async def live(self, principal: str, now: datetime) -> int:
        return sum(one.principal == principal and one.valid_at(now) for one in self.kept.values())

    async def add(self, token: NewToken) -> Token:
        return self.kept.setdefault(token.sha256, token.token)

    async def revoke(
        self, *, token_id: str = "", sha256: bytes = b"", now: datetime
    ) -> tuple[Token, bool] | None:
        for key, one in self.kept.items():
            if one.id == token_id or key == sha256:
                self.kept[key] = replace(one, revoked_at=one.revoked_at or now)
                return one, one.revoked_at is None
        return None

    async def revoke_jwt(self, sha256: bytes, *, expires_at: datetime, now: datetime) -> bool:
        first = sha256 not in self.revoked
        self.revoked.add(sha256)
        return first

    async def end_bootstrap(self, others_than: Sequence[bytes], now: datetime) -> list[Token]:
        raise NotImplementedError

    async def record(self, act: Act) -> None:
        self.acts.append(act)
