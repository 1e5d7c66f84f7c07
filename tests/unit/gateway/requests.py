"""Requests as a server hands them over."""

from collections.abc import Mapping

from starlette.requests import Request


def made(method: str, path: str, headers: Mapping[str, str], query: str = "") -> Request:
    """A request without a body."""
    return Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "server": ("test", 80),
            "scheme": "http",
            "root_path": "",
        }
    )
