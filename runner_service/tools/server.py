"""The MCP server of this process (Memories §9.1): streamable HTTP on loopback, one token for each turn.

Whatever speaks MCP can be a turn's agent: ours in this process, or a program beside it. Every call
runs on a passport of the harness minted for that call, so a grant that is gone is gone at once; what a
memory answers is fenced; what it refuses is a tool error with its code.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request

from runner_service.domain.abilities import NOTHING, Abilities
from runner_service.domain.errors import GroveError, invalid
from runner_service.domain.fence import fenced
from runner_service.domain.memory_seam import narrowing
from runner_service.domain.model import Attachment, Item, Reach, Session, ToolAccess
from runner_service.domain.ports import Access, ToolMemory
from runner_service.domain.tool_calls import List, RunQuery, ToolCall, read_call
from runner_service.loopback.server import Door, Loopback, Receive, Scope, Send, header, refuse, whole
from runner_service.loopback.tokens import TurnTokens, bearer
from runner_service.tools.catalogue import TOOLS
from runner_service.tools.offer import Offered, offer
from runner_service.tools.sessions import ToolSession
from service_kit.ids import new_id

__all__ = ["ToolServer"]

_log: Final = logging.getLogger(__name__)
_NAME: Final = "mcp"
_PATH: Final = f"/{_NAME}"
_MAX_BODY: Final = 8 * 1024 * 1024
"""A record's content may have 1 MiB, which JSON may spell in six times as many bytes."""
_TOO_LARGE: Final = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"A call has at most %d bytes. Send less."}}'
    % _MAX_BODY
)
_MAX_ASKED: Final = 1_000
_SESSION: Final = "grove.tools"
_BODY: Final = "grove.body"


class _Params(msgspec.Struct):
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Body(msgspec.Struct):
    params: _Params = msgspec.field(default_factory=_Params)


_body: Final = msgspec.json.Decoder(_Body)


class ToolServer:
    """The verbs of ``domain.ports.Tools``. ``async with server.serving(loopback):`` opens its door."""

    def __init__(self, access: Access, memory: ToolMemory, version: str) -> None:
        self._access: Access = access
        self._memory: ToolMemory = memory
        self._tokens: TurnTokens[ToolSession] = TurnTokens("gt_")
        self._server: Server[dict[str, Any]] = Server(
            "grovekeeper-memory",
            version=version,
            on_list_tools=self._list,
            on_call_tool=self._call,
            # Otherwise each call lists all tools first, in a trace of its own.
            get_tool_input_schema=_schema_of,
        )
        self._url: str = ""

    @asynccontextmanager
    async def serving(self, loopback: Loopback) -> AsyncGenerator[None]:
        """Serve at ``/mcp`` of ``loopback`` inside the block."""
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=_MAX_BODY
        )
        started, done = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            # The library's tasks end in the task they began in, which a fixture's or a stack's end may not be.
            async with manager.run():
                started.set()
                await done.wait()

        task = asyncio.create_task(run(), name="mcp")
        await started.wait()
        self._url = f"{loopback.url}{_PATH}"
        loopback.open(_NAME, _Door(self._tokens, manager.handle_request))
        try:
            yield
        finally:
            done.set()
            await task

    @asynccontextmanager
    async def open(
        self,
        session: Session,
        attachments: Sequence[Attachment],
        where: Reach,
        disabled: frozenset[str],
        known: Sequence[str] = (),
    ) -> AsyncGenerator[ToolAccess]:
        caps = narrowing(session, attachments)
        abilities = NOTHING
        if where.attachments:
            abilities = await self._abilities(session, caps, (*where.starts, *known))
        offered = offer(where, abilities, disabled)
        token = self._tokens.add(ToolSession(session, caps, where.starts, where.default, offered))
        try:
            yield ToolAccess(self._url, token, tuple(offered))
        finally:
            self._tokens.remove(token)

    async def _abilities(
        self, session: Session, caps: Sequence[Attachment], memory_ids: Sequence[str]
    ) -> Abilities:
        """What these memories can do beyond records. Where nobody can say, a turn has the other tools."""
        try:
            async with self._access.as_harness(session.harness_id, session.id, caps):
                return await self._memory.abilities(list(dict.fromkeys(memory_ids))[:_MAX_ASKED])
        except GroveError as error:
            _log.warning("a turn has no queries and operations: %s", error.code)
            return NOTHING

    async def _list(
        self, ctx: ServerRequestContext[dict[str, Any]], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del params
        return types.ListToolsResult(tools=[one.tool for one in _caller(ctx).offered.values()])

    async def _call(
        self, ctx: ServerRequestContext[dict[str, Any]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            text = await self._carry_out(_caller(ctx), params.name, _arguments(ctx))
        except GroveError as error:
            # A sentence may quote what somebody wrote: a schema's words, a field's name.
            return _result(fenced({"message": error.message}, f"{error.code}: "), is_error=True)
        except Exception:  # noqa: BLE001 - the edge between the runner and an agent
            _log.exception("tool %s failed", params.name)
            return _result("server_error: The tool failed.", is_error=True)
        return _result(text)

    async def _carry_out(self, caller: ToolSession, name: str, arguments: bytes) -> str:
        async with caller.at_once:
            caller.told.check()
            text = fenced(await self._asked(caller, name, arguments))
            caller.told.add(text)
            return text

    async def _asked(self, caller: ToolSession, name: str, arguments: bytes) -> Item:
        tool = caller.offered.get(name)
        if tool is None:
            raise invalid(f"There is no tool called {name[:100]!r} here.", "name")
        call = _read(name, tool, arguments)
        async with self._access.as_harness(caller.session.harness_id, caller.session.id, caller.caps):
            if isinstance(call, List) and not call.memory:
                return await self._memory.memories(caller.starts)
            return await self._memory.call(_placed(call, caller), new_id("call"))


def _schema_of(name: str) -> dict[str, object] | None:
    tool = TOOLS.get(name)
    return None if tool is None else tool.input_schema


def _read(name: str, tool: Offered, arguments: bytes) -> ToolCall:
    """The call in these arguments; those of a query's own tool are its params."""
    if tool.query is None:
        return read_call(name, arguments)
    memory_id, query = tool.query
    return RunQuery(memory=memory_id, name=query, params=msgspec.Raw(arguments))


def _placed(call: ToolCall, caller: ToolSession) -> ToolCall:
    """The call on the memory it names, or on the one this session means without a name."""
    if call.memory:
        return call
    if not caller.here:
        raise invalid("Name the memory: there is none by default.", "memory")
    return msgspec.structs.replace(call, memory=caller.here)


class _Door:
    """Lets in who shows a token in use, and keeps the body: arguments are read from it as they were sent."""

    def __init__(self, tokens: TurnTokens[ToolSession], inner: Door) -> None:
        self._tokens: TurnTokens[ToolSession] = tokens
        self._inner: Door = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._caller(scope) is None or scope["path"] != _PATH:
            await refuse(send, 401 if self._caller(scope) is None else 404)
            return
        if scope["method"] != "POST":
            # Nothing is ever sent unasked, so a stream to listen on would only be held open.
            await refuse(send, 405)
            return
        body = await whole(receive, _MAX_BODY)
        if body is None:
            await refuse(send, 413, _TOO_LARGE)
            return
        # A body may be slow in coming, and its turn over by then.
        caller = self._caller(scope)
        if caller is None:
            await refuse(send, 401)
            return
        scope[_SESSION], scope[_BODY] = caller, body
        await self._inner(scope, _replay(body, receive), send)

    def _caller(self, scope: Scope) -> ToolSession | None:
        return self._tokens.find(bearer(header(scope, b"authorization")))


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the body once more, then whatever else comes."""
    pending = [body]

    async def again() -> MutableMapping[str, Any]:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return again


def _caller(ctx: ServerRequestContext[dict[str, Any]]) -> ToolSession:
    return cast("ToolSession", _scope(ctx)[_SESSION])


def _scope(ctx: ServerRequestContext[dict[str, Any]]) -> Scope:
    """What the door put beside the request."""
    return cast("Request", ctx.request).scope


def _arguments(ctx: ServerRequestContext[dict[str, Any]]) -> bytes:
    """A call's arguments, byte for byte."""
    try:
        arguments = bytes(_body.decode(_scope(ctx)[_BODY]).params.arguments)
    except msgspec.DecodeError:
        raise invalid("The arguments are not a JSON object.", "arguments") from None
    # The protocol lets them be null where there are none.
    return b"{}" if arguments == b"null" else arguments


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)
