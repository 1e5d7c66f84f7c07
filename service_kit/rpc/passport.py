"""A service's own identity, for what it does when nobody asked: jobs, reconcilers, privileged calls."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from typing import Final

import grpc

from protos.authz.v1 import authz_pb2, authz_pb2_grpc
from service_kit.clock import Clock, SystemClock
from service_kit.identity import Passport, use_passport

__all__ = ["AUTHENTICATE", "ServicePassport"]

AUTHENTICATE: Final = "grovekeeper.authz.v1.Authentication/Authenticate"
"""The one method that may be called without a passport."""

_EARLY: Final = timedelta(seconds=20)


class ServicePassport:
    """Exchanges the service's token at authz for a passport, lazily, and again before it expires.

    ``channel`` leads to authz_service; ``token`` is ``settings.token()``.
    """

    def __init__(self, channel: grpc.aio.Channel, token: str, clock: Clock | None = None) -> None:
        self._stub: authz_pb2_grpc.AuthenticationAsyncStub = authz_pb2_grpc.AuthenticationStub(channel)
        self._token: str = token
        self._clock: Clock = clock or SystemClock()
        self._passport: Passport | None = None
        self._lock: asyncio.Lock = asyncio.Lock()

    async def passport(self) -> Passport:
        """A passport good for a while. Raises what authz raises."""
        async with self._lock:
            known = self._passport
            if known is None or self._clock.now() >= known.expires_at - _EARLY:
                known = self._passport = await self._authenticate()
            return known

    @asynccontextmanager
    async def as_service(self) -> AsyncGenerator[Passport]:
        """Act as this service inside the block, however long: calls made in it renew the passport."""
        passport = await self.passport()
        with use_passport(passport, renew=self.passport):
            yield passport

    async def _authenticate(self) -> Passport:
        with use_passport(None):
            answer = await self._stub.Authenticate(authz_pb2.AuthenticateRequest(token=self._token))
        return Passport(
            principal=answer.principal,
            groups=tuple(answer.groups),
            scopes=frozenset(answer.scopes),
            session=None,
            narrowing=(),
            token=answer.passport,
            expires_at=answer.expires_at.ToDatetime(tzinfo=UTC),
        )
