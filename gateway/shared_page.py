"""A shared session as a page for people: text, and nothing that runs, loads, frames or posts anything."""

import hashlib
from base64 import b64encode
from datetime import UTC, datetime
from html import escape
from typing import Final
from urllib.parse import urlencode

from gateway.schemas.shares import SharedTurn, View

__all__ = ["CONTENT_SECURITY_POLICY", "page"]

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}"
    "h1{font-size:1.3rem}section{border-top:1px solid #ddd;padding:.8rem 0}h2{font-size:.85rem;color:#555;margin:.4rem 0}"
    "p{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0 .8rem;unicode-bidi:isolate}"
    ".note{color:#555;font-size:.85rem}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#181818}h2,.note{color:#a5a5a5}section{border-color:#3a3a3a}}"
)
_STYLE_HASH: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; sandbox allow-top-navigation-by-user-activation"
)
"""The page's own style, by its hash; scripts, images, frames and forms have no source at all."""

_ENDED: Final = {
    "in_progress": "still at work",
    "failed": "failed",
    "incomplete": "incomplete",
    "cancelled": "cancelled",
}


def page(view: View) -> bytes:
    """The page, UTF-8. Every text of the session is escaped and shown as text."""
    title = escape(view.title or "A shared session")
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        '<meta name="robots" content="noindex,nofollow"><meta name="referrer" content="no-referrer">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f'<h1 dir="auto">{title}</h1><p class="note">A session of {_day(view.created_at)}, shared for reading.</p>',
        *(_turn(one) for one in view.read),
    ]
    if view.next_cursor:
        following = escape(urlencode({"cursor": view.next_cursor}))
        parts.append(f'<p><a href="?{following}" rel="noreferrer">What came next</a></p>')
    return "".join((*parts, "</body></html>")).encode("utf-8", "replace")


def _turn(one: SharedTurn) -> str:
    said = [f'<section><h2>Asked</h2><p dir="auto">{escape(one.user)}</p>']
    if one.tools:
        names = ", ".join(escape(tool.name) for tool in one.tools)
        said.append(f'<p class="note">Tools called: {names}</p>')
    if one.assistant:
        said.append(f'<h2>Answered</h2><p dir="auto">{escape(one.assistant)}</p>')
    if one.status in _ENDED:
        said.append(f'<p class="note">This turn is {_ENDED[one.status]}.</p>')
    return "".join((*said, "</section>"))


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
