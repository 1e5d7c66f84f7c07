"""``…/consolidations``: background work that rewrites what a memory holds (Memories, section 9.2)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.consolidations import ConsolidationsClient
from gateway.http import answer, idempotency, optional_body, query, revision_of
from gateway.openapi import describe
from gateway.openapi_headers import KEY
from gateway.schemas import consolidations as schema

__all__ = ["routes"]

_RUNS = "/v1/memories/{memory_id}/consolidations"
_RUN = f"{_RUNS}/{{run_id}}"
_REFUSED = ("memory_unsupported",)
_CHANGING = (*_REFUSED, "grovekeeper_conflict")


def routes(on: FastAPI, runs: ConsolidationsClient) -> None:
    """Runs: started, listed, looked into, undone."""
    starting = describe(schema.Run, body=schema.StartRun, headers=(KEY,), errors=_CHANGING)
    starting["requestBody"]["required"] = False

    @on.post(_RUNS, openapi_extra=starting)
    async def start_run(request: Request, memory_id: str) -> Response:
        """Start a consolidation run; it is queued, and works in the background."""
        asked, raw = await optional_body(request, schema.StartRun)
        return answer(await runs.start(memory_id, asked, idempotency(request, raw)))

    @on.get(_RUNS, openapi_extra=describe(schema.Runs, query=schema.ListRuns, errors=_REFUSED))
    async def list_runs(request: Request, memory_id: str) -> Response:
        """The consolidation runs of a memory, newest first."""
        return answer(await runs.list(memory_id, query(request, schema.ListRuns)))

    @on.get(_RUN, openapi_extra=describe(schema.Run, errors=_REFUSED))
    async def get_run(memory_id: str, run_id: str) -> Response:
        """One consolidation run."""
        return answer(await runs.get(memory_id, run_id))

    @on.get(
        f"{_RUN}/changes",
        openapi_extra=describe(schema.RunChanges, query=schema.ListChanges, errors=_REFUSED),
    )
    async def list_changes(request: Request, memory_id: str, run_id: str) -> Response:
        """The records a consolidation run wrote, superseded or forgot."""
        asked, shown = query(request, schema.ListChanges), revision_of(request).record
        return answer(await runs.changes(memory_id, run_id, asked, shown))

    @on.post(f"{_RUN}/revert", openapi_extra=describe(schema.Run, headers=(KEY,), errors=_CHANGING))
    async def revert_run(request: Request, memory_id: str, run_id: str) -> Response:
        """Undo a consolidation run: what it superseded or forgot is current again, what it created is forgotten."""
        return answer(await runs.revert(memory_id, run_id, idempotency(request, await request.body())))
