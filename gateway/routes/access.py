"""``/v1/grovekeeper/…``: who a token speaks for, and why a principal holds what it holds."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.authz import AuthzClient
from gateway.http import answer, query
from gateway.openapi import describe
from gateway.schemas import access as schema

__all__ = ["routes"]

_ACCESS = "/v1/grovekeeper/memories/{memory_id}/access"


def routes(on: FastAPI, authz: AuthzClient) -> None:
    """Everybody may ask who they are; administrators and holders of ``delete`` why others reach a memory."""

    @on.get("/v1/grovekeeper/whoami", openapi_extra=describe(schema.WhoAmI))
    async def whoami() -> Response:
        """Who this token speaks for."""
        return answer(await authz.who_am_i())

    @on.get(_ACCESS, openapi_extra=describe(schema.Explanation, query=schema.Explain))
    async def explain_access(request: Request, memory_id: str) -> Response:
        """Why a principal holds what it holds on a memory."""
        return answer(await authz.explain(memory_id, query(request, schema.Explain)))
