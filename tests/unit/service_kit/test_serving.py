"""The life of a server: readiness, health, stopping in order, dying loudly."""

import asyncio
import logging
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from service_kit.identity import PassportSigner, use_passport
from service_kit.ops import ListenError, OpsServer, bind
from service_kit.settings import Settings
from tests.unit.service_kit.echo import SERVICE, Echo, Served, serving

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def get(served: Served, path: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.get(f"http://127.0.0.1:{served.ops_port}{path}")


class Watching:
    """The health service's own stream of states."""

    def __init__(self, channel: grpc.aio.Channel, service: str) -> None:
        watch = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        self._states = aiter(watch(health_pb2.HealthCheckRequest(service=service)))

    async def until(self, wanted: int) -> None:
        async with asyncio.timeout(5):
            while (await anext(self._states)).status != wanted:
                pass


async def test_health_and_readiness_follow_the_service(settings: Settings):
    able = False

    async def ready() -> bool:
        return able

    async with (
        serving(settings, Echo(), ready=ready) as served,
        grpc.aio.insecure_channel(served.address) as raw,
    ):
        states = Watching(raw, SERVICE)
        await states.until(NOT_SERVING)
        assert (await get(served, "/readyz")).status_code == 503
        assert (await get(served, "/healthz")).status_code == 200
        able = True
        await states.until(SERVING)
        assert (await get(served, "/readyz")).status_code == 200
        able = False
        await states.until(NOT_SERVING)
        assert (await get(served, "/readyz")).status_code == 503


@pytest.mark.parametrize("fault", [RuntimeError("no"), TimeoutError()])
async def test_a_readiness_check_that_breaks_means_no(settings: Settings, fault: Exception):
    async def ready() -> bool:
        raise fault

    async with serving(settings, Echo(), ready=ready) as served:
        assert (await get(served, "/readyz")).status_code == 503
        assert (await get(served, "/healthz")).status_code == 200


async def test_the_server_tells_what_it_serves(echo: Served):
    async with grpc.aio.insecure_channel(echo.address) as raw:
        ask = raw.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        answers = ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        names = [
            service.name async for answer in answers for service in answer.list_services_response.service
        ]
    assert SERVICE in names
    assert "grpc.health.v1.Health" in names


async def test_metrics_are_readable(echo: Served):
    told = await get(echo, "/metrics")
    assert told.status_code == 200
    assert "python_info" in told.text


async def refused(served: Served) -> None:
    """Return once the server takes no new calls."""
    while True:
        async with grpc.aio.insecure_channel(served.address) as raw:
            try:
                await raw.unary_unary(f"/{SERVICE}/Public")(b"", timeout=0.5)
            except grpc.aio.AioRpcError:
                return


async def test_a_running_call_may_finish_after_the_stop(echo: Served, signer: PassportSigner):
    async with echo.client() as stub:
        with use_passport(signer.sign("person:alice")):
            call = asyncio.create_task(stub.unary(b"wait"))
            await asyncio.wait_for(echo.echo.entered.wait(), 5)
            echo.stop.set()
            await asyncio.wait_for(refused(echo), 5)
            echo.echo.release.set()
            assert await call == b"waited"
    assert await asyncio.wait_for(asyncio.shield(echo.ended), 5) == 0


async def test_what_drains_goes_before_calls_are_ended(settings: Settings, signer: PassportSigner):
    echo = Echo()

    async def drain() -> None:
        echo.release.set()

    patient = settings.model_copy(update={"stop_grace_s": 30.0})
    async with serving(patient, echo, drain=drain) as served, served.client() as stub:
        with use_passport(signer.sign("person:alice")):
            call = asyncio.create_task(stub.unary(b"wait"))
            await asyncio.wait_for(echo.entered.wait(), 5)
            served.stop.set()
            assert await call == b"waited"
        assert await asyncio.wait_for(asyncio.shield(served.ended), 5) == 0


async def test_background_work_is_cancelled_and_awaited_at_the_end(settings: Settings):
    began, cleaned = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    async with serving(settings, Echo(), background=[work]) as served:
        await asyncio.wait_for(began.wait(), 5)
        served.stop.set()
        assert await asyncio.wait_for(asyncio.shield(served.ended), 5) == 0
    assert cleaned.is_set()


async def test_background_work_that_is_done_ends_nothing(settings: Settings, signer: PassportSigner):
    done = asyncio.Event()

    async def once() -> None:
        done.set()

    async with serving(settings, Echo(), background=[once]) as served, served.client() as stub:
        await asyncio.wait_for(done.wait(), 5)
        with use_passport(signer.sign("person:alice")):
            assert await stub.unary(b"hello") == b"hello"


async def test_background_work_that_dies_ends_the_process_and_says_so(
    settings: Settings, caplog: pytest.LogCaptureFixture
):
    async def work() -> None:
        raise RuntimeError("broken")

    async with serving(settings, Echo(), background=[work]) as served:
        assert await asyncio.wait_for(asyncio.shield(served.ended), 5) == 1
    lines = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 1
    assert "work" in lines[0].getMessage()


async def test_a_taken_port_is_one_clear_sentence(echo: Served, settings: Settings):
    taken = settings.model_copy(update={"listen": echo.address})
    with pytest.raises(ListenError, match=f"cannot listen on {echo.address}"):
        async with serving(taken, Echo()):
            pass
    taken = settings.model_copy(update={"ops_listen": f"127.0.0.1:{echo.ops_port}"})
    with pytest.raises(ListenError, match="in use"):
        async with serving(taken, Echo()):
            pass


@pytest.mark.parametrize("listen", ["127.0.0.1:70000", "127.0.0.1:x", "192.0.2.1:80", ""])
def test_an_address_that_cannot_be_listened_on_is_named(listen: str):
    with pytest.raises(ListenError, match="cannot listen on"):
        bind(listen)


async def test_the_operators_server_stands_alone():
    async def ready() -> bool:
        return True

    async with OpsServer("127.0.0.1:0", ready) as ops, httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"http://127.0.0.1:{ops.port}/readyz")).text == "ready\n"
    async with OpsServer(f"127.0.0.1:{ops.port}", ready):
        pass


def test_the_key_file_is_where_settings_say(settings: Settings):
    assert isinstance(settings.keys_file(), Path)
