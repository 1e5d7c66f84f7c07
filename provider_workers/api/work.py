"""The RPCs of protos/provider/v1/jobs.proto: convert, call the operation, convert."""

from typing import Any

from grpc.aio import ServicerContext

from protos.common.v1 import record_pb2
from protos.provider.v1 import jobs_pb2 as wire
from protos.provider.v1.jobs_pb2_grpc import JobsServicer as Base
from provider_workers.api import convert
from provider_workers.domain.work import BackgroundWork
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


class JobsServicer(Base):
    """Listing and retrying are for administrators, whose passport memory_service hands on."""

    def __init__(self, work: BackgroundWork) -> None:
        self._work = work

    async def ListJobs(self, request: wire.ListJobsRequest, context: Context) -> wire.ListJobsResponse:
        current_passport().require_scope("admin")
        page = await self._work.list(request.provider, request.statuses, convert.page(request.page))
        return wire.ListJobsResponse(
            jobs=[convert.job(one) for one in page.jobs], next_cursor=page.next_cursor
        )

    async def RetryJob(self, request: wire.RetryJobRequest, context: Context) -> record_pb2.Job:
        current_passport().require_scope("admin")
        return convert.job(await self._work.retry(request.job_id))

    async def GetBacklog(self, request: wire.GetBacklogRequest, context: Context) -> record_pb2.Backlog:
        provider, memory_id = convert.address(request.address)
        return convert.backlog(await self._work.backlog(provider, memory_id))
