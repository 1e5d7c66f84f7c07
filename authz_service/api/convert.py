"""Between the wire's messages and the domain's models."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from authz_service.domain import errors
from authz_service.domain.model import (
    Entry,
    Found,
    Grant,
    Listing,
    Page,
    Place,
    Privilege,
    Token,
    privileges,
)
from protos.authz.v1 import authz_pb2 as wire
from protos.common.v1 import common_pb2

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


def timestamp(value: datetime) -> Timestamp:
    """An instant for the wire."""
    made = Timestamp()
    made.FromDatetime(value)
    return made


def _maybe(value: datetime | None) -> Timestamp | None:
    return None if value is None else timestamp(value)


def moment(message: Timestamp) -> datetime:
    """An instant, aware and in UTC."""
    try:
        return message.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise errors.invalid_input("This is no moment in time.", "created_before") from None


def _found(one: Found) -> wire.Node:
    return node(one.place, one.depth)
