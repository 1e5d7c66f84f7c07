"""The edge every request crosses: trace, version, credential, limits, and an answer for every failure.

One ASGI middleware does all of it, because each middleware of a framework costs a request more than
this does altogether. Order: the span begins, the protocol version is settled, the bearer token is
exchanged for a passport, its principal's requests are counted, then the route runs with the passport as
its context.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import unquote

from opentelemetry import trace
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway import errors
from gateway.http import SLASH
from gateway.limits import RateLimits
from gateway.multipart import MAX_REST_BYTES, too_large
from gateway.observed import Observation, is_link
from gateway.revisions import REVISIONS, Name, revision
from gateway.schemas.discovery import DEFAULT_VERSION, VERSIONS
from gateway.source import FORWARDED, Source
from service_kit.errors import GroveError, internal
from service_kit.identity import Passport, set_passport, use_passport

__all__ = ["DISCOVERY", "Door", "Edge", "Limits"]

DISCOVERY: Final = "/v1/uhp"
"""The one address that needs no credential, but for those that are one: links (:func:`gateway.observed.is_link`)."""
UPLOADS: Final = ("POST", "/v1/files")
"""Whose body is a file, with a limit of its own."""
TURNS: Final = ("POST", "/v1/responses")
"""What starts a turn."""

_MEMORIES: Final = re.compile(r"/v1/memories(?:/|$)")
_TOKEN: Final = re.compile(rb"bearer +([\x21-\x7e]{1,16384})", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_log: Final = logging.getLogger(__name__)

Authenticate = Callable[[str, str], Awaitable[Passport]]
"""A bearer token and where it came from, for a passport."""


@dataclass(frozen=True, slots=True)
class Limits:
    """In bytes."""

    body: int
    headers: int
    file: int


@dataclass(frozen=True, slots=True)
class Door:
    """Who is let in: how a token is exchanged, where it came from, and how often."""

    authenticate: Authenticate
    source: Source
    rates: RateLimits


class Edge:
    """Wraps the application; see the module."""

    def __init__(self, app: ASGIApp, *, door: Door, revision: Name, limits: Limits) -> None:
        self.app: ASGIApp = app
        self.door: Door = door
        self.revision: Name = revision
        self.limits: Limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await _Exchange(self, scope, receive, send).serve()


class _Exchange:
    """One request and its answer."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
        self._edge: Edge = edge
        self._scope: Scope = scope
        self._receive_inner: Receive = receive
        self._send_inner: Send = send
        self._headers: dict[bytes, bytes] = _joined(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        self._observed: Observation = Observation(scope, self._headers)
        self._extra: list[tuple[bytes, bytes]] = [
            (b"uhp-version", DEFAULT_VERSION.encode()),
            (b"traceparent", self._observed.traceparent),
        ]
        self._received: int = 0
        self._status: int = 0

    async def serve(self) -> None:
        """Answer, whatever happens."""
        with trace.use_span(self._observed.span, record_exception=False, set_status_on_exception=False):
            try:
                await self._admitted()
            except GroveError as error:
                await self._refuse(error)
            except asyncio.CancelledError:
                # The server stops and its grace is over; nobody but it cancels a request.
                await self._refuse(
                    GroveError("grovekeeper_unavailable", "The server is stopping; try again.")
                )
            except ClientDisconnect:
                _log.debug("the client left before it was answered")
            except Exception:  # noqa: BLE001 - the edge of the process
                _log.exception("a request failed")
                await self._refuse(internal())
            finally:
                self._observed.end(self._status, self._scope)

    async def _admitted(self) -> None:
        self._settle_version()
        self._check_size()
        self._scope["path"] = _path(self._scope)
        if self._scope["path"] == DISCOVERY and self._scope["method"] == "GET":
            await self._edge.app(self._scope, self._receive, self._send)
            return
        door, source = self._edge.door, self._source()
        if is_link(self._scope["path"]) and self._scope["method"] == "GET":
            await self._visited(source)
            return
        passport, token = await self._let_in(source)
        self._observed.known(passport)
        turn = (self._scope["method"], self._scope["path"]) == TURNS
        await door.rates.admit(passport.principal, starts_turn=turn)

        async def renew() -> None:
            set_passport(await door.authenticate(token, source))

        self._scope.setdefault("state", {})["renew"] = renew
        with use_passport(passport):
            self._settle_revision()
            await self._edge.app(self._scope, self._receive, self._send)

    async def _visited(self, source: str) -> None:
        """The route of a link, for an address: counted for it, and one that leads nowhere as a refused credential is."""
        rates = self._edge.door.rates
        await rates.visited(source)
        try:
            await self._edge.app(self._scope, self._receive, self._send)
        except GroveError as error:
            if error.code == "grovekeeper_not_found":
                await rates.refused(source)
            raise

    def _source(self) -> str:
        peer = cast("tuple[str, int] | None", self._scope.get("client"))
        source = self._edge.door.source.of(peer[0] if peer else "", self._headers.get(FORWARDED))
        self._observed.came_from(source)
        return source

    async def _let_in(self, source: str) -> tuple[Passport, str]:
        """The passport and the token it is for. Only a credential that is refused counts against its address."""
        door = self._edge.door
        try:
            token = _token(self._headers.get(b"authorization"))
            return await door.authenticate(token, source), token
        except GroveError as error:
            if error.code == "invalid_credential":
                await door.rates.refused(source)
            raise

    def _settle_version(self) -> None:
        asked = self._headers.get(b"uhp-version")
        if asked is None:
            return
        if asked.decode("latin-1") not in VERSIONS:
            raise GroveError(
                "unsupported_protocol_version",
                "This server does not speak that version of the protocol.",
                param="UHP-Version",
                detail={"supported": list(VERSIONS)},
            )
        self._extra[0] = (b"uhp-version", asked)

    def _settle_revision(self) -> None:
        if _MEMORIES.match(self._scope["path"]) is None:
            return
        default = self._edge.revision
        asked = self._headers.get(b"uhp-memories-revision")
        name = default if asked is None else asked.decode("latin-1")
        self._extra.append(
            (b"uhp-memories-revision", (name if name in REVISIONS else default).encode()),
        )
        self._scope.setdefault("state", {})["revision"] = revision(name, default)

    def _check_size(self) -> None:
        limits = self._edge.limits
        head = len(cast("bytes", self._scope.get("raw_path") or b"")) + len(self._scope["query_string"])
        head += sum(len(name) + len(value) for name, value in self._headers.items())
        if head > limits.headers:
            raise _too_large("The address and headers of this request", limits.headers)
        declared = self._headers.get(b"content-length", b"0")
        if declared.isdigit():
            self._check_body(int(declared))

    def _check_body(self, size: int) -> None:
        limits = self._edge.limits
        if (self._scope["method"], self._scope["path"]) == UPLOADS:
            if size > limits.file + MAX_REST_BYTES:
                raise too_large(limits.file)
        elif size > limits.body:
            raise _too_large("The body of this request", limits.body)

    async def _receive(self) -> Message:
        message = await self._receive_inner()
        self._received += len(message.get("body", b""))
        self._check_body(self._received)
        return message

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._extra]
        await self._send_inner(message)

    async def _refuse(self, error: GroveError) -> None:
        self._observed.refused(error)
        if self._status:
            # The status is sent: all that is left to say is that the answer breaks off here.
            _log.warning("an answer broke off: %s", error.message, extra={"code": error.code})
            return
        await errors.response(error)(self._scope, self._receive, self._send)


def _path(scope: Scope) -> str:
    """The path, in which a slash that came encoded is part of a name (:func:`gateway.http.segment`).

    No id holds a control character, and no database takes NUL: such an id is an unknown one.
    """
    raw = cast("bytes | None", scope.get("raw_path")) or b""
    if b"%2f" not in raw.lower():
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", scope["path"])
    segments = (
        _CONTROL.sub("\N{REPLACEMENT CHARACTER}", unquote(one)) for one in raw.decode("latin-1").split("/")
    )
    return "/".join(one.replace("/", SLASH) for one in segments)


def _joined(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name; several of one name are joined as RFC 9110 §5.3 joins them."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        found[name] = value if name not in found else found[name] + b", " + value
    return found


def _token(header: bytes | None) -> str:
    """The bearer token. Absent: ``missing_credential``; anything else that is none: ``invalid_credential``."""
    if header is None or not header.strip():
        raise GroveError("missing_credential", "This request needs a bearer token.")
    found = _TOKEN.fullmatch(header.strip())
    if found is None:
        raise GroveError("invalid_credential", "The credential is not valid.")
    return found[1].decode("ascii")


def _too_large(what: str, limit: int) -> GroveError:
    return GroveError(
        "grovekeeper_too_large", f"{what} may have {limit} bytes at most.", detail={"max_bytes": limit}
    )
