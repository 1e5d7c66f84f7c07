"""Bearer tokens, of authz_service."""

from typing import Final

import grpc

from gateway.clients.convert import moment
from gateway.schemas import tokens as schema
from gateway.schemas.base import UNSET
from protos.authz.v1 import authz_pb2, authz_pb2_grpc

__all__ = ["SAFE", "TokensClient"]

SAFE: Final = ("grovekeeper.authz.v1.Tokens/RevokeToken",)
"""Methods that may be sent twice: reads, and writes whose repetition changes nothing."""


class TokensClient:
    """Issuing and revoking."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._tokens = authz_pb2_grpc.TokensStub(channel)

    async def create(self, asked: schema.CreateToken) -> schema.Token:
        """Issue a token; only now is it told."""
        request = authz_pb2.CreateTokenRequest(
            principal=schema.principal_of(asked),
            groups=[schema.group_of(one) for one in asked.groups or ()],
            ttl_seconds=asked.ttl_seconds or 0,
        )
        made = await self._tokens.CreateToken(request)
        return schema.Token(
            id=made.id,
            token=made.token,
            principal=made.principal,
            groups=list(made.groups),
            scopes=list(made.scopes),
            created_at=moment(made.created_at) if made.HasField("created_at") else UNSET,
            expires_at=moment(made.expires_at) if made.HasField("expires_at") else UNSET,
        )

    async def revoke(self, *, token: str | None = None, token_id: str | None = None) -> str:
        """Revoke by the token or by its id; the id."""
        request = (
            authz_pb2.RevokeTokenRequest(id=token_id or "")
            if token is None
            else authz_pb2.RevokeTokenRequest(token=token)
        )
        return (await self._tokens.RevokeToken(request)).id
