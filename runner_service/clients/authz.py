"""Passports of harnesses, decisions and grants, asked of authz_service over gRPC."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Final

import grpc

from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import AccessStub, GrantsStub, TokensStub
from runner_service.domain.model import Attachment
from service_kit.identity import Narrowing, Passport, use_passport
from service_kit.rpc.client import ServicePassport

__all__ = ["SAFE", "AuthzAccess"]

SAFE: Final = tuple(
    f"grovekeeper.authz.v1.{method}"
    for method in (
        "Authentication/Authenticate",
        "Access/Check",
        "Access/CheckMany",
        "Tokens/MintHarnessPassport",
        "Grants/AttachHarness",
    )
)
"""What may be sent twice: reads, and what answers the same again."""

_AT_ONCE: Final = 1_000
_PRIVILEGES: Final = {
    wire.PRIVILEGE_READ: "read",
    wire.PRIVILEGE_WRITE: "write",
    wire.PRIVILEGE_CREATE: "create",
    wire.PRIVILEGE_DELETE: "delete",
}


class AuthzAccess:
    """The verbs of ``domain.ports.Access``."""

    def __init__(self, channel: grpc.aio.Channel, service: ServicePassport) -> None:
        self._access = AccessStub(channel)
        self._grants = GrantsStub(channel)
        self._tokens = TokensStub(channel)
        self._service: ServicePassport = service

    @asynccontextmanager
    async def as_harness(
        self, harness_id: str, session_id: str, narrowing: Sequence[Attachment] = ()
    ) -> AsyncGenerator[Passport]:
        async with self._service.as_service():
            minted = await self._tokens.MintHarnessPassport(
                wire.MintHarnessPassportRequest(
                    harness_id=harness_id, session_id=session_id, narrowing=_narrowing(narrowing)
                )
            )
        passport = Passport(
            principal=f"harness:{harness_id}",
            groups=(),
            scopes=frozenset(),
            session=session_id or None,
            narrowing=tuple(Narrowing(one.memory_id, one.access) for one in narrowing),
            token=minted.passport,
            expires_at=minted.expires_at.ToDatetime(UTC),
        )
        with use_passport(passport):
            yield passport

    async def privileges(self, memory_id: str) -> frozenset[str]:
        node = await self._access.Check(wire.CheckRequest(memory_id=memory_id))
        return frozenset(_PRIVILEGES[one] for one in node.privileges)

    async def readable(self, memory_ids: Sequence[str]) -> frozenset[str]:
        found = set[str]()
        for start in range(0, len(memory_ids), _AT_ONCE):
            batch = memory_ids[start : start + _AT_ONCE]
            asked = wire.CheckManyRequest(memory_ids=batch, required=wire.PRIVILEGE_READ)
            found.update((await self._access.CheckMany(asked)).memory_ids)
        return frozenset(found)

    async def attach(self, harness_id: str, attachments: Sequence[Attachment]) -> None:
        await self._grants.AttachHarness(
            wire.AttachHarnessRequest(harness_id=harness_id, entries=_narrowing(attachments))
        )


def _narrowing(attachments: Sequence[Attachment]) -> list[wire.Narrowing]:
    return [wire.Narrowing(memory_id=one.memory_id, access=one.access) for one in attachments]
