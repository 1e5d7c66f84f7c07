"""``/v1/grovekeeper/tokens``: bearer tokens, for administrators."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.tokens import TokensClient
from gateway.errors import invalid
from gateway.http import answer, body, query
from gateway.openapi import describe
from gateway.schemas import tokens as schema

__all__ = ["routes"]

_TOKENS = "/v1/grovekeeper/tokens"


def routes(on: FastAPI, tokens: TokensClient) -> None:
    """Issuing, listing and revoking."""

    @on.post(_TOKENS, openapi_extra=describe(schema.IssuedToken, body=schema.CreateToken))
    async def create_token(request: Request) -> Response:
        """Issue a token; it is told this once."""
        asked, _ = await body(request, schema.CreateToken)
        return answer(await tokens.create(asked), headers={"Cache-Control": "no-store"})

    @on.get(_TOKENS, openapi_extra=describe(schema.Tokens, query=schema.ListTokens))
    async def list_tokens(request: Request) -> Response:
        """Which tokens there are, newest first, never the tokens themselves."""
        return answer(await tokens.list(query(request, schema.ListTokens)))

    @on.post(
        f"{_TOKENS}/revoke",
        openapi_extra=describe(
            schema.RevokedToken, body=schema.RevokeToken, errors=("grovekeeper_not_found",)
        ),
    )
    async def revoke_token(request: Request) -> Response:
        """Revoke a token by itself or by its id."""
        asked, _ = await body(request, schema.RevokeToken)
        if (asked.token is None) == (asked.id is None):
            raise invalid("A token is revoked by itself or by its id; name exactly one.", "token")
        return answer(schema.RevokedToken(id=await tokens.revoke(token=asked.token, token_id=asked.id)))

    @on.delete(f"{_TOKENS}/{{token_id}}", openapi_extra=describe(schema.RevokedToken))
    async def delete_token(token_id: str) -> Response:
        """Revoke a token by its id."""
        return answer(schema.RevokedToken(id=await tokens.revoke(token_id=token_id)))
