"""A service as a process: signals, exit codes, lines of log, exported telemetry."""

import asyncio
import http.server
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service_kit import semconv
from service_kit.identity import PassportSigner, use_passport
from service_kit.rpc.client import channel
from service_kit.settings import Settings
from tests.unit.service_kit.echo import SERVICE, Stub

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


class Process:
    """The process and what it has written."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[dict[str, Any]] = []

    async def line(self, message: str) -> dict[str, Any]:
        assert self._process.stderr
        async with asyncio.timeout(20):
            async for raw in self._process.stderr:
                self.lines.append(json.loads(raw))
                if message in self.lines[-1]["message"]:
                    return self.lines[-1]
        raise AssertionError(f"never said {message!r}: {self.lines}")

    async def ended(self) -> int:
        assert self._process.stderr
        async with asyncio.timeout(20):
            async for raw in self._process.stderr:
                self.lines.append(json.loads(raw))
            return await self._process.wait()

    def told(self, how: signal.Signals) -> None:
        self._process.send_signal(how)

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()


@asynccontextmanager
async def process(*arguments: str, **environment: str) -> AsyncGenerator[Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.unit.service_kit.echo_process",
        *arguments,
        cwd=ROOT,
        env={**os.environ, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    running = Process(started)
    try:
        yield running
    finally:
        running.kill()
        await started.wait()


async def test_a_process_serves_until_told_to_stop_and_exits_zero(
    key_files: tuple[Path, Path], settings: Settings, signer: PassportSigner
):
    async with process(GROVE_PASSPORT_KEYS_FILE=str(key_files[1])) as running:
        serves = await running.line("echo serves")
        async with channel(f"127.0.0.1:{serves['port']}", settings) as calls:
            with use_passport(signer.sign("person:alice")):
                assert await Stub(calls).unary(b"who") == b"person:alice"
        running.told(signal.SIGTERM)
        assert await running.ended() == 0
    assert running.lines[-1]["message"] == "echo stopped"
    assert all(line["service"] == "echo" for line in running.lines)


async def test_a_second_signal_does_not_wait_for_calls(
    key_files: tuple[Path, Path], settings: Settings, signer: PassportSigner
):
    async with process(GROVE_PASSPORT_KEYS_FILE=str(key_files[1]), GROVE_STOP_GRACE_S="60") as running:
        serves = await running.line("echo serves")
        async with channel(f"127.0.0.1:{serves['port']}", settings) as calls:
            with use_passport(signer.sign("person:alice")):
                waiting = asyncio.create_task(Stub(calls).unary(b"wait", timeout=30))
                assert await Stub(calls).unary(b"hello") == b"hello"
                running.told(signal.SIGTERM)
                running.told(signal.SIGINT)
                running.told(signal.SIGTERM)
                assert await running.ended() == 0
                with pytest.raises(Exception, match="try again"):
                    await waiting


async def test_a_process_whose_work_dies_exits_nonzero_and_says_which():
    async with process("broken") as running:
        assert await running.ended() == 1
    errors = [line for line in running.lines if line["level"] == "ERROR"]
    assert len(errors) == 1
    assert "die" in errors[0]["message"]
    assert "RuntimeError: broken" in errors[0]["exception"]


async def test_a_taken_port_is_one_line_and_a_code():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for variable in ("GROVE_LISTEN", "GROVE_OPS_LISTEN"):
            async with process(**{variable: address}) as running:
                assert await running.ended() == 1
            (error,) = [line for line in running.lines if line["level"] == "ERROR"]
            assert f"cannot listen on {address}" in error["message"]
            assert "exception" not in error


class Collector(http.server.ThreadingHTTPServer):
    """An OTLP/HTTP receiver."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receive)
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Receive(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        collector = cast("Collector", self.server)
        if self.path == "/v1/traces":
            collector.traces.append(ExportTraceServiceRequest.FromString(body))
        elif self.path == "/v1/metrics":
            collector.metrics.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_what_was_measured_and_traced_is_sent_before_the_process_ends(
    key_files: tuple[Path, Path], settings: Settings, signer: PassportSigner, collector: Collector
):
    environment = {
        "GROVE_PASSPORT_KEYS_FILE": str(key_files[1]),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
    }
    async with process(**environment) as running:
        serves = await running.line("echo serves")
        async with channel(f"127.0.0.1:{serves['port']}", settings) as calls:
            with use_passport(signer.sign("person:alice")):
                await Stub(calls).unary(b"hello")
        running.told(signal.SIGTERM)
        assert await running.ended() == 0
    (resource,) = [one for request in collector.traces for one in request.resource_spans]
    assert resource.schema_url == semconv.SCHEMA_URL
    assert {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"] == "echo"
    (span,) = [span for scope in resource.scope_spans for span in scope.spans]
    assert span.name == f"{SERVICE}/Unary"
    names = {
        metric.name
        for request in collector.metrics
        for one in request.resource_metrics
        for scope in one.scope_metrics
        for metric in scope.metrics
    }
    assert semconv.RPC_SERVER_CALL_DURATION in names


async def test_without_a_collector_there_are_trace_ids_and_no_spans(
    key_files: tuple[Path, Path], settings: Settings, signer: PassportSigner
):
    async with process(GROVE_PASSPORT_KEYS_FILE=str(key_files[1])) as running:
        serves = await running.line("echo serves")
        async with channel(f"127.0.0.1:{serves['port']}", settings) as calls:
            with use_passport(signer.sign("person:alice")):
                assert int(await Stub(calls).unary(b"trace"), 16) > 0
                with pytest.raises(Exception, match="failed"):
                    await Stub(calls).unary(b"break")
        line = await running.line("failed: RuntimeError")
    assert len(line["trace_id"]) == 32
    assert int(line["trace_id"], 16) > 0
