"""``/v1/harnesses`` and ``/v1/models`` (UHP Harnesses; Memories, section 9)."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.harnesses import HarnessesClient
from gateway.errors import invalid
from gateway.http import answer, body, idempotency
from gateway.openapi import KEY, describe
from gateway.schemas import harnesses as schema

__all__ = ["routes", "starting_points"]

_HARNESS = "/v1/harnesses/{harness_id}"
_ATTACHING = ("memory_not_found", "memory_forbidden", "memory_invalid", "memory_unavailable")


def routes(on: FastAPI, harnesses: HarnessesClient) -> None:
    """Configured harnesses."""

    @on.post(
        "/v1/harnesses",
        openapi_extra=describe(
            schema.Harness,
            body=schema.PutHarness,
            headers=(KEY,),
            errors=("unsupported_base", "model_unavailable"),
        ),
    )
    async def create_harness(request: Request) -> Response:
        """Create a harness on a base; without a name it is called after its base."""
        asked, raw = await body(request, schema.PutHarness)
        if asked.base is None:
            raise invalid("base is required.", "base")
        wanted = schema.configuration(asked, asked.name or asked.base)
        return answer(await harnesses.create(asked.base, wanted, idempotency(request, raw)))

    @on.get("/v1/harnesses", openapi_extra=describe(schema.Harnesses))
    async def list_harnesses() -> Response:
        """The caller's harnesses."""
        return answer(await harnesses.list())

    @on.get(_HARNESS, openapi_extra=describe(schema.Harness))
    async def get_harness(harness_id: str) -> Response:
        """One harness."""
        return answer(await harnesses.get(harness_id))

    @on.put(
        _HARNESS,
        openapi_extra=describe(schema.Harness, body=schema.PutHarness, errors=("model_unavailable",)),
    )
    async def update_harness(request: Request, harness_id: str) -> Response:
        """Replace the configuration; id, base and the time of creation never change, a name stays unless given."""
        asked, _ = await body(request, schema.PutHarness)
        name = asked.name or (await harnesses.get(harness_id)).name
        return answer(await harnesses.update(harness_id, schema.configuration(asked, name)))

    @on.delete(_HARNESS, openapi_extra=describe(schema.DeletedHarness))
    async def delete_harness(harness_id: str) -> Response:
        """Delete a harness; its sessions and responses stay."""
        return answer(await harnesses.delete(harness_id))


def starting_points(on: FastAPI, harnesses: HarnessesClient) -> None:
    """What a harness starts from: its memories and its models."""

    @on.put(
        f"{_HARNESS}/memories",
        openapi_extra=describe(
            schema.Attachments, body=schema.PutMemories, headers=(KEY,), errors=_ATTACHING
        ),
    )
    async def set_memories(request: Request, harness_id: str) -> Response:
        """Replace the attached memories; attaching is granting."""
        asked, raw = await body(request, schema.PutMemories)
        return answer(await harnesses.attach(harness_id, asked, idempotency(request, raw)))

    @on.get(
        f"{_HARNESS}/memories", openapi_extra=describe(schema.Attachments, errors=("memories_not_attached",))
    )
    async def get_memories(harness_id: str) -> Response:
        """The attached memories."""
        return answer(await harnesses.attached(harness_id))

    @on.get(f"{_HARNESS}/models", openapi_extra=describe(schema.HarnessModels))
    async def harness_models(harness_id: str) -> Response:
        """The models of one harness."""
        return answer(await harnesses.models_of(harness_id))

    @on.get("/v1/models", openapi_extra=describe(schema.Backends))
    async def models() -> Response:
        """The models of every base."""
        return answer(await harnesses.models())
