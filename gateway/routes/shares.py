"""Sharing a session, and the address of what is shared (UHP Sessions, section 5)."""

from collections.abc import Iterator
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.shares import SharesClient
from gateway.errors import JSON
from gateway.http import answer, query
from gateway.openapi import describe
from gateway.schemas import shares as schema
from gateway.shared_page import CONTENT_SECURITY_POLICY, page

__all__ = ["routes"]

_SHARE = "/v1/sessions/{session_id}/share"
_HTML: Final = "text/html"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    # The address is the secret: it goes along to no other page, and into no index.
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}


def routes(on: FastAPI, shares: SharesClient) -> None:
    """Links of sessions."""

    @on.post(_SHARE, openapi_extra=describe(schema.Share))
    async def share_session(session_id: str) -> Response:
        """Publish a session by a link, or answer the link it has."""
        return answer(await shares.share(session_id))

    @on.get(_SHARE, openapi_extra=describe(schema.Share))
    async def get_share(session_id: str) -> Response:
        """The link of a session that is published."""
        return answer(await shares.get(session_id))

    @on.delete(_SHARE, openapi_extra=describe(schema.DeletedShare))
    async def revoke_share(session_id: str) -> Response:
        """Take back every link ever made for a session."""
        return answer(await shares.revoke(session_id))

    @on.get(
        schema.LINK + "{share_id}",
        openapi_extra=describe(schema.SharedView, query=schema.OpenShare, also=_HTML) | {"security": []},
    )
    async def open_share(request: Request, share_id: str) -> Response:
        """What a link shows, without a credential: a page for browsers, JSON for programs."""
        view = await shares.open(share_id, query(request, schema.OpenShare))
        if _wants_html(request.headers.get("accept", "")):
            return Response(page(view), headers=_HEADERS, media_type=_HTML)
        return Response(view.json, headers=_HEADERS, media_type=JSON)


def _wants_html(accept: str) -> bool:
    """Whether a page is preferred to JSON (RFC 9110 §12.5.1): named, and with no lower weight than JSON has."""
    weights = dict(_accepted(accept))
    json = weights.get("application/json", 0.0)
    return weights.get(_HTML, 0.0) > 0 and weights[_HTML] >= json


def _accepted(accept: str) -> Iterator[tuple[str, float]]:
    for one in accept.lower().split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            yield name, float(weight)
        except ValueError:
            continue
