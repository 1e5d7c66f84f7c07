"""``/v1/grovekeeper/audit``: what was changed in who may reach what, and what was refused."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.audit import AuditClient
from gateway.http import answer, query
from gateway.openapi import describe
from gateway.schemas import audit as schema

__all__ = ["routes"]


def routes(on: FastAPI, audit: AuditClient) -> None:
    """For administrators."""

    @on.get("/v1/grovekeeper/audit", openapi_extra=describe(schema.Audit, query=schema.ListAudit))
    async def list_audit(request: Request) -> Response:
        """Changes of access and refused attempts."""
        return answer(await audit.list(query(request, schema.ListAudit)))
