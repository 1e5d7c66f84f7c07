"""The RPCs of protos/runner/v1: convert, call the use case, convert."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from grpc.aio import ServicerContext

from protos.runner.v1 import runner_pb2 as wire
from protos.runner.v1.runner_pb2_grpc import HarnessesServicer as HarnessesBase
from protos.runner.v1.runner_pb2_grpc import ResponsesServicer as ResponsesBase
from runner_service.api import convert
from runner_service.domain.accept import Accept
from runner_service.domain.follow import Follow
from runner_service.domain.harnesses import Harnesses
from runner_service.domain.model import Harness
from runner_service.domain.responses import Responses
from runner_service.domain.sessions import Sessions

__all__ = ["HarnessesServicer", "ResponsesServicer", "Tasks"]

Context = ServicerContext[Any, Any]


class HarnessesServicer(HarnessesBase):
    """Configured harnesses and the memories they work with."""

    def __init__(self, harnesses: Harnesses) -> None:
        self._harnesses: Harnesses = harnesses

    async def CreateHarness(self, request: wire.CreateHarnessRequest, context: Context) -> wire.Harness:
        key = convert.idempotency(request.idempotency)
        return self._wire(await self._harnesses.create(request.base, convert.configuration(request), key))

    async def GetHarness(self, request: wire.GetHarnessRequest, context: Context) -> wire.Harness:
        return self._wire(await self._harnesses.get(request.id))

    async def ListHarnesses(
        self, request: wire.ListHarnessesRequest, context: Context
    ) -> wire.ListHarnessesResponse:
        found = await self._harnesses.list()
        return wire.ListHarnessesResponse(harnesses=[self._wire(one) for one in found])

    async def UpdateHarness(self, request: wire.UpdateHarnessRequest, context: Context) -> wire.Harness:
        return self._wire(await self._harnesses.update(request.id, convert.configuration(request)))

    async def DeleteHarness(
        self, request: wire.DeleteHarnessRequest, context: Context
    ) -> wire.DeleteHarnessResponse:
        await self._harnesses.delete(request.id)
        return wire.DeleteHarnessResponse(id=request.id)

    async def SetMemories(self, request: wire.SetMemoriesRequest, context: Context) -> wire.MemoriesResponse:
        asked = convert.attachments(request.memories)
        key = convert.idempotency(request.idempotency)
        return convert.memories(await self._harnesses.attach(request.harness_id, asked, key))

    async def GetMemories(self, request: wire.GetMemoriesRequest, context: Context) -> wire.MemoriesResponse:
        return convert.memories(await self._harnesses.attached(request.harness_id))

    async def ListModels(self, request: wire.ListModelsRequest, context: Context) -> wire.ListModelsResponse:
        found = await self._harnesses.models(request.harness_id)
        return wire.ListModelsResponse(backends=[convert.backend(one) for one in found])

    def _wire(self, harness: Harness) -> wire.Harness:
        return convert.harness(harness, self._harnesses.base_label(harness.base))


@dataclass(frozen=True, slots=True)
class Tasks:
    """The use cases of the Responses service."""

    accept: Accept
    responses: Responses
    sessions: Sessions
    follow: Follow


class ResponsesServicer(ResponsesBase):
    """Tasks, their events, and cancelling."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks: Tasks = tasks

    async def CreateResponse(self, request: wire.CreateResponseRequest, context: Context) -> wire.Response:
        key = convert.idempotency(request.idempotency)
        accepted = await self._tasks.accept.accept(convert.asked(request), key)
        return convert.response(await self._tasks.responses.reading(accepted))

    async def GetResponse(self, request: wire.GetResponseRequest, context: Context) -> wire.Response:
        return convert.response(await self._tasks.responses.get(request.id))

    async def FollowResponse(
        self, request: wire.FollowResponseRequest, context: Context
    ) -> AsyncGenerator[wire.EventBatch]:
        async with aclosing(self._tasks.follow.follow(request.id, request.after)) as ready:
            async for events in ready:
                for batch in convert.batches(events):
                    yield batch

    async def CancelResponse(self, request: wire.CancelResponseRequest, context: Context) -> wire.Response:
        return convert.response(await self._tasks.responses.cancel(request.id))

    async def GetInputItems(self, request: wire.GetInputItemsRequest, context: Context) -> wire.InputItems:
        return wire.InputItems(json=await self._tasks.sessions.input_items(request.id))

    async def DeleteResponse(
        self, request: wire.DeleteResponseRequest, context: Context
    ) -> wire.DeleteResponseResponse:
        await self._tasks.sessions.delete_response(request.id)
        return wire.DeleteResponseResponse(id=request.id)

    async def CancelSession(
        self, request: wire.CancelSessionRequest, context: Context
    ) -> wire.CancelSessionResponse:
        status = await self._tasks.sessions.cancel(request.id)
        return wire.CancelSessionResponse(id=request.id, status=status)
