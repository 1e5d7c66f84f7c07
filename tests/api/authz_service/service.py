"""The service as its peers meet it: a real server on loopback, real tokens, real passports."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import LiteralString, TypeVar

import grpc
import pytest
from grpc_health.v1 import health_pb2
from pydantic import SecretStr

from authz_service.main import build
from authz_service.settings import Settings
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1 import authz_pb2_grpc as rpc
from protos.common.v1.common_pb2 import Idempotency, Page
from service_kit.errors import GroveError
from service_kit.identity import Passport, PassportVerifier, use_passport
from service_kit.ids import new_id
from service_kit.rpc.client import channel
from service_kit.rpc.server import serve

READ, WRITE, CREATE, DELETE = (
    wire.PRIVILEGE_READ,
    wire.PRIVILEGE_WRITE,
    wire.PRIVILEGE_CREATE,
    wire.PRIVILEGE_DELETE,
)
ALL = [READ, WRITE, CREATE, DELETE]
ANY = wire.PRIVILEGE_UNSPECIFIED

ADMIN_TOKEN = "gk_admin-token-of-the-tests"
SERVICE_TOKEN = "gk_memory-token-of-the-tests"

Sql = Callable[[LiteralString], None]

_Answer = TypeVar("_Answer")


async def refusal(call: Awaitable[object]) -> GroveError:
    """What a call is refused with."""
    with pytest.raises(GroveError) as raised:
        await call
    return raised.value


class Bearer:
    """One caller: every call goes out under its passport."""

    def __init__(self, channel: grpc.aio.Channel, passport: Passport) -> None:
        self.passport = passport
        self._tokens = rpc.TokensStub(channel)
        self._access = rpc.AccessStub(channel)
        self._tree = rpc.TreeStub(channel)
        self._grants = rpc.GrantsStub(channel)
        self._principals = rpc.PrincipalsStub(channel)
        self._audit = rpc.AuditStub(channel)

    async def _as(self, call: Awaitable[_Answer]) -> _Answer:
        with use_passport(self.passport):
            return await call

    async def create_token(
        self,
        principal: str,
        groups: list[str] | None = None,
        ttl: int = 0,
        scopes: list[str] | None = None,
    ) -> wire.Token:
        request = wire.CreateTokenRequest(
            principal=principal, groups=groups or [], ttl_seconds=ttl, scopes=scopes or []
        )
        return await self._as(self._tokens.CreateToken(request))

    async def tokens(
        self, principal: str = "", *, ended: bool = False, limit: int = 0, cursor: str = ""
    ) -> wire.TokenPage:
        request = wire.ListTokensRequest(
            principal=principal, include_ended=ended, page=Page(limit=limit, cursor=cursor)
        )
        return await self._as(self._tokens.ListTokens(request))

    async def revoke_token(self, *, token_id: str = "", token: str = "") -> str:
        request = wire.RevokeTokenRequest(token=token) if token else wire.RevokeTokenRequest(id=token_id)
        return (await self._as(self._tokens.RevokeToken(request))).id

    async def mint(
        self, harness: str, narrowing: list[tuple[str, str]] | None = None, session: str = "hsess_1"
    ) -> wire.MintHarnessPassportResponse:
        request = wire.MintHarnessPassportRequest(
            harness_id=harness, session_id=session, narrowing=_entries(narrowing or [])
        )
        return await self._as(self._tokens.MintHarnessPassport(request))

    async def explain(
        self, node: str, principal: str, groups: list[str] | None = None
    ) -> wire.ExplainResponse:
        request = wire.ExplainRequest(memory_id=node, principal=principal, groups=groups or [])
        return await self._as(self._access.Explain(request))

    async def create_group(self, name: str, description: str = "") -> wire.Group:
        request = wire.CreateGroupRequest(name=name, description=description)
        return await self._as(self._principals.CreateGroup(request))

    async def who_am_i(self) -> wire.WhoAmIResponse:
        return await self._as(self._principals.WhoAmI(wire.WhoAmIRequest()))

    async def groups(self, member: str = "", *, limit: int = 0, cursor: str = "") -> wire.GroupPage:
        request = wire.ListGroupsRequest(member=member, page=Page(limit=limit, cursor=cursor))
        return await self._as(self._principals.ListGroups(request))

    async def group(self, name: str) -> wire.Group:
        return await self._as(self._principals.GetGroup(wire.GetGroupRequest(name=name)))

    async def members(self, group: str, *, limit: int = 0, cursor: str = "") -> wire.MemberPage:
        request = wire.ListMembersRequest(group=group, page=Page(limit=limit, cursor=cursor))
        return await self._as(self._principals.ListMembers(request))

    async def audit(self, request: wire.ListAuditRequest | None = None) -> wire.AuditPage:
        return await self._as(self._audit.ListAudit(request or wire.ListAuditRequest()))

    async def delete_group(self, name: str) -> wire.Group:
        return await self._as(self._principals.DeleteGroup(wire.DeleteGroupRequest(name=name)))

    async def add_member(self, group: str, principal: str) -> wire.Member:
        request = wire.AddMemberRequest(group=group, principal=principal)
        return await self._as(self._principals.AddMember(request))

    async def remove_member(self, group: str, principal: str) -> wire.Member:
        request = wire.RemoveMemberRequest(group=group, principal=principal)
        return await self._as(self._principals.RemoveMember(request))

    async def check(self, node: str, required: wire.Privilege.ValueType = ANY) -> wire.Node:
        return await self.ask_check(wire.CheckRequest(memory_id=node, required=required))

    async def ask_check(self, request: wire.CheckRequest) -> wire.Node:
        return await self._as(self._access.Check(request))

    async def check_many(self, nodes: list[str], required: wire.Privilege.ValueType = ANY) -> list[str]:
        request = wire.CheckManyRequest(memory_ids=nodes, required=required)
        return list((await self._as(self._access.CheckMany(request))).memory_ids)

    async def children(
        self,
        node: str,
        required: wire.Privilege.ValueType = ANY,
        limit: int = 0,
        cursor: str = "",
    ) -> wire.NodePage:
        request = wire.ListChildrenRequest(
            memory_id=node, required=required, page=Page(limit=limit, cursor=cursor)
        )
        return await self._as(self._access.ListChildren(request))

    async def entry_points(self, limit: int = 0, cursor: str = "") -> wire.NodePage:
        request = wire.ListEntryPointsRequest(page=Page(limit=limit, cursor=cursor))
        return await self._as(self._access.ListEntryPoints(request))

    async def descendants(
        self,
        node: str,
        required: wire.Privilege.ValueType = ANY,
        max_depth: int = 0,
        limit: int = 0,
        cursor: str = "",
    ) -> wire.NodePage:
        request = wire.ListDescendantsRequest(
            memory_id=node,
            required=required,
            max_depth=max_depth,
            page=Page(limit=limit, cursor=cursor),
        )
        return await self._as(self._access.ListDescendants(request))

    async def reach(
        self, node: str, required: wire.Privilege.ValueType = ANY, max_depth: int = 0, limit: int = 0
    ) -> wire.ReachResponse:
        request = wire.ReachRequest(memory_id=node, required=required, max_depth=max_depth, limit=limit)
        return await self._as(self._access.Reach(request))

    async def create(self, parent: str = "", *, restricted: bool = False, node: str = "") -> wire.Node:
        request = wire.CreateNodeRequest(id=node or new_id("hmem"), parent_id=parent, restricted=restricted)
        return await self._as(self._tree.CreateNode(request))

    async def update(
        self,
        node: str,
        *,
        parent: str | None = None,
        restricted: bool | None = None,
        needs: wire.Privilege.ValueType = ANY,
        key: Idempotency | None = None,
    ) -> wire.Node:
        request = wire.UpdateNodeRequest(
            id=node, parent_id=parent, restricted=restricted, required_for_other=needs, idempotency=key
        )
        return await self._as(self._tree.UpdateNode(request))

    async def delete(self, node: str, key: Idempotency | None = None) -> None:
        await self._as(self._tree.DeleteNode(wire.DeleteNodeRequest(id=node, idempotency=key)))

    async def deleted(self, limit: int = 0) -> list[str]:
        request = wire.ListDeletedNodesRequest(limit=limit)
        return list((await self._as(self._tree.ListDeletedNodes(request))).memory_ids)

    async def purge(self, nodes: list[str]) -> None:
        await self._as(self._tree.PurgeNodes(wire.PurgeNodesRequest(memory_ids=nodes)))

    async def hold(self, node: str, holder: str = "hcon_1", ttl: int = 60) -> None:
        request = wire.HoldNodeRequest(memory_id=node, holder=holder, ttl_seconds=ttl)
        await self._as(self._tree.HoldNode(request))

    async def release(self, node: str, holder: str = "hcon_1") -> None:
        await self._as(self._tree.ReleaseNode(wire.ReleaseNodeRequest(memory_id=node, holder=holder)))

    async def existing(self, nodes: list[str]) -> list[str]:
        request = wire.ExistingNodesRequest(memory_ids=nodes)
        return list((await self._as(self._tree.ExistingNodes(request))).memory_ids)

    async def node_ids(self, request: wire.ListNodeIdsRequest) -> wire.ListNodeIdsResponse:
        return await self._as(self._tree.ListNodeIds(request))

    async def discard(self, nodes: list[str]) -> None:
        await self._as(self._tree.DiscardNodes(wire.DiscardNodesRequest(memory_ids=nodes)))

    async def grants(self, node: str) -> list[wire.Grant]:
        request = wire.ListGrantsRequest(memory_id=node)
        return list((await self._as(self._grants.ListGrants(request))).grants)

    async def grants_page(self, node: str, limit: int = 0, cursor: str = "") -> wire.ListGrantsResponse:
        request = wire.ListGrantsRequest(memory_id=node, page=Page(limit=limit, cursor=cursor))
        return await self._as(self._grants.ListGrants(request))

    async def grant(
        self,
        node: str,
        principal: str,
        *privileges: wire.Privilege.ValueType,
        key: Idempotency | None = None,
    ) -> wire.Grant:
        request = wire.AddGrantRequest(
            memory_id=node, principal=principal, privileges=privileges, idempotency=key
        )
        return await self._as(self._grants.AddGrant(request))

    async def revoke(self, node: str, grant: str, key: Idempotency | None = None) -> wire.Grant:
        request = wire.RevokeGrantRequest(memory_id=node, grant_id=grant, idempotency=key)
        return (await self._as(self._grants.RevokeGrant(request))).grant

    async def act(self, action: str, node: str = "", **detail: str) -> None:
        request = wire.RecordActRequest(action=action, memory_id=node, detail=detail)
        await self._as(self._audit.RecordAct(request))

    async def attach(self, harness: str, *entries: tuple[str, str]) -> None:
        request = wire.AttachHarnessRequest(harness_id=harness, entries=_entries(list(entries)))
        await self._as(self._grants.AttachHarness(request))


def _entries(pairs: list[tuple[str, str]]) -> list[wire.Narrowing]:
    return [wire.Narrowing(memory_id=memory, access=access) for memory, access in pairs]


@dataclass
class Authz:
    """A running service; ``address`` is for raw channels."""

    address: str
    channel: grpc.aio.Channel
    verifier: PassportVerifier

    async def authenticate(self, token: str, source: str = "") -> wire.AuthenticateResponse:
        request = wire.AuthenticateRequest(token=token, source=source)
        return await rpc.AuthenticationStub(self.channel).Authenticate(request)

    async def bearer(self, token: str) -> Bearer:
        return Bearer(self.channel, self.verifier.verify((await self.authenticate(token)).passport))

    async def admin(self) -> Bearer:
        return await self.bearer(ADMIN_TOKEN)

    async def service(self) -> Bearer:
        return await self.bearer(SERVICE_TOKEN)

    async def person(self, name: str, *groups: str) -> Bearer:
        admin = await self.admin()
        token = await admin.create_token(f"person:{name}", [f"group:{group}" for group in groups])
        return await self.bearer(token.token)

    async def harness(self, harness: str, *narrowing: tuple[str, str]) -> Bearer:
        minted = await (await self.service()).mint(harness, list(narrowing))
        return Bearer(self.channel, self.verifier.verify(minted.passport))


def bootstrap(directory: Path, admin: str = ADMIN_TOKEN, service: str = SERVICE_TOKEN) -> Path:
    """A bootstrap file."""
    file = directory / "bootstrap.json"
    file.write_text(json.dumps({"admin_token": admin, "service_tokens": {"memory": service}}))
    return file


async def raw_refusal(authz: Authz, token: str) -> tuple[grpc.StatusCode, str | None, object]:
    """All of an answer to Authenticate that a caller could tell apart."""
    request = wire.AuthenticateRequest(token=token)
    async with grpc.aio.insecure_channel(authz.address) as raw:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rpc.AuthenticationStub(raw).Authenticate(request, timeout=20)
        return raised.value.code(), raised.value.details(), tuple(raised.value.trailing_metadata())


@asynccontextmanager
async def serving(
    dsn: str, keys: tuple[Path, Path], bootstrap_file: Path | None, **more: object
) -> AsyncGenerator[Authz]:
    """The service, ready, until the block ends."""
    settings = Settings.model_validate(
        {
            "database_url": SecretStr(dsn),
            "listen": "127.0.0.1:0",
            "passport_signing_key_file": keys[0],
            "passport_keys_file": keys[1],
            "authz_bootstrap_file": bootstrap_file,
            "stop_grace_s": 1.0,
            **more,
        }
    )
    stop, started = asyncio.Event(), asyncio.Queue[int]()
    running = asyncio.create_task(
        serve("authz", settings, build, stop=stop, started=lambda port, _: started.put_nowait(port))
    )
    try:
        address = f"127.0.0.1:{await started.get()}"
        await ready(address)
        async with channel(address, settings) as calls:
            yield Authz(address, calls, PassportVerifier(keys[1]))
    finally:
        stop.set()
        assert await running == 0


async def ready(address: str) -> None:
    """Wait until the service at an address says that it serves."""
    async with grpc.aio.insecure_channel(address) as raw, asyncio.timeout(20):
        watch = raw.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        asked = health_pb2.HealthCheckRequest(service="grovekeeper.authz.v1.Access")
        async for state in watch(asked, wait_for_ready=True):
            if state.status == health_pb2.HealthCheckResponse.SERVING:
                return


def at(answer: wire.AuthenticateResponse) -> float:
    """When a passport ends, in seconds since the epoch."""
    return answer.expires_at.ToDatetime(UTC).timestamp()
