"""Who asks, who holds what and why, of authz_service."""

from typing import Final

import grpc

from gateway.clients.convert import PRIVILEGES, cursor, idempotency, moment, page, privileges
from gateway.http import Idempotency
from gateway.schemas import access
from gateway.schemas import memories as schema
from gateway.schemas.tokens import group_of
from protos.authz.v1 import authz_pb2, authz_pb2_grpc
from service_kit.identity import Passport

__all__ = ["SAFE", "AuthzClient"]

SAFE: Final = (
    "grovekeeper.authz.v1.Authentication/Authenticate",
    "grovekeeper.authz.v1.Principals/WhoAmI",
    "grovekeeper.authz.v1.Access/Explain",
    "grovekeeper.authz.v1.Grants/ListGrants",
    "grovekeeper.authz.v1.Grants/AddGrant",
)
"""Methods that may be sent twice: reads, and writes whose repetition changes nothing."""


class AuthzClient:
    """Authentication, and access (Memories, section 3)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._authentication = authz_pb2_grpc.AuthenticationStub(channel)
        self._principals = authz_pb2_grpc.PrincipalsStub(channel)
        self._access = authz_pb2_grpc.AccessStub(channel)
        self._grants = authz_pb2_grpc.GrantsStub(channel)

    async def authenticate(self, token: str, source: str) -> Passport:
        """The passport of a bearer token, asked anew each time so that a revocation holds at once.

        ``source``: the network address it came from, for the audit; at most 64 characters.
        """
        request = authz_pb2.AuthenticateRequest(token=token, source=source)
        answer = await self._authentication.Authenticate(request)
        return Passport(
            principal=answer.principal,
            groups=tuple(answer.groups),
            scopes=frozenset(answer.scopes),
            session=None,
            narrowing=(),
            token=answer.passport,
            expires_at=moment(answer.expires_at),
        )

    async def who_am_i(self) -> access.WhoAmI:
        """Who the caller is, with every group that counts for it now."""
        answer = await self._principals.WhoAmI(authz_pb2.WhoAmIRequest())
        return access.WhoAmI(
            principal=answer.principal,
            groups=list(answer.groups),
            managed_groups=list(answer.managed_groups),
            scopes=list(answer.scopes),
            token_id=answer.token_id or None,
        )

    async def explain(self, memory_id: str, asked: access.Explain) -> access.Explanation:
        """Why a principal holds what it holds on a memory, as far as the caller may know."""
        request = authz_pb2.ExplainRequest(
            memory_id=memory_id, principal=asked.principal, groups=[group_of(one) for one in asked.group]
        )
        answer = await self._access.Explain(request)
        return access.Explanation(
            memory_id=answer.memory_id,
            principal=answer.principal,
            privileges=privileges(answer.privileges),
            reasons=[
                access.Reason(
                    grant=_grant(one.grant),
                    via_group=one.via_group or None,
                    stopped_at=one.stopped_at or None,
                )
                for one in answer.reasons
            ],
            groups=list(answer.groups),
            complete=answer.complete,
        )

    async def grants(self, memory_id: str, asked: schema.ListGrants) -> schema.Grants:
        """Every grant that reaches a memory, as far as the caller may see."""
        request = authz_pb2.ListGrantsRequest(memory_id=memory_id, page=page(asked.limit, asked.cursor))
        answer = await self._grants.ListGrants(request)
        return schema.Grants(
            data=[_grant(one) for one in answer.grants], next_cursor=cursor(answer.next_cursor)
        )

    async def grant(self, memory_id: str, asked: schema.NewGrant, key: Idempotency) -> schema.Grant:
        """Give a principal privileges on a memory."""
        request = authz_pb2.AddGrantRequest(
            memory_id=memory_id,
            principal=asked.principal,
            privileges=[PRIVILEGES[one] for one in asked.privileges],
            idempotency=idempotency(key),
        )
        return _grant(await self._grants.AddGrant(request))

    async def revoke_grant(self, memory_id: str, grant_id: str, key: Idempotency) -> schema.Grant:
        """Take a grant back; it holds for the next request."""
        request = authz_pb2.RevokeGrantRequest(
            memory_id=memory_id, grant_id=grant_id, idempotency=idempotency(key)
        )
        answer = await self._grants.RevokeGrant(request)
        return _grant(answer.grant)


def _grant(message: authz_pb2.Grant) -> schema.Grant:
    return schema.Grant(
        id=message.id,
        memory_id=message.memory_id,
        principal=message.principal,
        privileges=privileges(message.privileges),
        inherited=message.inherited,
        creator=message.creator,
    )
