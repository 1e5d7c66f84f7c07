"""Reading the audit, and adding what other services do."""

from typing import Any

from grpc.aio import ServicerContext

from authz_service.api import convert
from authz_service.domain.list_audit import list_audit
from authz_service.domain.ports import Audit, Store
from authz_service.domain.record_act import record_act
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import AuditServicer as AuditBase
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


class AuditServicer(AuditBase):
    """Reading is for administrators."""

    def __init__(self, audit: Audit, store: Store) -> None:
        self._audit: Audit = audit
        self._store: Store = store

    async def RecordAct(self, request: wire.RecordActRequest, context: Context) -> wire.RecordActResponse:
        passport = current_passport()
        await record_act(self._store, passport, request.action, request.memory_id, request.detail)
        return wire.RecordActResponse()

    async def ListAudit(self, request: wire.ListAuditRequest, context: Context) -> wire.AuditPage:
        current_passport().require_scope("admin")
        page = convert.page(request.page)
        records, cursor = await list_audit(self._audit, convert.audit_query(request), page)
        return wire.AuditPage(records=map(convert.audit_record, records), next_cursor=cursor)
