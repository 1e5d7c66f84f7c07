"""``/v1/grovekeeper/jobs``: the background work of every memory, and what is still to be derived in one."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.jobs import JobsClient
from gateway.http import answer, query
from gateway.openapi import describe
from gateway.schemas import jobs as schema

__all__ = ["routes"]


def routes(on: FastAPI, jobs: JobsClient) -> None:
    """For administrators; of one memory for whoever may read it."""

    @on.get("/v1/grovekeeper/jobs", openapi_extra=describe(schema.Jobs, query=schema.ListJobs))
    async def list_jobs(request: Request) -> Response:
        """Derivations and consolidation runs of every memory, newest first."""
        return answer(await jobs.list(query(request, schema.ListJobs)))

    @on.post("/v1/grovekeeper/jobs/{job_id}/retry", openapi_extra=describe(schema.BackgroundJob))
    async def retry_job(job_id: str) -> Response:
        """Begin a failed derivation again."""
        return answer(await jobs.retry(job_id))

    @on.get(
        "/v1/grovekeeper/memories/{memory_id}/derivation",
        openapi_extra=describe(schema.Backlog, errors=("memory_unsupported",)),
    )
    async def get_derivation(memory_id: str) -> Response:
        """What is still to be derived in a memory, and since when it waits."""
        return answer(await jobs.backlog(memory_id))
