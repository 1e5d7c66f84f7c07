"""The list of tokens, and credentials of every length that is taken."""

from typing import Any

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.authz.v1 import authz_pb2
from protos.common.v1.common_pb2 import Page
from tests.api.gateway.backends import ADMIN, Script
from tests.api.gateway.test_every_request import fault

pytestmark = pytest.mark.asyncio(loop_scope="module")

AT = Timestamp(seconds=1790560000)
PATH = "/v1/grovekeeper/tokens"


async def test_the_scopes_of_a_token_are_asked_for_by_name(alice: httpx.AsyncClient, script: Script):
    script.answers["CreateToken"] = authz_pb2.Token(id="tok_1", token="gk_secret", created_at=AT)
    await alice.post(PATH, json={"person": "tom", "scopes": ["user", "admin"]})
    assert list(script.only("CreateToken").scopes) == ["user", "admin"]


@pytest.mark.parametrize("scopes", [["service"], "admin", ["user", 1]])
async def test_a_scope_nobody_gives_is_refused(alice: httpx.AsyncClient, scopes: Any):
    answer = await alice.post(PATH, json={"person": "tom", "scopes": scopes})
    assert answer.status_code == 400
    assert str(fault(answer)["param"]).startswith("scopes")


async def test_tokens_are_listed_without_their_secret_and_what_there_is_not_is_absent(
    alice: httpx.AsyncClient, script: Script
):
    used = authz_pb2.Token(
        id="tok_2",
        token="gk_never",
        principal="person:tom",
        groups=["group:support"],
        scopes=["user", "admin"],
        created_at=AT,
        created_by="credential:admin",
        expires_at=AT,
        revoked_at=AT,
        last_used_at=AT,
    )
    kept = authz_pb2.Token(
        id="tok_1", principal="credential:admin", scopes=["user"], created_at=AT, bootstrap="admin"
    )
    script.answers["ListTokens"] = authz_pb2.TokenPage(tokens=[used, kept], next_cursor="c2")
    headers = {"Authorization": f"Bearer {ADMIN}"}
    query = "principal=person:tom&include_ended=true&limit=2&cursor=c1"
    answer = await alice.get(f"{PATH}?{query}", headers=headers)
    at = "2026-09-28T01:46:40Z"
    assert answer.json() == {
        "data": [
            {
                "id": "tok_2",
                "object": "grovekeeper.token",
                "principal": "person:tom",
                "groups": ["group:support"],
                "scopes": ["user", "admin"],
                "created_at": at,
                "created_by": "credential:admin",
                "expires_at": at,
                "revoked_at": at,
                "last_used_at": at,
            },
            {
                "id": "tok_1",
                "object": "grovekeeper.token",
                "principal": "credential:admin",
                "groups": [],
                "scopes": ["user"],
                "created_at": at,
                "bootstrap": "admin",
            },
        ],
        "next_cursor": "c2",
    }
    sent = script.only("ListTokens")
    assert (sent.principal, sent.include_ended) == ("person:tom", True)
    assert (sent.page.limit, sent.page.cursor) == (2, "c1")


async def test_a_listing_is_of_all_that_is_live_when_nothing_else_is_asked_for(
    alice: httpx.AsyncClient, script: Script
):
    script.answers["ListTokens"] = authz_pb2.TokenPage()
    assert (await alice.get(PATH)).json() == {"data": [], "next_cursor": None}
    assert script.only("ListTokens") == authz_pb2.ListTokensRequest(page=Page())
    assert fault(await alice.get(f"{PATH}?include_ended=perhaps"))["param"] == "include_ended"


@pytest.mark.parametrize(("length", "asked"), [(16_384, 1), (16_385, 0)])
async def test_a_credential_is_handed_on_up_to_the_longest_that_is_taken(
    alice: httpx.AsyncClient, script: Script, length: int, asked: int
):
    before = script.authentications
    answer = await alice.get("/v1/memories", headers={"Authorization": "Bearer " + "x" * length})
    assert fault(answer)["code"] == "invalid_credential"
    assert script.authentications - before == asked
