import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from runner_service.domain.abilities import Abilities, Ability, NamedQuery, Operation
from runner_service.domain.errors import GroveError
from runner_service.domain.fence import unfenced
from runner_service.domain.model import Attachment, Item, Reach, Session
from runner_service.domain.tool_calls import Remember, ToolCall
from runner_service.loopback.server import listening
from runner_service.tools.offer import tool_name
from runner_service.tools.server import ToolServer
from service_kit.clock import SystemClock

WRITING = Reach((Attachment("hmem_1", "write", is_default=True),), "hmem_1")
READING = Reach((Attachment("hmem_2", "read"),), "")


class Desk:
    """Access and memory in one: keeps who acted, under which caps, and what was called."""

    def __init__(self) -> None:
        self.acting: list[tuple[str, str, tuple[Attachment, ...]]] = []
        self.calls: list[tuple[ToolCall, str]] = []
        self.answer: Item | Exception = {"ok": True}
        self.able: Abilities | Exception = Abilities()
        self.asked: tuple[str, ...] = ()

    @asynccontextmanager
    async def as_harness(
        self, harness_id: str, session_id: str, narrowing: Sequence[Attachment] = ()
    ) -> AsyncGenerator[None]:
        self.acting.append((harness_id, session_id, tuple(narrowing)))
        yield

    async def privileges(self, memory_id: str) -> frozenset[str]:
        raise NotImplementedError(memory_id)

    async def readable(self, memory_ids: Sequence[str]) -> frozenset[str]:
        raise NotImplementedError(memory_ids)

    async def attach(self, harness_id: str, attachments: Sequence[Attachment]) -> None:
        raise NotImplementedError(harness_id, attachments)

    async def memories(self, memory_ids: tuple[str, ...]) -> Item:
        return {"memories": list(memory_ids)}

    async def abilities(self, memory_ids: Sequence[str]) -> Abilities:
        self.asked = tuple(memory_ids)
        if isinstance(self.able, Exception):
            raise self.able
        return self.able

    async def call(self, call: ToolCall, key: str) -> Item:
        self.calls.append((call, key))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def server(desk: Desk) -> AsyncGenerator[ToolServer]:
    made = ToolServer(desk, desk, "1")
    async with listening("127.0.0.1:0") as loopback, made.serving(loopback):
        yield made


def session() -> Session:
    return Session("hsess_1", "person:alice", "chrn_1", "", SystemClock().now())


async def post(
    url: str, token: str | None, method: str, params: str = "{}", name: str = "memory_remember"
) -> httpx.Response:
    """One request of the protocol, its params as they are given."""
    version = "2026-07-28"
    meta = (
        f'"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}",'
        '"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},'
        '"io.modelcontextprotocol/clientCapabilities":{}}'
    )
    rest = params.strip()[1:-1]
    body = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{meta}{"," if rest else ""}{rest}}}}}'
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
        "MCP-Method": method,
        "MCP-Name": name,
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with httpx.AsyncClient() as client:
        return await client.post(url, content=body.encode(), headers=headers)


def result(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def test_nobody_without_the_token_of_a_running_turn_gets_in(server: ToolServer) -> None:
    async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:
        assert (await post(access.url, None, "tools/list")).status_code == 401
        assert (await post(access.url, "gt_guess", "tools/list")).status_code == 401
        assert (await post(access.url, access.token, "tools/list")).status_code == 200
        other = access.url.replace("/mcp", "/else")
        assert (await post(other, access.token, "tools/list")).status_code == 404
    assert (await post(access.url, access.token, "tools/list")).status_code == 401


async def test_a_body_beyond_reason_is_not_read_and_its_sender_is_told(
    server: ToolServer, desk: Desk
) -> None:
    def asked(content: str) -> str:
        return '{"name":"memory_remember","arguments":{"content":"' + content + '"}}'

    async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:
        answer = await post(access.url, access.token, "tools/call", asked("a" * 9_000_000))
        assert answer.status_code == 413
        assert "at most 8388608 bytes" in answer.json()["error"]["message"]
        assert desk.calls == []
        # The longest content there can be, each byte spelled in six.
        result(await post(access.url, access.token, "tools/call", asked("\\u0001" * 1024 * 1024)))
        assert len(desk.calls) == 1


async def test_there_is_no_stream_to_listen_on(server: ToolServer) -> None:
    """Whoever held one would hold it beyond its turn."""
    async with (
        server.open(session(), WRITING.attachments, WRITING, frozenset()) as access,
        httpx.AsyncClient(timeout=5) as client,
    ):
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {access.token}"}
        assert (await client.get(access.url, headers=headers)).status_code == 405


async def test_arguments_that_are_null_are_none(server: ToolServer) -> None:
    call = '{"name":"memory_list","arguments":null}'
    async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:
        answer = result(await post(access.url, access.token, "tools/call", call, "memory_list"))
    assert unfenced(answer["content"][0]["text"]) == {"memories": ["hmem_1"]}


async def test_a_call_whose_body_comes_after_its_turn_is_not_carried_out(
    server: ToolServer, desk: Desk
) -> None:
    over = asyncio.Event()

    async def slowly() -> AsyncGenerator[bytes]:
        yield b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
        await over.wait()
        yield b'"params":{"name":"memory_remember","arguments":{"content":"late"}}}'

    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as client:
        async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:
            headers["Authorization"] = f"Bearer {access.token}"
            sending = asyncio.create_task(client.post(access.url, content=slowly(), headers=headers))
            await asyncio.sleep(0.1)
        over.set()
        assert (await sending).status_code == 401
    assert desk.calls == []


async def test_a_turn_is_told_so_much_by_its_tools_and_then_nothing_is_done(
    server: ToolServer, desk: Desk
) -> None:
    desk.answer = {"content": "a" * 1_500_000}
    call = '{"name":"memory_remember","arguments":{"content":"x"}}'
    async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:

        async def told() -> str:
            return result(await post(access.url, access.token, "tools/call", call))["content"][0]["text"]

        answers = [await told() for _ in range(3)]
        assert [len(one) > 1_500_000 for one in answers] == [True, True, False]
        assert answers[2].startswith("grovekeeper_too_large: ")
        assert "was carried out" in answers[2]
        desk.answer = {"content": "a" * 1_190_000}
        assert len(await told()) > 1_190_000
        done = len(desk.calls)
        refused = await told()
        assert refused.startswith("grovekeeper_too_large: ")
        assert "nothing was done" in refused
        assert len(desk.calls) == done
    async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:
        assert unfenced(await told()) == desk.answer


@pytest.mark.requirement("ME-5.2-07", "ME-9.1-12")
@pytest.mark.parametrize(
    ("where", "disabled", "names"),
    [
        (READING, frozenset[str](), {"memory_list", "memory_recall", "memory_get"}),
        (
            WRITING,
            frozenset({"memory_forget", "memory_get"}),
            {"memory_list", "memory_recall", "memory_remember", "memory_revise"},
        ),
        (Reach((), ""), frozenset[str](), set[str]()),
    ],
)
async def test_tools_are_offered_by_what_is_attached(
    server: ToolServer, where: Reach, disabled: frozenset[str], names: set[str]
) -> None:
    async with server.open(session(), where.attachments, where, disabled) as access:
        listed = result(await post(access.url, access.token, "tools/list"))
    assert {tool["name"] for tool in listed["tools"]} == names == set(access.names)


@pytest.mark.requirement("ME-3.3-02")
async def test_a_call_acts_as_the_harness_and_keeps_its_json_as_it_was_sent(
    server: ToolServer, desk: Desk
) -> None:
    attributes = '{"n":1.10, "big":123456789012345678901234567890,"é":"\\u00e9"}'
    call = f'{{"name":"memory_remember","arguments":{{"content":"x","attributes":{attributes}}}}}'
    async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:
        answer = result(await post(access.url, access.token, "tools/call", call))
    # Once for what can be offered, once for the call.
    assert desk.acting == [("chrn_1", "hsess_1", WRITING.attachments)] * 2
    ((made, key),) = desk.calls
    assert isinstance(made, Remember)
    assert (made.memory, made.content, key[:5]) == ("hmem_1", "x", "call_")
    assert bytes(made.attributes) == attributes.encode()
    assert unfenced(answer["content"][0]["text"]) == {"ok": True}


async def test_a_refusal_is_a_tool_error_with_code_and_sentence(server: ToolServer, desk: Desk) -> None:
    desk.answer = GroveError("memory_forbidden", "You may not write here.")
    call = '{"name":"memory_remember","arguments":{"content":"x"}}'
    async with server.open(session(), WRITING.attachments, WRITING, frozenset()) as access:
        answer = result(await post(access.url, access.token, "tools/call", call))
        assert answer["isError"] is True
        text = answer["content"][0]["text"]
        assert text.startswith("memory_forbidden: ")
        assert unfenced(text) == {"message": "You may not write here."}
        desk.answer = RuntimeError("the host db-7 said no")
        answer = result(await post(access.url, access.token, "tools/call", call))
        assert answer["content"][0]["text"] == "server_error: The tool failed."


async def test_a_tool_that_is_not_offered_cannot_be_called(server: ToolServer, desk: Desk) -> None:
    call = '{"name":"memory_remember","arguments":{"content":"x"}}'
    async with server.open(session(), READING.attachments, READING, frozenset()) as access:
        answer = result(await post(access.url, access.token, "tools/call", call))
    assert answer["isError"] is True
    assert desk.calls == []


ABLE = Abilities(
    (
        Ability(
            "hmem_2",
            "native",
            (NamedQuery("deals", "Deals.", b'{"type":"object"}', writes=False),),
            free_query_languages=("sql",),
        ),
    ),
    (Operation("x.calendar.event", "reschedule", "Move.", b"{}", writes=False),),
)


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        (tool_name("hmem_2", "deals"), '{"n":1.10, "é":[1]}', "params"),
        ("memory_run_query", '{"name":"deals","params":{"n":1.10, "é":[1]}}', "params"),
        ("memory_query", '{"language":"sql","statement":"select 1","params":{"n":1.10, "é":[1]}}', "params"),
        ("memory_operate", '{"record":"r","operation":"reschedule","input":{"n":1.10, "é":[1]}}', "input"),
    ],
)
async def test_queries_and_operations_carry_their_json_as_it_was_sent(
    server: ToolServer, desk: Desk, name: str, arguments: str, field: str
) -> None:
    desk.able = ABLE
    asked = f'{{"name":"{name}","arguments":{arguments}}}'
    async with server.open(session(), READING.attachments, READING, frozenset(), ("hmem_below",)) as access:
        assert name in access.names
        answer = result(await post(access.url, access.token, "tools/call", asked, name))
    assert unfenced(answer["content"][0]["text"]) == {"ok": True}
    assert desk.asked == ("hmem_2", "hmem_below")
    ((made, _),) = desk.calls
    assert made.memory == "hmem_2"
    assert bytes(getattr(made, field)) == '{"n":1.10, "é":[1]}'.encode()


async def test_where_nobody_says_what_can_be_done_there_are_the_tools_of_records(
    server: ToolServer, desk: Desk
) -> None:
    desk.able = GroveError("memory_unavailable", "later")
    async with server.open(session(), READING.attachments, READING, frozenset()) as access:
        assert set(access.names) == {"memory_list", "memory_recall", "memory_get"}
