"""The tree and its decisions, asked of authz_service over gRPC."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from memory_service.domain.model import Node, NodePage, Page, Privilege, Shape
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import AccessStub, TreeStub
from protos.common.v1.common_pb2 import Idempotency as WireIdempotency
from protos.common.v1.common_pb2 import Page as WirePage
from service_kit.idempotency import Idempotency

SAFE: Final = tuple(
    f"grovekeeper.authz.v1.{method}"
    for method in (
        "Authentication/Authenticate",
        "Access/Check",
        "Access/CheckMany",
        "Access/ListChildren",
        "Access/ListEntryPoints",
        "Access/ListDescendants",
        "Access/Reach",
        "Tree/CreateNode",
        "Tree/ExistingNodes",
        "Tree/ListNodeIds",
        "Tree/DiscardNodes",
        "Tree/ListDeletedNodes",
        "Tree/PurgeNodes",
    )
)
"""What may be sent twice: reads, and what answers the same again."""

_TO_WIRE = {
    None: wire.PRIVILEGE_UNSPECIFIED,
    Privilege.READ: wire.PRIVILEGE_READ,
    Privilege.WRITE: wire.PRIVILEGE_WRITE,
    Privilege.CREATE: wire.PRIVILEGE_CREATE,
    Privilege.DELETE: wire.PRIVILEGE_DELETE,
}
_FROM_WIRE = {number: privilege for privilege, number in _TO_WIRE.items() if privilege is not None}


class AuthzTree:
    """The verbs of ``domain.ports.AccessTree``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._access = AccessStub(channel)
        self._tree = TreeStub(channel)

    async def check(self, memory_id: str, required: Privilege | None, *, count: bool = False) -> Node:
        request = wire.CheckRequest(
            memory_id=memory_id, required=_TO_WIRE[required], omit_children_count=not count
        )
        return _node(await self._access.Check(request))

    async def check_many(self, memory_ids: Sequence[str], required: Privilege) -> frozenset[str]:
        request = wire.CheckManyRequest(memory_ids=memory_ids, required=_TO_WIRE[required])
        return frozenset((await self._access.CheckMany(request)).memory_ids)

    async def children(self, memory_id: str, page: Page, required: Privilege | None) -> NodePage:
        request = wire.ListChildrenRequest(memory_id=memory_id, page=_page(page), required=_TO_WIRE[required])
        return _node_page(await self._access.ListChildren(request))

    async def entry_points(self, page: Page) -> NodePage:
        request = wire.ListEntryPointsRequest(page=_page(page))
        return _node_page(await self._access.ListEntryPoints(request))

    async def descendants(self, memory_id: str, page: Page) -> NodePage:
        request = wire.ListDescendantsRequest(memory_id=memory_id, page=_page(page))
        return _node_page(await self._access.ListDescendants(request))

    async def reach(
        self, memory_id: str, required: Privilege, max_depth: int, most: int
    ) -> tuple[list[str], bool]:
        request = wire.ReachRequest(
            memory_id=memory_id, required=_TO_WIRE[required], max_depth=max_depth, limit=most
        )
        answer = await self._access.Reach(request)
        return list(answer.memory_ids), answer.more

    async def create(self, memory_id: str, parent_id: str, *, restricted: bool) -> Node:
        request = wire.CreateNodeRequest(id=memory_id, parent_id=parent_id, restricted=restricted)
        return _node(await self._tree.CreateNode(request))

    async def update(
        self, memory_id: str, shape: Shape, other: Privilege | None, idempotency: Idempotency
    ) -> Node:
        request = wire.UpdateNodeRequest(
            id=memory_id,
            parent_id=shape.parent_id,
            restricted=shape.restricted,
            required_for_other=_TO_WIRE[other],
            idempotency=_key(idempotency),
        )
        return _node(await self._tree.UpdateNode(request))

    async def delete(self, memory_id: str, idempotency: Idempotency) -> None:
        request = wire.DeleteNodeRequest(id=memory_id, idempotency=_key(idempotency))
        await self._tree.DeleteNode(request)

    async def deleted(self, limit: int) -> tuple[str, ...]:
        answer = await self._tree.ListDeletedNodes(wire.ListDeletedNodesRequest(limit=limit))
        return tuple(answer.memory_ids)

    async def purge(self, memory_ids: Sequence[str]) -> None:
        await self._tree.PurgeNodes(wire.PurgeNodesRequest(memory_ids=memory_ids))

    async def existing(self, memory_ids: Sequence[str]) -> frozenset[str]:
        request = wire.ExistingNodesRequest(memory_ids=memory_ids)
        return frozenset((await self._tree.ExistingNodes(request)).memory_ids)

    async def older_than(self, moment: datetime, page: Page) -> tuple[tuple[str, ...], str]:
        before = Timestamp()
        before.FromDatetime(moment)
        request = wire.ListNodeIdsRequest(created_before=before, page=_page(page))
        answer = await self._tree.ListNodeIds(request)
        return tuple(answer.memory_ids), answer.next_cursor

    async def discard(self, memory_ids: Sequence[str]) -> None:
        await self._tree.DiscardNodes(wire.DiscardNodesRequest(memory_ids=memory_ids))


def _key(idempotency: Idempotency) -> WireIdempotency:
    return WireIdempotency(key=idempotency.key, request_sha256=idempotency.request_sha256)


def _page(page: Page) -> WirePage:
    return WirePage(limit=page.limit, cursor=page.cursor)


def _node(node: wire.Node) -> Node:
    return Node(
        node.id,
        node.parent_id,
        tuple(node.ancestors),
        node.restricted,
        tuple(_FROM_WIRE[one] for one in node.privileges),
        node.children_count,
    )


def _node_page(page: wire.NodePage) -> NodePage:
    return NodePage(tuple(_node(one) for one in page.nodes), page.next_cursor)
