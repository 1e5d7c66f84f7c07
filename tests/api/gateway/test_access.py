"""Groups, explanations and the audit: between HTTP and the service behind."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.authz.v1 import authz_pb2
from protos.common.v1.common_pb2 import Page
from service_kit.errors import GroveError
from tests.api.gateway.backends import Script
from tests.api.gateway.test_every_request import fault

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUPS = "/v1/grovekeeper/groups"
HELD = [authz_pb2.PRIVILEGE_READ, authz_pb2.PRIVILEGE_WRITE]
AT = Timestamp(seconds=1790560000)
TEAM = authz_pb2.Group(name="group:team", description="Who works here.", members_count=2, created_at=AT)
BOB = authz_pb2.Member(group="group:team", principal="person:bob", added_at=AT, added_by="credential:admin")
TEAM_READ: dict[str, Any] = {
    "name": "group:team",
    "object": "grovekeeper.group",
    "description": "Who works here.",
    "members": {"count": 2},
    "created_at": "2026-09-28T01:46:40Z",
}
BOB_READ: dict[str, Any] = {
    "group": "group:team",
    "object": "grovekeeper.member",
    "principal": "person:bob",
    "added_at": "2026-09-28T01:46:40Z",
    "added_by": "credential:admin",
}


async def test_groups_are_made_read_listed_and_removed(alice: httpx.AsyncClient, script: Script):
    script.answers |= dict.fromkeys(("CreateGroup", "GetGroup", "DeleteGroup"), TEAM)
    script.answers["ListGroups"] = authz_pb2.GroupPage(groups=[TEAM], next_cursor="more")
    made = await alice.post(GROUPS, json={"name": "team", "description": "Who works here."})
    assert made.json() == TEAM_READ
    assert script.only("CreateGroup") == authz_pb2.CreateGroupRequest(
        name="group:team", description="Who works here."
    )
    assert (await alice.get(f"{GROUPS}/team")).json() == TEAM_READ
    assert (await alice.delete(f"{GROUPS}/group:team")).json() == TEAM_READ
    assert (script.only("GetGroup").name, script.only("DeleteGroup").name) == ("group:team", "group:team")
    listed = await alice.get(GROUPS, params={"member": "person:bob", "limit": "3", "cursor": "c"})
    assert listed.json() == {"data": [TEAM_READ], "next_cursor": "more"}
    asked = script.only("ListGroups")
    assert (asked.member, asked.page.limit, asked.page.cursor) == ("person:bob", 3, "c")


async def test_members_are_put_in_listed_and_taken_out(alice: httpx.AsyncClient, script: Script):
    script.answers |= dict.fromkeys(("AddMember", "RemoveMember"), BOB)
    script.answers["ListMembers"] = authz_pb2.MemberPage(members=[BOB])
    path = f"{GROUPS}/team/members"
    assert (await alice.put(f"{path}/person:bob")).json() == BOB_READ
    assert (await alice.delete(f"{path}/person:bob")).json() == BOB_READ
    for method in ("AddMember", "RemoveMember"):
        assert (script.only(method).group, script.only(method).principal) == ("group:team", "person:bob")
    assert (await alice.get(path, params={"limit": "1"})).json() == {"data": [BOB_READ], "next_cursor": None}
    assert script.only("ListMembers").group == "group:team"


@pytest.mark.parametrize(
    "name", ["a/b", "a/members/b", "100%", "%2F", "a:b", "a?b#c", "München", "..", "a%00", "a+b", "/", "//"]
)
async def test_a_name_survives_being_a_segment_of_a_path(alice: httpx.AsyncClient, script: Script, name: str):
    script.answers |= dict.fromkeys(("AddMember", "RemoveMember"), BOB)
    script.answers |= dict.fromkeys(("GetGroup", "DeleteGroup"), TEAM)
    script.answers["ListMembers"] = authz_pb2.MemberPage()
    group, principal = f"group:{name}", f"person:{name}"
    path = f"{GROUPS}/{quote(group, safe='')}"
    member = f"{path}/members/{quote(principal, safe='')}"
    for call in (alice.get(path), alice.delete(path), alice.get(f"{path}/members")):
        assert (await call).is_success
    for call in (alice.put(member), alice.delete(member)):
        assert (await call).is_success
    assert (script.only("GetGroup").name, script.only("DeleteGroup").name) == (group, group)
    assert script.only("ListMembers").group == group
    for method in ("AddMember", "RemoveMember"):
        assert (script.only(method).group, script.only(method).principal) == (group, principal)


async def test_an_encoded_slash_leads_nowhere_but_into_a_name(alice: httpx.AsyncClient, script: Script):
    script.answers["GetMemory"] = GroveError("memory_not_found", "There is no such memory.")
    assert fault(await alice.get("/v1/memories/hmem_1%2Fgrants"))["code"] == "memory_not_found"
    assert fault(await alice.get("/v1%2Fmemories"))["code"] == "grovekeeper_not_found"
    assert fault(await alice.get("/v1%2Fuhp"))["code"] == "grovekeeper_not_found"


async def test_why_somebody_holds_what_it_holds_is_told(alice: httpx.AsyncClient, script: Script):
    grant = authz_pb2.Grant(
        id="hgrt_1", memory_id="hmem_2", principal="group:team", privileges=HELD, inherited=True
    )
    script.answers["Explain"] = authz_pb2.ExplainResponse(
        memory_id="hmem_1",
        principal="person:bob",
        privileges=HELD,
        reasons=[
            authz_pb2.Reason(grant=grant, via_group="group:team"),
            authz_pb2.Reason(grant=grant, via_group="group:team", stopped_at="hmem_1"),
        ],
        groups=["group:team"],
        complete=True,
    )
    path = "/v1/grovekeeper/memories/hmem_1/access"
    answer = await alice.get(f"{path}?principal=person:bob%2Fx&group=a%2Cb&group=group:c")
    told = {
        "id": "hgrt_1",
        "memory_id": "hmem_2",
        "principal": "group:team",
        "privileges": ["read", "write"],
        "inherited": True,
        "creator": False,
    }
    assert answer.json() == {
        "object": "grovekeeper.access",
        "memory_id": "hmem_1",
        "principal": "person:bob",
        "privileges": ["read", "write"],
        "reasons": [
            {"grant": told, "via_group": "group:team", "stopped_at": None},
            {"grant": told, "via_group": "group:team", "stopped_at": "hmem_1"},
        ],
        "groups": ["group:team"],
        "complete": True,
    }
    asked = script.only("Explain")
    # A name may hold a comma; nothing is split.
    assert (asked.memory_id, asked.principal, list(asked.groups)) == (
        "hmem_1",
        "person:bob/x",
        ["group:a,b", "group:c"],
    )
    assert fault(await alice.get(path))["param"] == "principal"


async def test_the_audit_is_read_as_it_is_asked_for(alice: httpx.AsyncClient, script: Script):
    record = authz_pb2.AuditRecord(
        id="haud_1",
        at=AT,
        actor="person:bob",
        action="access.check",
        outcome="refused",
        code="memory_not_found",
        memory_id="hmem_1",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        detail_json=b'{"required":"read"}',
    )
    script.answers["ListAudit"] = authz_pb2.AuditPage(records=[record], next_cursor="more")
    path = "/v1/grovekeeper/audit"
    assert (await alice.get(path)).json() == {
        "data": [
            {
                "id": "haud_1",
                "object": "grovekeeper.audit_record",
                "at": "2026-09-28T01:46:40Z",
                "actor": "person:bob",
                "token_id": None,
                "action": "access.check",
                "outcome": "refused",
                "code": "memory_not_found",
                "memory_id": "hmem_1",
                "principal": None,
                "source": None,
                "trace_id": "0af7651916cd43dd8448eb211c80319c",
                "detail": {"required": "read"},
            }
        ],
        "next_cursor": "more",
    }
    assert script.only("ListAudit") == authz_pb2.ListAuditRequest(page=Page())
    script.calls.clear()
    await alice.get(
        f"{path}?order=oldest&actor=person:bob&memory=hmem_1&action=access.check&outcome=refused&limit=7"
        "&cursor=c&since=2026-09-28T02:26:40+02:00&until=2026-09-28T00:26:41Z"
    )
    asked = script.only("ListAudit")
    assert (asked.oldest_first, asked.actor, asked.memory_id, asked.action, asked.outcome) == (
        True,
        "person:bob",
        "hmem_1",
        "access.check",
        "refused",
    )
    assert (asked.page.limit, asked.page.cursor) == (7, "c")
    assert asked.since.ToDatetime(UTC) == datetime(2026, 9, 28, 0, 26, 40, tzinfo=UTC)
    assert asked.until.ToDatetime(UTC) == datetime(2026, 9, 28, 0, 26, 41, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("order=up", "order"),
        ("outcome=maybe", "outcome"),
        ("since=yesterday", "since"),
        ("limit=-1", "limit"),
    ],
)
async def test_a_question_to_the_audit_that_makes_no_sense_names_its_field(
    alice: httpx.AsyncClient, query: str, param: str
):
    error = fault(await alice.get(f"/v1/grovekeeper/audit?{query}"))
    assert (error["code"], error["param"]) == ("invalid_input", param)
