"""``GET /v1/uhp`` (UHP Lifecycle): the only address without a token."""

from fastapi import FastAPI
from starlette.responses import Response

from gateway.edge import DISCOVERY
from gateway.http import answer
from gateway.openapi import describe
from gateway.schemas.discovery import Discovery, discovery

__all__ = ["routes"]


def routes(on: FastAPI) -> None:
    """Discovery."""
    known = discovery()

    @on.get(DISCOVERY, openapi_extra=describe(Discovery) | {"security": []})
    async def discover() -> Response:
        """What this server is and does."""
        return answer(known)
