"""Tokens and passports: convert, call the use case, convert."""

from typing import Any

from grpc.aio import ServicerContext

from authz_service.api import convert
from authz_service.domain.create_token import CreateToken
from authz_service.domain.mint_passport import MintPassport
from authz_service.domain.revoke_token import RevokeToken
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import TokensServicer as TokensBase
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


class TokensServicer(TokensBase):
    """Issuing and revoking."""

    def __init__(self, create: CreateToken, revoke: RevokeToken, mint: MintPassport) -> None:
        self._create: CreateToken = create
        self._revoke: RevokeToken = revoke
        self._mint: MintPassport = mint

    async def CreateToken(self, request: wire.CreateTokenRequest, context: Context) -> wire.Token:
        current_passport().require_scope("admin")
        return convert.issued(await self._create(request.principal, request.groups, request.ttl_seconds))

    async def RevokeToken(
        self, request: wire.RevokeTokenRequest, context: Context
    ) -> wire.RevokeTokenResponse:
        current_passport().require_scope("admin")
        return wire.RevokeTokenResponse(id=await self._revoke(token_id=request.id, secret=request.token))

    async def MintHarnessPassport(
        self, request: wire.MintHarnessPassportRequest, context: Context
    ) -> wire.MintHarnessPassportResponse:
        current_passport().require_scope("service")
        minted = self._mint(request.harness_id, request.session_id, convert.entries(request.narrowing))
        return wire.MintHarnessPassportResponse(
            passport=minted.token, expires_at=convert.timestamp(minted.expires_at)
        )
