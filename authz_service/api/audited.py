"""Every refusal of this service is in the audit before it is answered: the one place that sees to it.

A servicer is wrapped as a whole, and what a request was an attempt at is said here for each kind of request,
so that no handler can forget it. A hidden memory and an unknown one take the same path here too.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from google.protobuf.message import Message
from grpc.aio import ServicerContext

from authz_service.domain.audit import NOT_AN_ID, Act, Refusal, memory_named, principal_named
from authz_service.domain.authenticate import source_named
from authz_service.domain.record_act import OF_OTHERS
from authz_service.domain.refusals import Refusals
from protos.authz.v1 import authz_pb2 as wire
from service_kit import telemetry
from service_kit.errors import GroveError
from service_kit.identity import passport_or_none
from service_kit.ids import is_id

__all__ = ["ACTS", "audited"]

_Servicer = TypeVar("_Servicer")
_Handler = Callable[[Any, ServicerContext[Any, Any]], Awaitable[Any]]
_Attempt = Callable[[Any, str], Act]

_PRIVILEGES: Final = {
    wire.PRIVILEGE_UNSPECIFIED: "any",
    wire.PRIVILEGE_READ: "read",
    wire.PRIVILEGE_WRITE: "write",
    wire.PRIVILEGE_CREATE: "create",
    wire.PRIVILEGE_DELETE: "delete",
}


def audited(servicer: _Servicer, refusals: Refusals) -> _Servicer:
    """The servicer, with each of its refusals recorded."""
    return cast("_Servicer", _Audited(servicer, refusals))


class _Audited:
    """Stands for a servicer: hands out its handlers, each watched."""

    def __init__(self, servicer: object, refusals: Refusals) -> None:
        self._servicer: object = servicer
        self._refusals: Refusals = refusals

    def __getattr__(self, name: str) -> _Handler:
        return _watched(getattr(self._servicer, name), self._refusals)


def _watched(handler: _Handler, refusals: Refusals) -> _Handler:
    @wraps(handler)
    async def watched(request: Message, context: ServicerContext[Any, Any]) -> Any:
        try:
            return await handler(request, context)
        except GroveError as error:
            # From 500 on it is not a refusal: nothing was decided.
            if error.rule.http < 500:
                await refusals.note(_refusal(request, error))
            raise

    return watched


def _refusal(request: Message, error: GroveError) -> Refusal:
    act = ACTS[type(request)](request, error.param or "")
    passport, trace_id = passport_or_none(), telemetry.trace_id()
    if passport is None:
        source = source_named(request.source) if isinstance(request, wire.AuthenticateRequest) else ""
        return Refusal(act, error.code, source=source, trace_id=trace_id)
    return Refusal(
        act,
        error.code,
        passport.principal,
        passport.token_id or "",
        passport.source or passport.session or "",
        trace_id,
    )


def _check(request: wire.CheckRequest, _: str) -> Act:
    return Act("access.check", request.memory_id, detail=_required(request.required))


def _check_many(request: wire.CheckManyRequest, _: str) -> Act:
    detail = _required(request.required) | {"memories": len(request.memory_ids)}
    return Act("access.check", detail=detail)


def _create_node(request: wire.CreateNodeRequest, _: str) -> Act:
    return Act("memory.create", request.id, detail={"parent": memory_named(request.parent_id)})


def _update_node(request: wire.UpdateNodeRequest, _: str) -> Act:
    if request.HasField("parent_id"):
        return Act("memory.move", request.id, detail={"to": memory_named(request.parent_id)})
    if request.HasField("restricted"):
        return Act("memory.restrict" if request.restricted else "memory.lift", request.id)
    return Act("access.check", request.id, detail=_required(request.required_for_other))


def _add_grant(request: wire.AddGrantRequest, _: str) -> Act:
    privileges = sorted({_PRIVILEGES.get(one, "unknown") for one in request.privileges})
    return Act("grant.add", request.memory_id, request.principal, {"privileges": privileges})


def _attach(request: wire.AttachHarnessRequest, param: str) -> Act:
    """The memory is the one of the entry at fault, where one is: ``memories.<index>.memory_id``."""
    at = param.split(".")
    index = int(at[1]) if len(at) > 1 and at[1].isdecimal() else len(request.entries)
    node = request.entries[index].memory_id if index < len(request.entries) else ""
    return Act("harness.attach", node, _harness(request.harness_id), {"memories": len(request.entries)})


def _revoke_token(request: wire.RevokeTokenRequest, _: str) -> Act:
    return Act("token.revoke", detail={"token": _id("tok", request.id)} if request.id else {})


def _member(action: str) -> _Attempt:
    """An attempt at a membership."""
    return lambda request, _: Act(
        action, principal=request.principal, detail={"group": principal_named(request.group)}
    )


def _group(action: str) -> _Attempt:
    """An attempt at a group."""
    return lambda request, _: Act(action, principal=request.name)


def _memory(action: str) -> _Attempt:
    """An attempt at a memory that needs no particulars."""
    return lambda request, _: Act(action, request.memory_id)


def _several(action: str) -> _Attempt:
    """An attempt at many memories at once."""
    return lambda request, _: Act(action, detail={"memories": len(request.memory_ids)})


def _plain(action: str) -> _Attempt:
    """An attempt at nothing in particular."""
    return lambda _request, _param: Act(action)


ACTS: Final[Mapping[type[Message], _Attempt]] = {
    wire.AuthenticateRequest: _plain("authenticate"),
    wire.CreateTokenRequest: lambda request, _: Act("token.create", principal=request.principal),
    wire.ListTokensRequest: lambda request, _: Act("token.list", principal=request.principal),
    wire.RevokeTokenRequest: _revoke_token,
    wire.MintHarnessPassportRequest: lambda request, _: Act(
        "passport.mint", principal=_harness(request.harness_id)
    ),
    wire.WhoAmIRequest: _plain("principal.show"),
    wire.CreateGroupRequest: _group("group.create"),
    wire.ListGroupsRequest: lambda request, _: Act("group.list", principal=request.member),
    wire.GetGroupRequest: _group("group.show"),
    wire.DeleteGroupRequest: _group("group.delete"),
    wire.AddMemberRequest: _member("member.add"),
    wire.RemoveMemberRequest: _member("member.remove"),
    wire.ListMembersRequest: lambda request, _: Act("member.list", principal=request.group),
    wire.CheckRequest: _check,
    wire.CheckManyRequest: _check_many,
    wire.ListChildrenRequest: _memory("access.list"),
    wire.ListEntryPointsRequest: _plain("access.list"),
    wire.ListDescendantsRequest: _memory("access.list"),
    wire.ReachRequest: _memory("access.list"),
    wire.ExplainRequest: lambda request, _: Act("access.explain", request.memory_id, request.principal),
    wire.CreateNodeRequest: _create_node,
    wire.UpdateNodeRequest: _update_node,
    wire.DeleteNodeRequest: lambda request, _: Act("memory.delete", request.id),
    wire.ListDeletedNodesRequest: _plain("memory.list_deleted"),
    wire.PurgeNodesRequest: _several("memory.purge"),
    wire.HoldNodeRequest: _memory("memory.hold"),
    wire.ReleaseNodeRequest: _memory("memory.release"),
    wire.ExistingNodesRequest: _several("memory.exists"),
    wire.ListNodeIdsRequest: _plain("memory.list"),
    wire.DiscardNodesRequest: _several("memory.discard"),
    wire.ListGrantsRequest: _memory("grant.list"),
    wire.AddGrantRequest: _add_grant,
    wire.RevokeGrantRequest: lambda request, _: Act(
        "grant.revoke", request.memory_id, detail={"grant": _id("hgrt", request.grant_id)}
    ),
    wire.AttachHarnessRequest: _attach,
    wire.RecordActRequest: lambda request, _: Act(
        request.action if request.action in OF_OTHERS else NOT_AN_ID, request.memory_id
    ),
    wire.ListAuditRequest: _plain("audit.list"),
}
"""What each request is an attempt at; the string is the field it was refused for, where one was named."""


def _required(privilege: wire.Privilege.ValueType) -> dict[str, object]:
    return {"required": _PRIVILEGES.get(privilege, "unknown")}


def _harness(harness: str) -> str:
    return f"harness:{_id('chrn', harness)}"


def _id(prefix: str, text: str) -> str:
    return text if is_id(prefix, text) else NOT_AN_ID
