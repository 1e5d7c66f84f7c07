"""Authentication, decisions, the tree and grants: convert, call the use case, convert."""

from typing import Any

from grpc.aio import ServicerContext

from authz_service.api import convert
from authz_service.domain.add_grant import AddGrant
from authz_service.domain.attach_harness import AttachHarness
from authz_service.domain.authenticate import Authenticate
from authz_service.domain.caller import Caller
from authz_service.domain.check import check, check_many
from authz_service.domain.create_node import CreateNode
from authz_service.domain.delete_node import delete_node
from authz_service.domain.explain import explain
from authz_service.domain.hold_node import hold_node, release_node
from authz_service.domain.list_children import list_children
from authz_service.domain.list_descendants import list_descendants, reach
from authz_service.domain.list_entry_points import list_entry_points
from authz_service.domain.list_grants import list_grants
from authz_service.domain.ports import Store
from authz_service.domain.purge import deleted_nodes, purge_nodes
from authz_service.domain.reconcile import discard_nodes, existing_nodes, list_node_ids
from authz_service.domain.revoke_grant import revoke_grant
from authz_service.domain.update_node import UpdateNode, Wanted
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import AccessServicer as AccessBase
from protos.authz.v1.authz_pb2_grpc import AuthenticationServicer as AuthenticationBase
from protos.authz.v1.authz_pb2_grpc import GrantsServicer as GrantsBase
from protos.authz.v1.authz_pb2_grpc import TreeServicer as TreeBase
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


def _caller() -> Caller:
    return Caller.of(current_passport())


class AuthenticationServicer(AuthenticationBase):
    """A bearer token for a passport; the one door without a passport."""

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate: Authenticate = authenticate

    async def Authenticate(
        self, request: wire.AuthenticateRequest, context: Context
    ) -> wire.AuthenticateResponse:
        passport = await self._authenticate(request.token, request.source)
        return wire.AuthenticateResponse(
            passport=passport.token,
            expires_at=convert.timestamp(passport.expires_at),
            principal=passport.principal,
            groups=passport.groups,
            scopes=sorted(passport.scopes),
            token_id=passport.token_id or "",
        )


class AccessServicer(AccessBase):
    """Decisions and listings."""

    def __init__(self, store: Store) -> None:
        self._store: Store = store

    async def Check(self, request: wire.CheckRequest, context: Context) -> wire.Node:
        needs = convert.required(request.required, "required")
        count = not request.omit_children_count
        return convert.node(await check(self._store, _caller(), request.memory_id, needs, count=count))

    async def CheckMany(self, request: wire.CheckManyRequest, context: Context) -> wire.CheckManyResponse:
        needs = convert.required(request.required, "required")
        held = await check_many(self._store, _caller(), request.memory_ids, needs)
        return wire.CheckManyResponse(memory_ids=held)

    async def ListChildren(self, request: wire.ListChildrenRequest, context: Context) -> wire.NodePage:
        needs, page = convert.required(request.required, "required"), convert.page(request.page)
        return convert.node_page(await list_children(self._store, _caller(), request.memory_id, needs, page))

    async def ListEntryPoints(self, request: wire.ListEntryPointsRequest, context: Context) -> wire.NodePage:
        page = convert.page(request.page)
        return convert.node_page(await list_entry_points(self._store, _caller(), page))

    async def ListDescendants(self, request: wire.ListDescendantsRequest, context: Context) -> wire.NodePage:
        needs, page = convert.required(request.required, "required"), convert.page(request.page)
        found = await list_descendants(
            self._store, _caller(), request.memory_id, needs, request.max_depth, page
        )
        return convert.node_page(found)

    async def Reach(self, request: wire.ReachRequest, context: Context) -> wire.ReachResponse:
        needs = convert.required(request.required, "required")
        found, more = await reach(
            self._store, _caller(), request.memory_id, needs, request.max_depth, request.limit
        )
        return wire.ReachResponse(memory_ids=found, more=more)

    async def Explain(self, request: wire.ExplainRequest, context: Context) -> wire.ExplainResponse:
        told = await explain(
            self._store, current_passport(), request.memory_id, request.principal, request.groups
        )
        return convert.explanation(told)


class TreeServicer(TreeBase):
    """The tree's shape."""

    def __init__(self, store: Store, create: CreateNode, update: UpdateNode) -> None:
        self._store: Store = store
        self._create: CreateNode = create
        self._update: UpdateNode = update

    async def CreateNode(self, request: wire.CreateNodeRequest, context: Context) -> wire.Node:
        made = await self._create(
            current_passport(), request.id, request.parent_id, restricted=request.restricted
        )
        return convert.node(made)

    async def UpdateNode(self, request: wire.UpdateNodeRequest, context: Context) -> wire.Node:
        wanted = Wanted(
            parent=request.parent_id if request.HasField("parent_id") else None,
            restricted=request.restricted if request.HasField("restricted") else None,
            needs=convert.required(request.required_for_other, "required_for_other"),
        )
        key = convert.idempotency(request.idempotency)
        return convert.node(await self._update(current_passport(), request.id, wanted, key))

    async def DeleteNode(self, request: wire.DeleteNodeRequest, context: Context) -> wire.DeleteNodeResponse:
        await delete_node(self._store, _caller(), request.id, convert.idempotency(request.idempotency))
        return wire.DeleteNodeResponse()

    async def ListDeletedNodes(
        self, request: wire.ListDeletedNodesRequest, context: Context
    ) -> wire.ListDeletedNodesResponse:
        current_passport().require_scope("service")
        return wire.ListDeletedNodesResponse(memory_ids=await deleted_nodes(self._store, request.limit))

    async def PurgeNodes(self, request: wire.PurgeNodesRequest, context: Context) -> wire.PurgeNodesResponse:
        current_passport().require_scope("service")
        await purge_nodes(self._store, request.memory_ids)
        return wire.PurgeNodesResponse()

    async def HoldNode(self, request: wire.HoldNodeRequest, context: Context) -> wire.HoldNodeResponse:
        current_passport().require_scope("service")
        await hold_node(self._store, request.memory_id, request.holder, request.ttl_seconds)
        return wire.HoldNodeResponse()

    async def ReleaseNode(
        self, request: wire.ReleaseNodeRequest, context: Context
    ) -> wire.ReleaseNodeResponse:
        current_passport().require_scope("service")
        await release_node(self._store, request.memory_id, request.holder)
        return wire.ReleaseNodeResponse()

    async def ExistingNodes(
        self, request: wire.ExistingNodesRequest, context: Context
    ) -> wire.ExistingNodesResponse:
        current_passport().require_scope("service")
        return wire.ExistingNodesResponse(memory_ids=await existing_nodes(self._store, request.memory_ids))

    async def ListNodeIds(
        self, request: wire.ListNodeIdsRequest, context: Context
    ) -> wire.ListNodeIdsResponse:
        current_passport().require_scope("service")
        before, page = convert.moment(request.created_before), convert.page(request.page)
        ids, cursor = await list_node_ids(self._store, before, page)
        return wire.ListNodeIdsResponse(memory_ids=ids, next_cursor=cursor)

    async def DiscardNodes(
        self, request: wire.DiscardNodesRequest, context: Context
    ) -> wire.DiscardNodesResponse:
        current_passport().require_scope("service")
        await discard_nodes(self._store, request.memory_ids)
        return wire.DiscardNodesResponse()


class GrantsServicer(GrantsBase):
    """Who holds what."""

    def __init__(self, store: Store, add: AddGrant, attach: AttachHarness) -> None:
        self._store: Store = store
        self._add: AddGrant = add
        self._attach: AttachHarness = attach

    async def ListGrants(self, request: wire.ListGrantsRequest, context: Context) -> wire.ListGrantsResponse:
        page = convert.page(request.page)
        grants, cursor = await list_grants(self._store, _caller(), request.memory_id, page)
        return wire.ListGrantsResponse(
            grants=[convert.grant(one, request.memory_id) for one in grants], next_cursor=cursor
        )

    async def AddGrant(self, request: wire.AddGrantRequest, context: Context) -> wire.Grant:
        mask = convert.mask(request.privileges, "privileges")
        key = convert.idempotency(request.idempotency)
        added = await self._add(_caller(), request.memory_id, request.principal, mask, key)
        return convert.grant(added, request.memory_id)

    async def RevokeGrant(
        self, request: wire.RevokeGrantRequest, context: Context
    ) -> wire.RevokeGrantResponse:
        key = convert.idempotency(request.idempotency)
        revoked = await revoke_grant(self._store, _caller(), request.memory_id, request.grant_id, key)
        return wire.RevokeGrantResponse(grant=convert.grant(revoked, request.memory_id))

    async def AttachHarness(
        self, request: wire.AttachHarnessRequest, context: Context
    ) -> wire.AttachHarnessResponse:
        await self._attach(_caller(), request.harness_id, convert.entries(request.entries))
        return wire.AttachHarnessResponse()
