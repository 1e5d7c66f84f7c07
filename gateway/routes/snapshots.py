"""``…/snapshots``: names for instants of a memory (Memories, section 5.3)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.snapshots import SnapshotsClient
from gateway.http import answer, body, idempotency, query
from gateway.openapi import describe
from gateway.openapi_headers import KEY
from gateway.schemas import snapshots as schema

__all__ = ["routes"]

_SNAPSHOTS = "/v1/memories/{memory_id}/snapshots"
_SNAPSHOT = f"{_SNAPSHOTS}/{{snapshot_id}}"


def routes(on: FastAPI, snapshots: SnapshotsClient) -> None:
    """Names for instants."""

    @on.post(_SNAPSHOTS, openapi_extra=describe(schema.Snapshot, body=schema.CreateSnapshot, headers=(KEY,)))
    async def create_snapshot(request: Request, memory_id: str) -> Response:
        """Name the present instant of a memory."""
        asked, raw = await body(request, schema.CreateSnapshot)
        return answer(await snapshots.create(memory_id, asked, idempotency(request, raw)))

    @on.get(_SNAPSHOTS, openapi_extra=describe(schema.Snapshots, query=schema.ListSnapshots))
    async def list_snapshots(request: Request, memory_id: str) -> Response:
        """The snapshots of a memory, newest first."""
        return answer(await snapshots.list(memory_id, query(request, schema.ListSnapshots)))

    @on.get(_SNAPSHOT, openapi_extra=describe(schema.Snapshot))
    async def get_snapshot(memory_id: str, snapshot_id: str) -> Response:
        """One snapshot."""
        return answer(await snapshots.get(memory_id, snapshot_id))

    @on.delete(_SNAPSHOT, openapi_extra=describe(schema.Snapshot, headers=(KEY,)))
    async def delete_snapshot(request: Request, memory_id: str, snapshot_id: str) -> Response:
        """Forget a snapshot's name; the records are as they were."""
        key = idempotency(request, await request.body())
        return answer(await snapshots.delete(memory_id, snapshot_id, key))
