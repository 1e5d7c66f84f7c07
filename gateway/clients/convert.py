"""Small things that every client converts: times, pages, keys, privileges."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from gateway.errors import invalid
from gateway.http import Idempotency
from protos.authz.v1 import authz_pb2
from protos.common.v1 import common_pb2

__all__ = ["PRIVILEGES", "cursor", "idempotency", "milliseconds", "moment", "page", "privileges", "timestamp"]

PRIVILEGES: Final = {
    "read": authz_pb2.PRIVILEGE_READ,
    "write": authz_pb2.PRIVILEGE_WRITE,
    "create": authz_pb2.PRIVILEGE_CREATE,
    "delete": authz_pb2.PRIVILEGE_DELETE,
}
_NAMES: Final = {number: name for name, number in PRIVILEGES.items()}


def privileges(numbers: Iterable[authz_pb2.Privilege.ValueType]) -> list[str]:
    """Privileges by name, in the chapter's order."""
    held = set(numbers)
    return [name for number, name in _NAMES.items() if number in held]


def moment(at: Timestamp) -> datetime:
    """An instant, aware and in UTC."""
    return at.ToDatetime(UTC)


def milliseconds(at: Timestamp) -> int:
    """Unix milliseconds."""
    return at.seconds * 1000 + at.nanos // 1_000_000


def timestamp(at: datetime, param: str) -> Timestamp:
    """An instant as it travels. Raises ``invalid_input`` for one that UTC has no year for."""
    made = Timestamp()
    try:
        made.FromDatetime(at.astimezone(UTC))
    except (OverflowError, ValueError):
        raise invalid(f"{param} is outside the years 1 to 9999.", param) from None
    return made


def page(limit: int, after: str) -> common_pb2.Page:
    """Which page."""
    return common_pb2.Page(limit=limit, cursor=after)


def cursor(following: str) -> str | None:
    """``next_cursor``: null on the last page."""
    return following or None


def idempotency(given: Idempotency) -> common_pb2.Idempotency | None:
    """The caller's key, if it gave one."""
    if not given.key:
        return None
    return common_pb2.Idempotency(key=given.key, request_sha256=given.request_sha256)
