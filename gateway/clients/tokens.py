"""Bearer tokens, of authz_service."""

from typing import Any, Final

import grpc

from gateway.clients.convert import cursor, moment, page
from gateway.schemas import tokens as schema
from gateway.schemas.base import UNSET
from protos.authz.v1 import authz_pb2, authz_pb2_grpc

__all__ = ["SAFE", "TokensClient"]

SAFE: Final = ("grovekeeper.authz.v1.Tokens/ListTokens", "grovekeeper.authz.v1.Tokens/RevokeToken")
"""Methods that may be sent twice: reads, and writes whose repetition changes nothing."""


class TokensClient:
    """Issuing, listing and revoking."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._tokens = authz_pb2_grpc.TokensStub(channel)

    async def create(self, asked: schema.CreateToken) -> schema.IssuedToken:
        """Issue a token; only now is it told."""
        request = authz_pb2.CreateTokenRequest(
            principal=schema.principal_of(asked),
            groups=[schema.group_of(one) for one in asked.groups or ()],
            scopes=asked.scopes or (),
            ttl_seconds=asked.ttl_seconds or 0,
        )
        made = await self._tokens.CreateToken(request)
        return schema.IssuedToken(token=made.token, **_fields(made))

    async def list(self, asked: schema.ListTokens) -> schema.Tokens:
        """Tokens, newest first."""
        request = authz_pb2.ListTokensRequest(
            principal=asked.principal,
            include_ended=asked.include_ended,
            page=page(asked.limit, asked.cursor),
        )
        answer = await self._tokens.ListTokens(request)
        return schema.Tokens(
            data=[schema.Token(**_fields(one)) for one in answer.tokens],
            next_cursor=cursor(answer.next_cursor),
        )

    async def revoke(self, *, token: str | None = None, token_id: str | None = None) -> str:
        """Revoke by the token or by its id; the id."""
        request = (
            authz_pb2.RevokeTokenRequest(id=token_id or "")
            if token is None
            else authz_pb2.RevokeTokenRequest(token=token)
        )
        return (await self._tokens.RevokeToken(request)).id


def _fields(message: authz_pb2.Token) -> dict[str, Any]:
    """Everything but the secret."""
    moments = ("created_at", "expires_at", "revoked_at", "last_used_at")
    return {
        "id": message.id,
        "principal": message.principal,
        "groups": list(message.groups),
        "scopes": list(message.scopes),
        "created_by": message.created_by or UNSET,
        "bootstrap": message.bootstrap or UNSET,
        **{name: moment(getattr(message, name)) for name in moments if message.HasField(name)},
    }
