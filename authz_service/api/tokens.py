"""Tokens and passports: convert, call the use case, convert."""

from dataclasses import dataclass
from typing import Any

from grpc.aio import ServicerContext

from authz_service.api import convert
from authz_service.domain.create_token import CreateToken, Wanted
from authz_service.domain.list_tokens import ListTokens
from authz_service.domain.mint_passport import MintPassport
from authz_service.domain.revoke_token import RevokeToken
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import TokensServicer as TokensBase
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class TokenUses:
    """The use cases behind the RPCs."""

    create: CreateToken
    list: ListTokens
    revoke: RevokeToken
    mint: MintPassport


class TokensServicer(TokensBase):
    """Issuing, listing and revoking."""

    def __init__(self, uses: TokenUses) -> None:
        self._uses: TokenUses = uses

    async def CreateToken(self, request: wire.CreateTokenRequest, context: Context) -> wire.Token:
        passport = current_passport()
        passport.require_scope("admin")
        wanted = Wanted(request.principal, request.groups, request.scopes, request.ttl_seconds)
        issued = await self._uses.create(passport.principal, wanted)
        return convert.token(issued.token, issued.secret)

    async def ListTokens(self, request: wire.ListTokensRequest, context: Context) -> wire.TokenPage:
        current_passport().require_scope("admin")
        tokens, cursor = await self._uses.list(
            request.principal, convert.page(request.page), ended=request.include_ended
        )
        return wire.TokenPage(tokens=[convert.token(one) for one in tokens], next_cursor=cursor)

    async def RevokeToken(
        self, request: wire.RevokeTokenRequest, context: Context
    ) -> wire.RevokeTokenResponse:
        current_passport().require_scope("admin")
        return wire.RevokeTokenResponse(id=await self._uses.revoke(token_id=request.id, secret=request.token))

    async def MintHarnessPassport(
        self, request: wire.MintHarnessPassportRequest, context: Context
    ) -> wire.MintHarnessPassportResponse:
        current_passport().require_scope("service")
        minted = self._uses.mint(request.harness_id, request.session_id, convert.entries(request.narrowing))
        return wire.MintHarnessPassportResponse(
            passport=minted.token, expires_at=convert.timestamp(minted.expires_at)
        )
