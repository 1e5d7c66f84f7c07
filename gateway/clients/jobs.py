"""The background work of every memory, of memory_service."""

from typing import Final

import grpc

from gateway.clients.convert import cursor, moment, page
from gateway.schemas import jobs as schema
from protos.common.v1 import record_pb2
from protos.memory.v1 import operating_pb2, operating_pb2_grpc

__all__ = ["SAFE", "JobsClient"]

SAFE: Final = ("grovekeeper.memory.v1.Jobs/ListJobs", "grovekeeper.memory.v1.Jobs/GetBacklog")
"""Methods that may be sent twice."""


class JobsClient:
    """Derivations, of every memory for administrators and of one for its readers."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._jobs = operating_pb2_grpc.JobsStub(channel)

    async def list(self, asked: schema.ListJobs) -> schema.Jobs:
        """A page of jobs, newest first."""
        request = operating_pb2.ListJobsRequest(statuses=asked.status, page=page(asked.limit, asked.cursor))
        answer = await self._jobs.ListJobs(request)
        return schema.Jobs(data=[_job(one) for one in answer.jobs], next_cursor=cursor(answer.next_cursor))

    async def retry(self, job_id: str) -> schema.BackgroundJob:
        """A failed job, begun again."""
        return _job(await self._jobs.RetryJob(operating_pb2.RetryJobRequest(job_id=job_id)))

    async def backlog(self, memory_id: str) -> schema.Backlog:
        """What is still to be derived in one memory."""
        found = await self._jobs.GetBacklog(operating_pb2.GetBacklogRequest(memory_id=memory_id))
        return schema.Backlog(
            memory_id=memory_id,
            pending_jobs=found.pending,
            pending_since=moment(found.pending_since) if found.HasField("pending_since") else None,
            reason=found.reason or None,
            quarantined_episodes=found.quarantined,
            tokens_today=found.tokens_today,
        )


def _job(message: record_pb2.Job) -> schema.BackgroundJob:
    return schema.BackgroundJob(
        id=message.id,
        kind=message.kind,
        memory_id=message.memory_id,
        status=message.status,
        created_at=moment(message.created_at),
        pending_since=moment(message.pending_since) if message.HasField("pending_since") else None,
        finished_at=moment(message.finished_at) if message.HasField("finished_at") else None,
        runs=message.runs,
        quarantined_episodes=message.quarantined,
        reason=message.error or None,
    )
