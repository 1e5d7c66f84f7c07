"""The `grove` command: what it prints, where, and with which exit code."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from service_kit.cli.tokens import seconds
from service_kit.embedded.errors import LaunchError
from service_kit.embedded.home import Home, product_version

GROVE = Path(sys.executable).with_name("grove")


def grove(*arguments: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GROVE_")}
    return subprocess.run(
        [str(GROVE), *arguments],
        env={**inherited, "GROVE_HOME": str(home), "GROVE_PORT": "0", "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Gateway(ThreadingHTTPServer):
    """Answers the token routes and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None, dict[str, object]]] = []
        self.pages: list[dict[str, object]] = []
        self.status: int = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Gateway)
        server.asked.append((self.path, self.headers["Authorization"], {}))
        self.send_response(server.status)
        self.end_headers()
        self.wfile.write(json.dumps(server.pages.pop(0)).encode())

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Gateway)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.asked.append((self.path, self.headers["Authorization"], json.loads(body)))
        answer = {"token": "gk_new"} if server.status == 200 else {"error": {"message": "No."}}
        self.send_response(server.status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Say nothing."""


@pytest.fixture
def gateway() -> Generator[Gateway]:
    with Gateway() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_help_names_every_command_and_exits_well(tmp_path: Path):
    done = grove("--help", home=tmp_path)
    assert done.returncode == 0
    for command in (
        "up",
        "down",
        "serve",
        "migrate",
        "token",
        "group",
        "access",
        "audit",
        "doctor",
        "version",
    ):
        assert f"\n  {command} " in done.stdout


def test_version_is_all_that_version_prints(tmp_path: Path):
    assert grove("version", home=tmp_path).stdout == f"{product_version()}\n"


def test_a_foreign_directory_is_one_line_with_a_remedy_on_stderr(tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = grove("up", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"grove: {tmp_path} is not empty and not a grovekeeper directory",
        "grove: remedy: set GROVE_HOME to an empty or new directory",
    ]


def test_a_wrong_setting_is_named_without_a_traceback(tmp_path: Path):
    done = grove("up", home=tmp_path, GROVE_PORT="many")
    assert done.returncode == 2
    assert "GROVE_PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_service_is_answered_with_the_known_ones(tmp_path: Path):
    done = grove("serve", "kitchen", home=tmp_path)
    assert done.returncode == 2
    assert "kitchen is not one of gateway, authz, memory, runner, provider" in done.stderr


def test_stopping_what_does_not_run_is_no_failure(tmp_path: Path):
    done = grove("down", home=tmp_path / "new")
    assert (done.returncode, done.stderr) == (0, "grove: nothing runs there\n")
    assert not (tmp_path / "new").exists()


def test_creating_a_token_prints_only_the_token(tmp_path: Path, gateway: Gateway):
    done = grove(
        *("token", "create", "--person", "alice", "--group", "a", "--group", "b", "--ttl", "12h"),
        home=tmp_path,
        GROVE_URL=gateway.url,
        GROVE_ADMIN_TOKEN="gk_admin",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "gk_new\n", "")
    body = {"person": "alice", "groups": ["a", "b"], "ttl_seconds": 43_200}
    assert gateway.asked == [("/v1/grovekeeper/tokens", "Bearer gk_admin", body)]


def test_an_administrators_token_is_asked_for_by_name(tmp_path: Path, gateway: Gateway):
    done = grove(
        *("token", "create", "--person", "root", "--admin"),
        home=tmp_path,
        GROVE_URL=gateway.url,
        GROVE_ADMIN_TOKEN="gk_admin",
    )
    assert done.returncode == 0
    assert gateway.asked[0][2] == {"person": "root", "scopes": ["user", "admin"]}


def test_tokens_are_listed_to_the_last_page_in_columns(tmp_path: Path, gateway: Gateway):
    new = {
        "id": "tok_2",
        "principal": "person:alice",
        "scopes": ["user", "admin"],
        "created_at": "2026-10-02T08:15:30Z",
        "created_by": "person:root",
        "last_used_at": "2026-10-03T10:00:00Z",
        "expires_at": "2026-11-02T08:15:30Z",
    }
    old = {
        "id": "tok_1",
        "principal": "credential:ci",
        "scopes": ["user"],
        "created_at": "2026-10-01T08:15:30Z",
        "bootstrap": "ci",
        "revoked_at": "2026-10-01T09:00:00Z",
    }
    gateway.pages = [{"data": [new], "next_cursor": "c&1"}, {"data": [old], "next_cursor": None}]
    done = grove(
        *("token", "list", "--all", "--principal", "person:alice"),
        home=tmp_path,
        GROVE_URL=gateway.url,
        GROVE_ADMIN_TOKEN="gk_admin",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "ID     PRINCIPAL      SCOPES      CREATED           ISSUED BY    LAST USED         ENDS",
        "tok_2  person:alice   user,admin  2026-10-02 08:15  person:root  2026-10-03 10:00  2026-11-02 08:15",
        "tok_1  credential:ci  user        2026-10-01 08:15  file (ci)    never             revoked 2026-10-01 09:00",
    ]
    asked = "/v1/grovekeeper/tokens?limit=200&principal=person%3Aalice&include_ended=true"
    assert [one[0] for one in gateway.asked] == [asked, f"{asked}&cursor=c%261"]


@pytest.mark.parametrize(("named", "body"), [("tok_1", {"id": "tok_1"}), ("gk_x", {"token": "gk_x"})])
def test_a_token_is_revoked_by_itself_or_by_its_id(
    tmp_path: Path, gateway: Gateway, named: str, body: dict[str, object]
):
    home = Home(tmp_path / "home")
    home.path.mkdir()
    home.admin_token.write_text("gk_admin\n")
    done = grove("token", "revoke", named, home=home.path, GROVE_URL=gateway.url)
    assert done.returncode == 0
    assert gateway.asked == [("/v1/grovekeeper/tokens/revoke", "Bearer gk_admin", body)]


def test_a_refusal_is_told_with_its_reason_and_a_remedy(tmp_path: Path, gateway: Gateway):
    gateway.status = 401
    done = grove(
        *("token", "create", "--person", "alice"), home=tmp_path, GROVE_URL=gateway.url, GROVE_ADMIN_TOKEN="x"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "grove: refused (401): No."
    assert "GROVE_ADMIN_TOKEN" in done.stderr


def test_a_server_that_is_not_there_is_told_with_a_remedy(tmp_path: Path):
    done = grove(
        *("token", "create", "--person", "alice"),
        home=tmp_path,
        GROVE_URL="http://127.0.0.1:9",
        GROVE_ADMIN_TOKEN="x",
    )
    assert done.returncode == 1
    assert "nothing answers at http://127.0.0.1:9" in done.stderr
    assert "remedy: start it with `grove up`" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--person", "a", "--credential", "b")])
def test_a_token_is_for_exactly_one_principal(tmp_path: Path, arguments: tuple[str, ...]):
    done = grove("token", "create", *arguments, home=tmp_path)
    assert done.returncode == 2
    assert "either --person ID or --credential ID" in done.stderr


@pytest.mark.parametrize(
    ("text", "told"), [("30d", 2_592_000), ("12h", 43_200), ("15m", 900), ("3600", 3600), ("9s", 9)]
)
def test_a_time_to_live_is_read_as_people_write_it(text: str, told: int):
    assert seconds(text) == told


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5h", "d", "12 parsecs"])
def test_a_time_to_live_that_is_none_is_refused(text: str):
    with pytest.raises(LaunchError, match="is not a time"):
        seconds(text)


def test_the_doctor_finds_what_is_wrong_and_says_what_to_do(tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = grove("doctor", home=tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    failed = [(line, below) for line, below in pairwise(lines) if line.startswith("FAIL")]
    assert len(failed) == 2
    assert "not a grovekeeper directory" in failed[0][0]
    assert "http://127.0.0.1:9" in failed[1][0]
    assert all("remedy:" in below for _, below in failed)


def test_the_doctor_finds_an_object_store_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    store = (tmp_path / "file" / "store").as_uri()
    done = grove("doctor", home=tmp_path / "home", GROVE_OBJECT_STORE_URL=store)
    assert done.returncode == 1
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert "the object store cannot be written" in failed
    assert "GROVE_OBJECT_STORE_URL" in done.stdout


def test_the_doctor_finds_a_token_that_others_can_read(tmp_path: Path):
    token = tmp_path / "home" / "admin.token"
    token.parent.mkdir()
    token.write_text("secret")
    for mode, verdict in ((0o640, "FAIL"), (0o604, "FAIL"), (0o600, "ok")):
        token.chmod(mode)
        said = grove("doctor", home=token.parent).stdout
        (line,) = [one for one in said.splitlines() if one.split()[:2] == [verdict, "secrets"]]
        assert (str(token) in line) == (verdict == "FAIL")


def test_help_is_asked_for_by_one_letter_too(tmp_path: Path):
    done = grove("group", "add", "-h", home=tmp_path)
    assert done.returncode == 0
    assert "{GROUP} {PRINCIPAL}..." in done.stdout
