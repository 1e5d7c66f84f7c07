import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from protos.memory.v1 import memory_pb2
from service_kit.errors import TABLE, GroveError
from tests.api.gateway.backends import ALICE, BOB, Script
from tests.api.gateway.conftest import gateway_on

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRACEPARENT = re.compile("00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def fault(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, after everything that must hold for each one was checked."""
    body = answer.json()
    assert list(body) == ["error"]
    error = body["error"]
    assert list(error) == ["type", "code", "message", "param", "detail"]
    rule = TABLE[error["code"]]
    assert answer.status_code == (rule.http if rule.http >= 400 else 500)
    assert error["type"] == rule.type
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.headers["uhp-version"]
    sent = TRACEPARENT.fullmatch(answer.headers["traceparent"])
    assert sent is not None
    assert error["detail"]["trace_id"] == sent[1] != "0" * 32
    return error


async def test_discovery_needs_no_token_and_spells_every_capability(anybody: httpx.AsyncClient):
    answer = await anybody.get("/v1/uhp")
    assert answer.status_code == 200
    body = answer.json()
    assert body["object"] == "uhp.discovery"
    assert body["protocol"] == "uhp"
    assert body["default_version"] == "2026-10-04" == answer.headers["uhp-version"]
    assert body["versions"] == ["2026-10-04", "2026-09-28", "2026-09-12", "2026-08-11"]
    assert body["conformance_class"] == "core"
    assert {name for name, on in body["capabilities"].items() if on} == {
        "streaming",
        "sessions",
        "cancellation",
        "session_listing",
        "session_sharing",
        "harness_management",
        "idempotency",
        "memories",
    }
    assert {name for name, on in body["capabilities"].items() if on is False} == {
        "files_input",
        "files_output",
        "plugins",
        "environments",
    }
    assert body["implementation"]["name"] == "grovekeeper"
    assert TRACEPARENT.fullmatch(answer.headers["traceparent"])


@pytest.mark.requirement("SU-discovery-04")
async def test_discovery_asks_no_service(anybody: httpx.AsyncClient, script: Script):
    await anybody.get("/v1/uhp", headers={"Authorization": "Bearer wrong"})
    assert script.authentications == 0


@pytest.mark.requirement("SU-requests-01")
@pytest.mark.parametrize(
    "path", ["/v1/memories", "/v1/grovekeeper/whoami", "/openapi.json", "/v1/nowhere", "/", "/v1/uhp/"]
)
async def test_everything_else_needs_a_token(anybody: httpx.AsyncClient, path: str):
    answer = await anybody.get(path)
    assert fault(answer)["code"] == "missing_credential"
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.requirement("SU-requests-02")
@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Basic YTpi",
        "bearer",
        "Bearer a b",
        "Bearer caf\xe9",
        "Bearer " + "x" * 5000,
        "Bearer unknown",
        f"Bearer {ALICE}, Bearer {ALICE}",
    ],
)
async def test_a_bad_credential_has_one_answer(anybody: httpx.AsyncClient, header: str):
    answer = await anybody.get("/v1/memories", headers=[(b"Authorization", header.encode("latin-1"))])
    error = fault(answer)
    assert (error["code"], error["message"]) == ("invalid_credential", "The credential is not valid.")


async def test_two_authorization_headers_are_no_credential(anybody: httpx.AsyncClient):
    twice = [("Authorization", f"Bearer {ALICE}"), ("Authorization", f"Bearer {ALICE}")]
    assert fault(await anybody.get("/v1/grovekeeper/whoami", headers=twice))["code"] == "invalid_credential"


async def test_the_scheme_is_read_in_any_case(anybody: httpx.AsyncClient):
    answer = await anybody.get("/v1/grovekeeper/whoami", headers={"Authorization": f"bEARER {ALICE}"})
    assert answer.status_code == 200


async def test_a_revoked_token_is_refused_on_the_next_request(alice: httpx.AsyncClient, script: Script):
    assert (await alice.get("/v1/grovekeeper/whoami")).status_code == 200
    del script.tokens[ALICE]
    assert fault(await alice.get("/v1/grovekeeper/whoami"))["code"] == "invalid_credential"


async def test_who_asks_goes_along_to_the_service_and_never_leaks_into_the_next_request(
    alice: httpx.AsyncClient, script: Script
):
    script.answers["GetMemory"] = memory_pb2.Memory(id="hmem_1")
    asked = [
        alice.get(f"/v1/memories/{token}", headers={"Authorization": f"Bearer {token}"})
        for token in (ALICE, BOB) * 20
    ]
    await asyncio.gather(*asked)
    assert {(call.request.id, call.passport.principal) for call in script.calls} == {
        (ALICE, "person:alice"),
        (BOB, "person:bob"),
    }


@pytest.mark.parametrize("version", ["2026-10-04", "2026-09-28", "2026-09-12", "2026-08-11"])
async def test_a_version_we_speak_is_honoured_and_echoed(alice: httpx.AsyncClient, version: str):
    headers = {"UHP-Version": version}
    for path, status in (("/v1/uhp", 200), ("/v1/grovekeeper/whoami", 200), ("/v1/nowhere", 404)):
        answer = await alice.get(path, headers=headers)
        assert (answer.status_code, answer.headers["uhp-version"]) == (status, version)


@pytest.mark.parametrize("version", ["1999-01-01", "", "2026-10-04, 2026-10-04", "latest", "caf\xe9"])
@pytest.mark.parametrize("path", ["/v1/uhp", "/v1/memories", "/v1/nowhere"])
async def test_a_version_we_do_not_speak_is_refused_with_those_we_do(
    anybody: httpx.AsyncClient, version: str, path: str
):
    answer = await anybody.get(path, headers=[(b"UHP-Version", version.encode("latin-1"))])
    error = fault(answer)
    assert error["code"] == "unsupported_protocol_version"
    assert error["detail"]["supported"] == ["2026-10-04", "2026-09-28", "2026-09-12", "2026-08-11"]
    assert answer.headers["uhp-version"] == "2026-10-04"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/memories/",
        "/v1/memories/a/b/c",
        "/v1/session",
        "/v1/memories/x/tasks",
        "/v1/memories/x/records/y/files",
        "/docs",
        "/redoc",
        "/v1//uhp",
        "/%2e%2e/etc/passwd",
    ],
)
async def test_an_unknown_address_is_404_in_the_envelope(alice: httpx.AsyncClient, path: str):
    answer = await alice.get(path)
    assert fault(answer)["code"] == "grovekeeper_not_found"


async def test_a_method_an_address_does_not_take_is_405_and_the_others_are_named(alice: httpx.AsyncClient):
    answer = await alice.patch("/v1/memories/hmem_1")
    assert fault(answer)["code"] == "grovekeeper_method_not_allowed"
    assert answer.headers["allow"] == "DELETE, GET, PUT"
    assert fault(await alice.post("/v1/uhp"))["code"] == "grovekeeper_method_not_allowed"
    assert (await alice.options("/v1/memories")).status_code == 405


async def test_no_post_is_redirected(alice: httpx.AsyncClient):
    for path in ("/v1/memories/", "/v1/responses/", "/v1/harnesses/"):
        assert (await alice.post(path, json={})).status_code == 404


@pytest.mark.requirement("SU-errors-04")
@pytest.mark.parametrize(
    ("body", "param"),
    [(b"", None), (b"   ", None), (b"{", None), (b"[]", None), (b'{"name": 1}', "name"), (b"\xff", None)],
)
async def test_a_body_that_is_none_is_400_in_the_envelope(
    alice: httpx.AsyncClient, body: bytes, param: str | None
):
    error = fault(await alice.post("/v1/memories", content=body))
    assert (error["code"], error["param"]) == ("invalid_input", param)


async def test_a_body_that_is_too_large_is_413_and_says_how_large_it_may_be(backend: str):
    async with gateway_on(backend, body_limit_bytes=2048) as url:
        headers = {"Authorization": f"Bearer {ALICE}"}
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            declared = await client.post("/v1/memories", content=b"x" * 2049)

            async def chunks() -> AsyncGenerator[bytes]:
                for _ in range(5):
                    yield b"x" * 1000

            chunked = await client.post("/v1/memories", content=chunks())
            fits = await client.post("/v1/memories", content=b"x" * 2048)
    for answer in (declared, chunked):
        error = fault(answer)
        assert (error["code"], error["detail"]["max_bytes"]) == ("grovekeeper_too_large", 2048)
    assert fault(fits)["code"] == "invalid_input"


async def test_headers_that_are_too_large_are_413(alice: httpx.AsyncClient):
    answer = await alice.get("/v1/uhp", headers={"X-Padding": "x" * 40_000})
    assert fault(answer)["code"] == "grovekeeper_too_large"


async def test_a_head_without_end_is_cut_off(gateway: str):
    host, port = gateway.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.1\r\nX-Endless: ")
    for _ in range(200):
        writer.write(b"x" * 4096)
    with suppress(ConnectionError):
        await writer.drain()
    try:
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    assert answer == b""
    writer.close()


async def test_what_is_not_http_is_answered_in_the_envelope(gateway: str):
    host, port = gateway.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"NONSENSE\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"uhp-version: 2026-10-04" in head.lower()
    assert json.loads(body)["error"]["code"] == "invalid_input"
    writer.close()


@pytest.mark.requirement("SU-requests-08", "SU-errors-01")
@pytest.mark.parametrize("code", list(TABLE))
async def test_an_error_of_a_service_is_the_same_error_out_here(
    alice: httpx.AsyncClient, script: Script, code: str
):
    script.answers["GetMemory"] = GroveError(code, "No.", param="a.b", detail={"supported": ["x"]})
    error = fault(await alice.get("/v1/memories/hmem_1"))
    assert (error["code"], error["message"], error["param"]) == (code, "No.", "a.b")
    assert error["detail"]["supported"] == ["x"]


@pytest.mark.requirement("SU-requests-09")
async def test_a_failure_nobody_foresaw_says_nothing_of_itself(alice: httpx.AsyncClient, script: Script):
    script.answers["GetMemory"] = RuntimeError("postgres://user:secret@10.0.0.1 /etc/passwd")
    answer = await alice.get("/v1/memories/hmem_1")
    assert fault(answer)["code"] == "server_error"
    assert "secret" not in answer.text


async def test_a_failure_in_the_gateway_itself_is_500_in_the_envelope(
    alice: httpx.AsyncClient, script: Script, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("gateway.schemas.access.WhoAmI.__init__", broken)
    monkeypatch.setattr("gateway.routes.access.answer", broken)
    answer = await alice.get("/v1/grovekeeper/whoami")
    assert fault(answer)["code"] == "server_error"
    assert "secret" not in answer.text


async def test_services_that_cannot_be_reached_are_503_to_be_tried_again():
    async with gateway_on("127.0.0.1:1") as url, httpx.AsyncClient(base_url=url) as client:
        answer = await client.get("/v1/memories", headers={"Authorization": "Bearer a"})
    assert fault(answer)["code"] == "grovekeeper_unavailable"


async def test_a_trace_that_came_along_is_continued(alice: httpx.AsyncClient):
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    answer = await alice.get("/v1/nowhere", headers={"traceparent": f"00-{trace_id}-{parent}-01"})
    assert fault(answer)["detail"]["trace_id"] == trace_id
    assert parent not in answer.headers["traceparent"]


@pytest.mark.parametrize("header", ["nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\xff"])
async def test_a_trace_that_is_none_begins_a_new_one(alice: httpx.AsyncClient, header: str):
    answer = await alice.get("/v1/nowhere", headers=[(b"traceparent", header.encode("latin-1"))])
    fault(answer)


async def test_an_id_with_control_characters_is_an_unknown_one(alice: httpx.AsyncClient, script: Script):
    script.answers["GetMemory"] = GroveError("memory_not_found", "There is no such memory.")
    assert fault(await alice.get("/v1/memories/a%00b%0A"))["code"] == "memory_not_found"
    assert script.only("GetMemory").id == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


async def test_no_other_origin_is_let_in(alice: httpx.AsyncClient):
    answer = await alice.get("/v1/uhp", headers={"Origin": "https://example.org"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
