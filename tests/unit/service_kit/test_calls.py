"""A call between services: identity, errors, deadlines, retries. Real servers on loopback."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import grpc
import pytest

from service_kit.clock import FixedClock
from service_kit.errors import GroveError
from service_kit.identity import Passport, PassportSigner, use_passport
from service_kit.rpc.client import channel, streaming
from service_kit.rpc.status import ERROR_KEY
from service_kit.settings import Settings
from tests.unit.service_kit.echo import SERVICE, Echo, Served, Stub, serving


@pytest.fixture
def alice(signer: PassportSigner) -> Passport:
    return signer.sign("person:alice", groups=["group:x"])


async def failure(call: Awaitable[object]) -> GroveError:
    with pytest.raises(GroveError) as raised:
        await call
    return raised.value


async def collected(stream: AsyncIterator[bytes]) -> list[bytes]:
    return [item async for item in stream]


async def test_the_caller_is_known_to_the_handler(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            assert await stub.unary(b"who") == b"person:alice"


async def test_calls_at_once_each_keep_their_own_caller(echo: Served, signer: PassportSigner):
    async with echo.client() as stub:

        async def one(number: int) -> bool:
            name = f"person:{number}"
            with use_passport(signer.sign(name)):
                whole = await collected(stub.stream(b""))
                return await stub.unary(b"who") == name.encode() and whole[2] == b"2 " + name.encode()

        assert all(await asyncio.gather(*(one(number) for number in range(50))))


async def test_the_caller_holds_to_the_end_of_a_stream(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            assert (await collected(stub.stream(b"")))[:3] == [
                b"%d person:alice" % number for number in range(3)
            ]


async def test_a_call_without_a_passport_is_refused(echo: Served):
    async with echo.client() as stub:
        assert (await failure(stub.unary(b""))).code == "missing_credential"
        assert (await failure(collected(stub.stream(b"")))).code == "missing_credential"
    assert echo.echo.calls == 0


async def test_a_call_with_an_old_passport_is_refused(echo: Served, key_files: tuple[Path, Path]):
    old = PassportSigner(key_files[0], FixedClock(datetime.now(UTC) - timedelta(minutes=5)))
    async with echo.client() as stub:
        with use_passport(old.sign("person:alice")):
            assert (await failure(stub.unary(b""))).code == "invalid_credential"


async def test_a_public_method_needs_no_passport_and_believes_none(echo: Served, alice: Passport):
    async with echo.client() as stub:
        assert await stub.public(b"") == b"nobody"
        with use_passport(alice):
            assert await stub.public(b"") == b"nobody"


async def test_a_server_without_keys_serves_nobody(alice: Passport):
    async with serving(Settings(stop_grace_s=0), Echo()) as served, served.client() as stub:
        with use_passport(alice):
            assert (await failure(stub.unary(b""))).code == "missing_credential"


async def test_our_error_arrives_whole(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            error = await failure(stub.unary(b"refuse"))
    assert (error.code, error.message, error.param) == ("memory_forbidden", "You may not.", "memory.id")
    assert error.detail == {"needs": ["write"]}


async def test_our_error_arrives_whole_in_the_middle_of_a_stream(echo: Served, alice: Passport):
    seen: list[bytes] = []
    async with echo.client() as stub:

        async def read() -> None:
            async for item in stub.stream(b"refuse"):
                seen.append(item)  # noqa: PERF401 - what came before the error counts

        with use_passport(alice):
            error = await failure(read())
    assert len(seen) == 3
    assert (error.code, error.detail) == ("session_busy", {"retry_after_ms": 5})


@pytest.mark.parametrize("shape", ["unary", "stream"])
async def test_an_unforeseen_failure_says_nothing_and_is_logged(
    echo: Served, alice: Passport, caplog: pytest.LogCaptureFixture, shape: str
):
    async with echo.client() as stub:
        with use_passport(alice):
            error = await failure(
                stub.unary(b"break") if shape == "unary" else collected(stub.stream(b"break"))
            )
    assert (error.code, error.detail) == ("server_error", None)
    assert "hunter2" not in error.message
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 1
    assert logged[0].exc_info
    assert "hunter2" in str(logged[0].exc_info[1])


async def test_the_status_line_of_an_error_is_the_tables(echo: Served, alice: Passport):
    async with grpc.aio.insecure_channel(echo.address) as raw:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await raw.unary_unary(f"/{SERVICE}/Unary")(
                b"refuse", timeout=5, metadata=(("grove-passport", alice.token),)
            )
    assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert ERROR_KEY in dict(raised.value.trailing_metadata())


async def test_a_detail_too_large_for_metadata_stays_behind(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            error = await failure(stub.unary(b"large detail"))
    assert (error.code, error.detail) == ("invalid_input", None)
    assert len(error.message) == 1024


async def test_a_call_without_a_deadline_is_refused(echo: Served, alice: Passport):
    metadata = (("grove-passport", alice.token),)
    async with grpc.aio.insecure_channel(echo.address) as raw:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await raw.unary_unary(f"/{SERVICE}/Unary")(b"", metadata=metadata)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert echo.echo.calls == 0


async def test_a_call_that_takes_too_long_ends_on_both_sides(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            assert (await failure(stub.unary(b"wait", timeout=0.3))).code == "grovekeeper_deadline"
            await asyncio.wait_for(echo.echo.left.wait(), 5)


async def test_a_caller_that_gives_up_ends_the_handler(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            call = asyncio.create_task(stub.unary(b"wait"))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.wait_for(echo.echo.left.wait(), 5)


async def test_leaving_a_stream_early_ends_the_handler(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            async with streaming(stub.stream(b"wait", timeout=60)) as items:
                async for item in items:
                    assert item == b"0 person:alice"
                    break
            await asyncio.wait_for(echo.echo.left.wait(), 5)


async def test_cancelling_the_reader_of_a_stream_ends_the_handler(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            reader = asyncio.create_task(collected(stub.stream(b"wait", timeout=60)))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await asyncio.wait_for(echo.echo.left.wait(), 5)


async def test_a_server_that_cancels_is_unavailable_and_cancels_nobody_else(echo: Served, alice: Passport):
    async with echo.client() as stub:
        with use_passport(alice):
            call = asyncio.create_task(stub.unary(b"wait"))
            reader = asyncio.create_task(collected(stub.stream(b"wait")))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            echo.stop.set()
            echo.hurry.set()
            assert (await failure(call)).code == "grovekeeper_unavailable"
            assert (await failure(reader)).code == "grovekeeper_unavailable"


async def test_no_server_is_unavailable(settings: Settings, alice: Passport):
    async with channel("127.0.0.1:1", settings) as nowhere:
        with use_passport(alice):
            assert (await failure(Stub(nowhere).unary(b"", timeout=3))).code == "grovekeeper_unavailable"
            assert (
                await failure(collected(Stub(nowhere).stream(b"", timeout=3)))
            ).code == "grovekeeper_unavailable"


async def test_only_safe_methods_are_sent_again(echo: Served, alice: Passport):
    echo.echo.failures = 2
    with use_passport(alice):
        async with echo.client() as careful:
            assert (await failure(careful.unary(b"flaky"))).code == "grovekeeper_unavailable"
        assert echo.echo.calls == 1
        echo.echo.calls = 0
        async with echo.client(safe=[f"{SERVICE}/Unary"]) as stub:
            assert await stub.unary(b"flaky") == b"at last"
    assert echo.echo.calls == 3


async def test_a_message_over_the_limit_is_too_large(key_files: tuple[Path, Path], alice: Passport):
    small = Settings(passport_keys_file=key_files[1], rpc_max_message_bytes=100_000, stop_grace_s=0)
    async with serving(small, Echo()) as served, served.client() as stub:
        with use_passport(alice):
            assert (await failure(stub.unary(b"big"))).code == "grovekeeper_too_large"
            assert (await failure(stub.unary(b"x" * 200_000))).code == "grovekeeper_too_large"
            assert await stub.unary(b"x" * 50_000) == b"x" * 50_000


async def test_more_calls_than_a_process_takes_are_unavailable(key_files: tuple[Path, Path], alice: Passport):
    narrow = Settings(passport_keys_file=key_files[1], rpc_max_concurrent=1, stop_grace_s=0)
    async with serving(narrow, Echo()) as served, served.client() as stub:
        with use_passport(alice):
            first = asyncio.create_task(stub.unary(b"wait"))
            await asyncio.wait_for(served.echo.entered.wait(), 5)
            assert (await failure(stub.unary(b"hello"))).code == "grovekeeper_unavailable"
            served.echo.release.set()
            assert await first == b"waited"


async def test_a_method_that_a_peer_leaves_out_is_said_to_be(echo: Served, alice: Passport):
    async with channel(echo.address, echo.settings) as known:
        with use_passport(alice):
            nothing = cast("Callable[[bytes], Awaitable[object]]", known.unary_unary(f"/{SERVICE}/Nothing"))
            assert (await failure(nothing(b""))).code == "grovekeeper_method_not_allowed"


async def test_an_error_of_a_newer_peer_is_a_server_error(
    echo: Served, alice: Passport, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("service_kit.rpc.status.TABLE", {})
    async with echo.client() as stub:
        with use_passport(alice):
            assert (await failure(stub.unary(b"refuse"))).code == "server_error"


async def test_calls_are_spread_over_all_addresses_of_a_name(settings: Settings, alice: Passport):
    async with serving(settings, Echo()) as one, serving(settings, Echo()) as two:
        target = f"ipv4:{one.address},{two.address}"
        async with channel(target.replace("ipv4:", "ipv4:///"), settings) as both:
            stub = Stub(both)
            with use_passport(alice):
                await stub.unary(b"", timeout=5)
                while both.get_state() is not grpc.ChannelConnectivity.READY:
                    await both.wait_for_state_change(both.get_state())
                for _ in range(40):
                    await stub.unary(b"")
        assert one.echo.calls > 0
        assert two.echo.calls > 0
