"""Between the wire's messages and the domain's models."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from authz_service.domain import errors
from authz_service.domain.audit import AuditQuery, AuditRecord
from authz_service.domain.explain import Explanation
from authz_service.domain.model import (
    Entry,
    Found,
    Grant,
    Group,
    Listing,
    Member,
    Page,
    Place,
    Privilege,
    Token,
    privileges,
)
from protos.authz.v1 import authz_pb2 as wire
from protos.common.v1 import common_pb2
from service_kit.idempotency import Idempotency

_TO_WIRE: Final = {
    Privilege.READ: wire.PRIVILEGE_READ,
    Privilege.WRITE: wire.PRIVILEGE_WRITE,
    Privilege.CREATE: wire.PRIVILEGE_CREATE,
    Privilege.DELETE: wire.PRIVILEGE_DELETE,
}
_BITS: Final = {number: int(privilege) for privilege, number in _TO_WIRE.items()}
_TO_WIRE_BY_MASK: Final = tuple([_TO_WIRE[one] for one in privileges(mask)] for mask in range(16))


def required(privilege: wire.Privilege.ValueType, param: str) -> int:
    """The mask of a privilege that may be left unspecified (0)."""
    if privilege == wire.PRIVILEGE_UNSPECIFIED:
        return 0
    if privilege not in _BITS:
        raise errors.invalid_input("There is no such privilege.", param)
    return _BITS[privilege]


def mask(named: Iterable[wire.Privilege.ValueType], param: str) -> int:
    """The mask of several privileges, each of which must be one."""
    united = 0
    for one in named:
        if one not in _BITS:
            raise errors.invalid_input("There is no such privilege.", param)
        united |= _BITS[one]
    return united


def idempotency(message: common_pb2.Idempotency) -> Idempotency:
    """An idempotency key."""
    return Idempotency(message.key, message.request_sha256)


def page(message: common_pb2.Page) -> Page:
    """A page request."""
    return Page(message.limit, message.cursor)


def entries(messages: Iterable[wire.Narrowing]) -> list[Entry]:
    """What a harness is attached to."""
    return [Entry(one.memory_id, one.access) for one in messages]


def node(place: Place, depth: int = 0) -> wire.Node:
    """A node as its caller sees it; what it may not see is absent."""
    return wire.Node(
        id=place.id,
        parent_id=place.parent_id,
        ancestors=place.ancestors,
        restricted=place.restricted,
        privileges=_TO_WIRE_BY_MASK[place.mask],
        children_count=place.children,
        depth=depth,
    )


def node_page(listing: Listing) -> wire.NodePage:
    """One page of nodes."""
    return wire.NodePage(nodes=[_found(one) for one in listing.nodes], next_cursor=listing.next_cursor)


def grant(one: Grant, asked: str) -> wire.Grant:
    """A grant, as it reaches the node asked about."""
    return wire.Grant(
        id=one.id,
        memory_id=one.node,
        principal=one.principal,
        privileges=_TO_WIRE_BY_MASK[one.mask],
        inherited=one.node != asked,
        creator=one.creator,
        created_at=timestamp(one.created_at),
    )


def token(one: Token, secret: str = "") -> wire.Token:
    """A token; its secret only when it was just issued."""
    return wire.Token(
        id=one.id,
        token=secret,
        principal=one.principal,
        groups=one.groups,
        scopes=one.scopes,
        created_at=timestamp(one.created_at),
        expires_at=_maybe(one.expires_at),
        revoked_at=_maybe(one.revoked_at),
        last_used_at=_maybe(one.last_used_at),
        created_by=one.created_by,
        bootstrap=one.bootstrap,
    )


def group(one: Group) -> wire.Group:
    """A group an administrator keeps."""
    return wire.Group(
        name=one.name,
        description=one.description,
        members_count=one.members_count,
        created_at=timestamp(one.created_at),
    )


def member(one: Member) -> wire.Member:
    """Who is in a group."""
    return wire.Member(
        group=one.group, principal=one.principal, added_at=timestamp(one.added_at), added_by=one.added_by
    )


def explanation(one: Explanation) -> wire.ExplainResponse:
    """Why a principal holds what it holds."""
    return wire.ExplainResponse(
        memory_id=one.node,
        principal=one.principal,
        privileges=_TO_WIRE_BY_MASK[one.mask],
        reasons=[
            wire.Reason(
                grant=grant(reason.grant, one.node), via_group=reason.via_group, stopped_at=reason.stopped_at
            )
            for reason in one.reasons
        ],
        groups=one.groups,
        complete=one.complete,
    )


def audit_query(request: wire.ListAuditRequest) -> AuditQuery:
    """Which records are asked for."""
    return AuditQuery(
        actor=request.actor,
        node=request.memory_id,
        action=request.action,
        outcome=request.outcome,
        since=moment(request.since, "since") if request.HasField("since") else None,
        until=moment(request.until, "until") if request.HasField("until") else None,
        oldest_first=request.oldest_first,
    )


def audit_record(one: AuditRecord) -> wire.AuditRecord:
    """A record of the audit."""
    return wire.AuditRecord(
        id=one.id,
        at=timestamp(one.at),
        actor=one.actor,
        token_id=one.token_id,
        action=one.action,
        outcome=one.outcome,
        code=one.code,
        memory_id=one.node,
        principal=one.principal,
        source=one.source,
        trace_id=one.trace_id,
        detail_json=one.detail.encode(),
    )


def timestamp(value: datetime) -> Timestamp:
    """An instant for the wire."""
    made = Timestamp()
    made.FromDatetime(value)
    return made


def _maybe(value: datetime | None) -> Timestamp | None:
    return None if value is None else timestamp(value)


def moment(message: Timestamp, param: str = "created_before") -> datetime:
    """An instant, aware and in UTC."""
    try:
        return message.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise errors.invalid_input("This is no moment in time.", param) from None


def _found(one: Found) -> wire.Node:
    return node(one.place, one.depth)
