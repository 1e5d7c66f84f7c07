"""Reading the audit."""

from typing import Any

from grpc.aio import ServicerContext

from authz_service.api import convert
from authz_service.domain.list_audit import list_audit
from authz_service.domain.ports import Audit
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import AuditServicer as AuditBase
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


class AuditServicer(AuditBase):
    """For administrators."""

    def __init__(self, audit: Audit) -> None:
        self._audit: Audit = audit

    async def ListAudit(self, request: wire.ListAuditRequest, context: Context) -> wire.AuditPage:
        current_passport().require_scope("admin")
        page = convert.page(request.page)
        records, cursor = await list_audit(self._audit, convert.audit_query(request), page)
        return wire.AuditPage(records=map(convert.audit_record, records), next_cursor=cursor)
