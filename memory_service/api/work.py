"""The RPCs of ``Jobs`` in protos/memory/v1/operating.proto: convert, call the use case, convert."""

from typing import Any, cast

from grpc.aio import ServicerContext

from memory_service.api import convert
from memory_service.domain.work import BackgroundWork, Backlogs
from protos.common.v1 import record_pb2
from protos.memory.v1 import operating_pb2 as wire
from protos.memory.v1.operating_pb2_grpc import JobsServicer as Base

Context = ServicerContext[Any, Any]


class JobsServicer(Base):
    """The background work of every memory, for administrators, and of one, for its readers."""

    def __init__(self, work: BackgroundWork, backlogs: Backlogs) -> None:
        self._work = work
        self._backlogs = backlogs

    async def ListJobs(self, request: wire.ListJobsRequest, context: Context) -> wire.ListJobsResponse:
        page = await self._work.list(request.statuses, convert.page(request.page))
        return wire.ListJobsResponse(
            jobs=[convert.job(one) for one in page.jobs], next_cursor=page.next_cursor
        )

    async def RetryJob(self, request: wire.RetryJobRequest, context: Context) -> record_pb2.Job:
        return convert.job(await self._work.retry(request.job_id))

    async def GetBacklog(self, request: wire.GetBacklogRequest, context: Context) -> record_pb2.Backlog:
        return cast("record_pb2.Backlog", await self._backlogs.of(request.memory_id))
