"""What a link shows at the door: to nobody in particular, as a page or as JSON, and never as anything that runs."""

import json
import re
from collections.abc import Callable

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from protos.runner.v1 import sessions_pb2
from service_kit.errors import GroveError
from tests.api.gateway.backends import Script
from tests.api.gateway.conftest import gateway_on
from tests.api.gateway.test_every_request import fault

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINK = "/v1/shared/hshare_secret"
HOSTILE = "</p><script>alert(1)</script><img src=x onerror=alert(1)> & \"'"
NOTHING = GroveError("grovekeeper_not_found", "There is nothing at this address.")


def view(*turns: str, title: str = "Acme", following: str = "") -> sessions_pb2.SharedView:
    made = sessions_pb2.SharedView(title=title, next_cursor=following)
    for said in turns:
        turn: dict[str, object] = {
            "status": "failed",
            "created_at": 1,
            "user": said,
            "assistant": said,
            "files": [],
        }
        made.turns.append(json.dumps(turn | {"tools": [{"name": said}]}).encode())
    return made


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/html", "text/html"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("application/json, text/html;q=0.9", "application/json"),
        ("text/html;q=0, */*", "application/json"),
        ("text/html;q=x", "application/json"),
    ],
)
async def test_a_link_opens_without_a_credential_as_what_is_accepted(
    anybody: httpx.AsyncClient, script: Script, accept: str | None, kind: str
):
    script.answers["OpenShare"] = view("Hello.")
    headers = {} if accept is None else {"Accept": accept}
    if accept is None:
        anybody.headers.pop("accept")
    answer = await anybody.get(LINK, headers=headers)
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, kind)
    assert "Hello." in answer.text
    assert script.authentications == 0
    kept = {
        name: answer.headers[name] for name in ("cache-control", "referrer-policy", "x-robots-tag", "vary")
    }
    assert kept == {
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-robots-tag": "noindex, nofollow",
        "vary": "Accept",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_nothing_on_the_page_runs_loads_or_posts_whatever_was_said(
    anybody: httpx.AsyncClient, script: Script
):
    script.answers["OpenShare"] = view(HOSTILE, title=HOSTILE, following=HOSTILE)
    answer = await anybody.get(LINK, headers={"Accept": "text/html"})
    tags = set(re.findall(r"<\s*([a-z0-9]+)", answer.text.lower()))
    assert tags == {"html", "head", "meta", "title", "style", "body", "h1", "p", "section", "h2", "a"}
    assert not re.search(r"<[^>]* on[a-z]+\s*=", answer.text.lower())
    (href,) = re.findall(r'href="([^"]*)"', answer.text)
    assert href.startswith("?cursor=%3C%2Fp%3E")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert {"script-src", "img-src", "connect-src"}.isdisjoint(policy.replace(";", "").split())
    assert {"form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'"} <= {
        one.strip() for one in policy.split(";")
    }


async def test_only_reading_a_link_needs_no_credential(anybody: httpx.AsyncClient, alice: httpx.AsyncClient):
    for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        assert (await anybody.request(method, LINK)).status_code == 401
        assert (await alice.request(method, LINK)).status_code == 405
    for path in (f"{LINK}/turns", "/v1/shared", "/v1/sharedx/y", "/v1/shared/a%2Fb/c"):
        assert fault(await anybody.get(path))["code"] == "missing_credential"


async def test_a_link_is_in_no_span(anybody: httpx.AsyncClient, script: Script, spans: InMemorySpanExporter):
    for answer in (view("Hello."), NOTHING):
        script.answers["OpenShare"] = answer
        await anybody.get(LINK)
    await anybody.post(LINK)
    told = "".join(one.to_json() for one in spans.get_finished_spans())
    assert "/v1/shared/…" in json.dumps(json.loads(f"[{told.replace('}{', '},{')}]"), ensure_ascii=False)
    assert "hshare_secret" not in told


async def test_who_tries_links_is_slowed_down(backend: str, script: Script, clean_redis: Callable[..., str]):
    script.answers["OpenShare"] = NOTHING
    async with (
        gateway_on(backend, rate_limit_refused=3) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        answers = [await client.get(f"{LINK}{n}") for n in range(5)]
        assert [one.status_code for one in answers] == [404] * 3 + [429] * 2
        assert fault(answers[0])["code"] == "grovekeeper_not_found"
    script.answers["OpenShare"] = view("Hello.")
    async with gateway_on(backend, rate_limit=3) as url, httpx.AsyncClient(base_url=url) as client:
        assert [(await client.get(LINK)).status_code for _ in range(4)] == [200] * 3 + [429]
