"""``/v1/memories/{id}/…``: what a memory holds (Memories, sections 4 to 6)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.records import RecordsClient
from gateway.http import answer, body, expected_version, idempotency, optional_body, query, revision_of
from gateway.openapi import IF_MATCH, KEY, describe
from gateway.schemas import records as schema

__all__ = ["reading", "retrieving", "writing"]

_MEMORY = "/v1/memories/{memory_id}"
_RECORDS = f"{_MEMORY}/records"
_RECORD = f"{_RECORDS}/{{record_id}}"
_CHANGE = (KEY, IF_MATCH)


def _one(request: Request, record: schema.Record) -> Response:
    """A record, with its version as the entity tag that ``If-Match`` takes."""
    return answer(revision_of(request).record(record), headers={"ETag": f'"{record.version}"'})


def writing(on: FastAPI, records: RecordsClient) -> None:
    """Observe, remember, revise, forget, erase."""

    @on.post(
        f"{_MEMORY}/observe",
        openapi_extra=describe(
            schema.ObservedAnswer, body=schema.Observe, also=202, headers=(KEY,), errors=("grovekeeper_busy",)
        ),
    )
    async def observe(request: Request, memory_id: str) -> Response:
        """Append episodes; 202 with a job when the provider derives later."""
        asked, raw = await body(request, schema.Observe)
        observed = await records.observe(memory_id, asked, idempotency(request, raw))
        return answer(revision_of(request).observed(observed), 200 if observed.job is None else 202)

    @on.post(
        _RECORDS,
        openapi_extra=describe(
            schema.RecordAnswer,
            body=schema.Remember,
            headers=(KEY,),
            errors=("memory_record_not_found", "grovekeeper_busy"),
        ),
    )
    async def remember(request: Request, memory_id: str) -> Response:
        """Write one record as stated."""
        asked, raw = await body(request, schema.Remember)
        return _one(request, await records.remember(memory_id, asked, idempotency(request, raw)))

    @on.patch(
        _RECORD,
        openapi_extra=describe(
            schema.RecordAnswer, body=schema.Revise, headers=_CHANGE, errors=("grovekeeper_busy",)
        ),
    )
    async def revise(request: Request, memory_id: str, record_id: str) -> Response:
        """Append a version."""
        asked, raw = await body(request, schema.Revise)
        expected = expected_version(request, asked.expected_version)
        key = idempotency(request, raw)
        return _one(request, await records.revise(memory_id, record_id, asked, expected, key))

    @on.delete(
        _RECORD,
        openapi_extra=describe(
            schema.RecordAnswer, query=schema.Forget, headers=_CHANGE, errors=("memory_unsupported",)
        ),
    )
    async def forget(request: Request, memory_id: str, record_id: str) -> Response:
        """Close a record and keep the trace."""
        asked, raw = await optional_body(request, schema.Forget)
        stated = query(request, schema.Forget).expected_version or (asked and asked.expected_version)
        expected = expected_version(request, stated)
        key = idempotency(request, raw)
        return _one(request, await records.forget(memory_id, record_id, expected, key))

    @on.post(
        f"{_MEMORY}/erase",
        openapi_extra=describe(
            schema.Erased, body=schema.Erase, headers=(KEY,), errors=("memory_record_not_found",)
        ),
    )
    async def erase(request: Request, memory_id: str) -> Response:
        """Remove content for good, and say what could not be reached."""
        asked, raw = await body(request, schema.Erase)
        return answer(await records.erase(memory_id, asked, idempotency(request, raw)))


def reading(on: FastAPI, records: RecordsClient) -> None:
    """Get, list, history, jobs."""

    @on.get(_RECORDS, openapi_extra=describe(schema.Records, query=schema.ListRecords))
    async def list_records(request: Request, memory_id: str) -> Response:
        """Records, newest first."""
        page = await records.list(memory_id, query(request, schema.ListRecords))
        return answer(revision_of(request).page(page))

    @on.get(_RECORD, openapi_extra=describe(schema.RecordAnswer, query=schema.ReadAt))
    async def get_record(request: Request, memory_id: str, record_id: str) -> Response:
        """One record, as it stands or stood."""
        return _one(request, await records.get(memory_id, record_id, query(request, schema.ReadAt)))

    @on.get(f"{_RECORD}/history", openapi_extra=describe(schema.History, query=schema.ReadAt))
    async def history(request: Request, memory_id: str, record_id: str) -> Response:
        """Every version, oldest first."""
        versions = await records.history(memory_id, record_id, query(request, schema.ReadAt))
        return answer(revision_of(request).history(versions))

    @on.get(f"{_MEMORY}/jobs/{{job_id}}", openapi_extra=describe(schema.JobAnswer))
    async def get_job(request: Request, memory_id: str, job_id: str) -> Response:
        """What an observe has written since."""
        return answer(revision_of(request).job(memory_id, await records.job(memory_id, job_id)))


def retrieving(on: FastAPI, records: RecordsClient) -> None:
    """Recall."""

    @on.post(f"{_MEMORY}/recall", openapi_extra=describe(schema.RecallAnswer, body=schema.Recall))
    async def recall(request: Request, memory_id: str) -> Response:
        """Retrieve by meaning, words and fields."""
        asked, _ = await body(request, schema.Recall)
        revision = revision_of(request)
        depth = revision.depth if asked.depth is None else asked.depth
        recalled = await records.recall(memory_id, asked, depth)
        return answer(revision.recalled(recalled, depth_asked=asked.depth is not None))
