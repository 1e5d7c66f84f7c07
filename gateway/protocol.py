"""The HTTP parser with a bound on what it gathers before a request exists.

uvicorn's parser collects the request line and headers of any length; the edge's own limit speaks only
once they are complete. A head that passes twice that limit is cut off here.
"""

from typing import Any, Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.errors import JSON
from gateway.schemas.discovery import DEFAULT_VERSION, Envelope, Fault

__all__ = ["limited_protocol"]


_NOT_HTTP: Final = msgspec.json.encode(
    Envelope(
        error=Fault(
            type="invalid_request_error",
            code="invalid_input",
            message="The request is not valid HTTP.",
            param=None,
            detail=None,
        )
    )
)
_NOT_HTTP_HEAD: Final = (
    f"HTTP/1.1 400 Bad Request\r\ncontent-type: {JSON}\r\nuhp-version: {DEFAULT_VERSION}\r\n"
    f"content-length: {len(_NOT_HTTP)}\r\nconnection: close\r\n\r\n"
).encode("ascii")


def limited_protocol(limit: int) -> type[HttpToolsProtocol]:
    """A protocol whose heads have at most about twice ``limit`` bytes."""

    class Limited(HttpToolsProtocol):
        """Counts what arrives while a head is incomplete."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._head_bytes: int = 0

        def data_received(self, data: bytes) -> None:
            if self._head_bytes > 2 * limit:
                self.transport.abort()
                return
            self._head_bytes += len(data)
            super().data_received(data)

        def on_headers_complete(self) -> None:
            self._head_bytes = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._head_bytes = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._head_bytes = 0
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - said in the envelope's words
            self.transport.write(_NOT_HTTP_HEAD + _NOT_HTTP)
            self.transport.close()

    return Limited
