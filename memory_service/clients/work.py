"""What operators ask: the providers' jobs, and the audit of authz_service."""

from collections.abc import Sequence
from typing import Final

import grpc

from memory_service.clients.provider import address_of, job_of, reachable
from memory_service.domain.model import Address, Job, JobPage, Page
from protos.authz.v1 import authz_pb2
from protos.authz.v1.authz_pb2_grpc import AuditStub
from protos.common.v1 import record_pb2
from protos.common.v1.common_pb2 import Page as WirePage
from protos.provider.v1 import jobs_pb2 as wire
from protos.provider.v1.jobs_pb2_grpc import JobsStub

SAFE: Final = ("grovekeeper.provider.v1.Jobs/ListJobs", "grovekeeper.provider.v1.Jobs/GetBacklog")
"""What may be sent twice."""


class GrpcDerivations:
    """The verbs of ``domain.work.Derivations``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = JobsStub(channel)

    async def jobs(self, statuses: Sequence[str], page: Page) -> JobPage:
        request = wire.ListJobsRequest(statuses=statuses, page=WirePage(limit=page.limit, cursor=page.cursor))
        async with reachable():
            answer = await self._stub.ListJobs(request)
        return JobPage(tuple(job_of(one) for one in answer.jobs), answer.next_cursor)

    async def retry(self, job_id: str) -> Job:
        async with reachable():
            return job_of(await self._stub.RetryJob(wire.RetryJobRequest(job_id=job_id)))

    async def backlog(self, address: Address) -> record_pb2.Backlog:
        async with reachable():
            return await self._stub.GetBacklog(wire.GetBacklogRequest(address=address_of(address)))


class AuthzActs:
    """The verbs of ``domain.work.Acts``."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = AuditStub(channel)

    async def record(self, action: str, memory_id: str, **detail: str) -> None:
        request = authz_pb2.RecordActRequest(action=action, memory_id=memory_id, detail=detail)
        await self._stub.RecordAct(request)
