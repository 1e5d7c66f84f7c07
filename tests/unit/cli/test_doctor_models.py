"""What `grove doctor` says of the models a deployment uses."""

import json
import socket
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from service_kit.cli import models
from service_kit.embedded.settings import UpSettings
from service_kit.embedded.state import Member, State

LISTED = json.dumps({"object": "list", "data": [{"id": "deriver"}, {"id": "encoder"}]})


class Service(ThreadingHTTPServer):
    """Answers every GET the same, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.status: int = 200
        self.body: str = LISTED

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Service)
        server.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(server.status)
        self.end_headers()
        self.wfile.write(server.body.encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the library's name


@pytest.fixture
def service() -> Generator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def settings(service: Service, model: str = "deriver") -> UpSettings:
    url = f"http://{service.address}/v1/"
    return UpSettings(
        derivation_base_url=url,
        derivation_api_key=SecretStr("the-key"),
        derivation_model=model,
        embedding_base_url=url,
        embedding_model="encoder",
    )


def test_the_endpoints_of_both_models_are_asked_each_with_its_key(service: Service):
    for found, told in (
        (models.deriving(settings(service)), "deriver at "),
        (models.embedding(settings(service)), "encoder at "),
    ):
        assert (found.verdict, found.remedy) == ("ok", None)
        assert told in found.told
        assert "has it" in found.told
    assert service.asked == [("/v1/models", "Bearer the-key"), ("/v1/models", None)]


@pytest.mark.parametrize(
    ("status", "body", "verdict", "remedy"),
    [
        (401, "", "FAIL", "check GROVE_DERIVATION_API_KEY"),
        (403, "", "FAIL", "check GROVE_DERIVATION_API_KEY"),
        (503, "", "FAIL", "ask whoever runs the service"),
        (404, "", "ok", None),
        (200, "no json", "ok", None),
        (200, "[" * 100_000, "ok", None),
        (200, '{"data": []}', "note", "check GROVE_DERIVATION_MODEL if calls are refused"),
    ],
)
def test_what_an_endpoint_answers_is_told_with_what_to_do(
    service: Service, status: int, body: str, verdict: str, remedy: str | None
):
    service.status, service.body = status, body
    found = models.deriving(settings(service))
    assert (found.verdict, found.remedy) == (verdict, remedy)
    assert "the-key" not in found.told


def test_an_endpoint_that_is_away_is_found(service: Service):
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    found = models.deriving(settings(service).model_copy(update={"derivation_base_url": away}))
    assert found.verdict == "FAIL"
    assert found.remedy is not None
    assert "GROVE_DERIVATION_BASE_URL" in found.remedy


@pytest.mark.parametrize("key", ["\u201cthe-key\u201d", "the-key\n"])
def test_a_key_that_no_header_holds_is_found(service: Service, key: str):
    found = models.deriving(settings(service).model_copy(update={"derivation_api_key": SecretStr(key)}))
    assert (found.verdict, found.remedy) == ("FAIL", "check GROVE_DERIVATION_API_KEY")
    assert "the-key" not in found.told
    assert service.asked == []


def test_no_model_to_derive_with_is_nothing_wrong():
    assert models.deriving(UpSettings()).verdict == "note"


@pytest.mark.parametrize(
    ("waiting", "verdict", "told"),
    [
        ("312.0", "note", "312 versions wait for a vector of openai:next:61:v1; words find them"),
        ("0.0", "ok", "none is waited for; they are made with openai:next:61:v1"),
    ],
)
def test_how_many_vectors_of_which_model_are_waited_for_is_told(
    service: Service, waiting: str, verdict: str, told: str
):
    service.body = (
        "# TYPE grove_embeddings_pending gauge\n"
        f'grove_embeddings_pending{{grove_embedding_generation="openai:next:61:v1",otel_scope_name="x"}} {waiting}\n'
    )
    running = State(1, "http://127.0.0.1:1", members={"provider": Member(1, "", ops=service.address)})
    (found,) = models.vectors(running)
    assert (found.verdict, found.told) == (verdict, told)
    assert models.vectors(None) == []


@pytest.mark.parametrize("value", ["NaN", "+Inf", "no number"])
def test_what_are_no_metrics_says_nothing_of_vectors(service: Service, value: str):
    service.body = f'grove_embeddings_pending{{grove_embedding_generation="x"}} {value}\n'
    running = State(1, "http://127.0.0.1:1", members={"provider": Member(1, "", ops=service.address)})
    assert models.vectors(running) == []
