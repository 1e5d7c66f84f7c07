"""The audit of authz_service."""

from typing import Final

import grpc

from gateway.clients.convert import cursor, moment, page, timestamp
from gateway.schemas import audit as schema
from gateway.schemas.base import Raw
from protos.authz.v1 import authz_pb2, authz_pb2_grpc

__all__ = ["SAFE", "AuditClient"]

SAFE: Final = ("grovekeeper.authz.v1.Audit/ListAudit",)
"""Methods that may be sent twice: reads, and writes whose repetition changes nothing."""


class AuditClient:
    """Changes of access and refused attempts."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._audit = authz_pb2_grpc.AuditStub(channel)

    async def list(self, asked: schema.ListAudit) -> schema.Audit:
        """A page of records."""
        request = authz_pb2.ListAuditRequest(
            page=page(asked.limit, asked.cursor),
            oldest_first=asked.order == "oldest",
            actor=asked.actor,
            memory_id=asked.memory,
            action=asked.action,
            outcome=asked.outcome or "",
            since=None if asked.since is None else timestamp(asked.since, "since"),
            until=None if asked.until is None else timestamp(asked.until, "until"),
        )
        answer = await self._audit.ListAudit(request)
        return schema.Audit(
            data=[_record(one) for one in answer.records], next_cursor=cursor(answer.next_cursor)
        )


def _record(message: authz_pb2.AuditRecord) -> schema.AuditRecord:
    return schema.AuditRecord(
        id=message.id,
        at=moment(message.at),
        actor=message.actor or None,
        token_id=message.token_id or None,
        action=message.action,
        outcome=message.outcome,
        code=message.code or None,
        memory_id=message.memory_id or None,
        principal=message.principal or None,
        source=message.source or None,
        trace_id=message.trace_id or None,
        detail=Raw(message.detail_json or b"{}"),
    )
