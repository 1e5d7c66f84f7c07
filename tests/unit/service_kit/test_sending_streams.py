"""A call that is sent a stream of requests: identity, errors, deadlines, pace and traces. Real servers on loopback."""

import asyncio
import logging
from collections.abc import AsyncGenerator

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from service_kit import semconv, telemetry
from service_kit.errors import GroveError
from service_kit.identity import Passport, PassportSigner, use_passport
from service_kit.rpc.client import channel
from service_kit.settings import Settings
from tests.unit.service_kit.echo import SERVICE, Served, Stub
from tests.unit.service_kit.test_call_traces import attribute, ended, of_kind, parent
from tests.unit.service_kit.test_calls import failure


@pytest.fixture
def alice(signer: PassportSigner) -> Passport:
    return signer.sign("person:alice")


async def sent(*requests: bytes) -> AsyncGenerator[bytes]:
    for one in requests:
        yield one


class Endless:
    """Requests without end; counts them, and says when it is no longer asked."""

    def __init__(self, *first: bytes, size: int = 100_000) -> None:
        self.asked = 0
        self.closed = asyncio.Event()
        self._first, self._size = first, size

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        try:
            for one in self._first:
                yield one
            while True:
                self.asked += 1
                yield b"x" * self._size
        finally:
            self.closed.set()


@pytest.mark.parametrize("number", [0, 1, 1000])
async def test_all_that_is_sent_arrives_and_its_sender_is_known(echo: Served, alice: Passport, number: int):
    async with echo.client() as stub:
        with use_passport(alice):
            answer = await stub.take(sent(*[b"ab"] * number))
    assert answer == b"%d person:alice" % (2 * number)


async def test_without_a_passport_nothing_is_taken(echo: Served):
    async with echo.client() as stub:
        assert (await failure(stub.take(Endless()))).code == "missing_credential"
    assert echo.echo.calls == 0


async def test_without_a_deadline_nothing_is_taken(echo: Served, alice: Passport):
    async with grpc.aio.insecure_channel(echo.address) as raw:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await raw.stream_unary(f"/{SERVICE}/Take")(
                sent(b"x"), metadata=(("grove-passport", alice.token),)
            )
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert echo.echo.calls == 0


async def test_our_error_arrives_whole_in_the_middle_of_sending(echo: Served, alice: Passport):
    requests = Endless(b"refuse")
    async with echo.client() as stub:
        with use_passport(alice):
            error = await failure(stub.take(requests))
    assert (error.code, error.param, error.detail) == ("memory_forbidden", "memory.id", {"needs": ["write"]})


async def test_an_unforeseen_failure_says_nothing_and_is_logged(
    echo: Served, alice: Passport, caplog: pytest.LogCaptureFixture
):
    async with echo.client() as stub:
        with use_passport(alice):
            error = await failure(stub.take(sent(b"break")))
    assert (error.code, error.detail) == ("server_error", None)
    assert "hunter2" not in error.message
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1


async def test_what_the_requests_raise_is_raised_and_ends_the_handler(echo: Served, alice: Passport):
    async def broken() -> AsyncGenerator[bytes]:
        yield b"wait"
        await echo.echo.entered.wait()
        raise GroveError("file_too_large", "Too large.")

    async with echo.client() as stub:
        with use_passport(alice):
            assert (await failure(stub.take(broken()))).code == "file_too_large"
            await asyncio.wait_for(echo.echo.left.wait(), 5)


async def test_an_early_answer_is_the_answer_and_the_rest_is_not_asked_for(echo: Served, alice: Passport):
    requests = Endless(b"early")
    async with echo.client() as stub:
        with use_passport(alice):
            assert await stub.take(requests) == b"enough"
    asked = requests.asked
    await asyncio.sleep(0)
    assert requests.asked == asked


async def test_who_takes_slowly_is_sent_slowly(echo: Served, alice: Passport):
    requests = Endless(b"wait")
    async with echo.client() as stub:
        with use_passport(alice):
            call = asyncio.create_task(stub.take(requests, timeout=60))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            asked = -1
            async with asyncio.timeout(10):
                while asked != requests.asked:  # until it stands still
                    asked = requests.asked
                    await asyncio.sleep(0.3)
            assert asked * 100_000 < 20_000_000
            echo.echo.release.set()
            assert await call == b"waited"


async def test_a_call_that_takes_too_long_ends_on_both_sides(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            assert (await failure(stub.take(sent(b"wait"), timeout=0.3))).code == "grovekeeper_deadline"
            await asyncio.wait_for(echo.echo.left.wait(), 5)
            # Also while it is still sending.
            assert (await failure(stub.take(Endless(b"wait"), timeout=0.3))).code == "grovekeeper_deadline"


async def test_a_caller_that_gives_up_ends_the_handler(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            call = asyncio.create_task(stub.take(Endless(b"wait"), timeout=60))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.wait_for(echo.echo.left.wait(), 5)


async def test_a_server_that_cancels_is_unavailable_and_cancels_nobody_else(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            call = asyncio.create_task(stub.take(sent(b"wait")))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            echo.stop.set()
            echo.hurry.set()
            assert (await failure(call)).code == "grovekeeper_unavailable"


async def test_no_server_is_unavailable(settings: Settings, alice: Passport):
    async with channel("127.0.0.1:1", settings) as nowhere:
        with use_passport(alice):
            error = await failure(Stub(nowhere).take(Endless(), timeout=3))
    assert error.code == "grovekeeper_unavailable"


async def test_it_is_one_trace_from_caller_to_handler(
    echo: Served, alice: Passport, spans: InMemorySpanExporter
):
    async with echo.client() as stub:
        with use_passport(alice), telemetry.tracer("test").start_as_current_span("root") as root:
            seen = await stub.take(sent(b"x", b"trace"))
    whole = await ended(spans, 3)
    client, server = of_kind(whole, SpanKind.CLIENT), of_kind(whole, SpanKind.SERVER)
    assert seen.decode() == trace.format_trace_id(root.get_span_context().trace_id)
    assert client.context
    assert (parent(client), parent(server)) == (root.get_span_context().span_id, client.context.span_id)
    for span in (client, server):
        assert span.name == f"{SERVICE}/Take"
        assert attribute(span, semconv.RPC_RESPONSE_STATUS_CODE) == "OK"


async def test_a_refusal_and_a_giving_up_are_seen_in_the_traces(
    echo: Served, alice: Passport, spans: InMemorySpanExporter
):
    async with echo.client() as stub:
        with use_passport(alice):
            await failure(stub.take(sent(b"refuse")))
            for one in await ended(spans, 2):
                assert attribute(one, semconv.RPC_RESPONSE_STATUS_CODE) == "PERMISSION_DENIED"
            spans.clear()
            call = asyncio.create_task(stub.take(sent(b"wait"), timeout=60))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            call.cancel()
            await asyncio.wait({call})
            for one in await ended(spans, 2):
                assert attribute(one, semconv.RPC_RESPONSE_STATUS_CODE) == "CANCELLED"
