"""Harnesses, of runner_service."""

import grpc

from gateway.clients.convert import idempotency, milliseconds
from gateway.http import Idempotency
from gateway.schemas import harnesses as schema
from gateway.schemas.base import UNSET
from protos.runner.v1 import runner_pb2, runner_pb2_grpc

__all__ = ["SAFE", "HarnessesClient"]

SAFE = tuple(
    f"grovekeeper.runner.v1.Harnesses/{method}"
    for method in ("GetHarness", "ListHarnesses", "GetMemories", "ListModels")
)
"""Methods that may be sent twice."""


class HarnessesClient:
    """Configured harnesses, what they are attached to, and models."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._harnesses = runner_pb2_grpc.HarnessesStub(channel)

    async def create(self, base: str, asked: schema.Configuration, key: Idempotency) -> schema.Harness:
        """Create a harness on a base."""
        request = runner_pb2.CreateHarnessRequest(
            name=asked.name,
            base=base,
            default_model=asked.default_model,
            system_prompt=asked.system_prompt,
            disabled_tools=asked.disabled_tools,
            max_step=asked.max_step,
            timeout_seconds=asked.timeout_seconds,
            idempotency=idempotency(key),
        )
        return _harness(await self._harnesses.CreateHarness(request))

    async def get(self, harness_id: str) -> schema.Harness:
        """One harness."""
        return _harness(await self._harnesses.GetHarness(runner_pb2.GetHarnessRequest(id=harness_id)))

    async def list(self) -> schema.Harnesses:
        """The caller's harnesses."""
        answer = await self._harnesses.ListHarnesses(runner_pb2.ListHarnessesRequest())
        return schema.Harnesses(harnesses=[_harness(one) for one in answer.harnesses])

    async def update(self, harness_id: str, asked: schema.Configuration) -> schema.Harness:
        """Replace the configuration."""
        request = runner_pb2.UpdateHarnessRequest(
            id=harness_id,
            name=asked.name,
            default_model=asked.default_model,
            system_prompt=asked.system_prompt,
            disabled_tools=asked.disabled_tools,
            max_step=asked.max_step,
            timeout_seconds=asked.timeout_seconds,
        )
        return _harness(await self._harnesses.UpdateHarness(request))

    async def delete(self, harness_id: str) -> schema.DeletedHarness:
        """Delete a harness; its sessions and responses stay."""
        answer = await self._harnesses.DeleteHarness(runner_pb2.DeleteHarnessRequest(id=harness_id))
        return schema.DeletedHarness(id=answer.id or harness_id)

    async def attach(
        self, harness_id: str, asked: schema.PutMemories, key: Idempotency
    ) -> schema.Attachments:
        """Replace the attached memories; attaching is granting."""
        request = runner_pb2.SetMemoriesRequest(
            harness_id=harness_id,
            memories=[
                runner_pb2.Attachment(
                    memory_id=one.memory_id, access=one.access, is_default=one.default or False
                )
                for one in asked.memories
            ],
            idempotency=idempotency(key),
        )
        return _attachments(await self._harnesses.SetMemories(request))

    async def attached(self, harness_id: str) -> schema.Attachments:
        """The attached memories."""
        request = runner_pb2.GetMemoriesRequest(harness_id=harness_id)
        return _attachments(await self._harnesses.GetMemories(request))

    async def models(self) -> schema.Backends:
        """The models of every base."""
        answer = await self._harnesses.ListModels(runner_pb2.ListModelsRequest())
        return schema.Backends(
            backends={
                one.name: schema.Backend(
                    default=one.default_model, models=[_model(model) for model in one.models]
                )
                for one in answer.backends
            }
        )

    async def models_of(self, harness_id: str) -> schema.HarnessModels:
        """The models of one harness."""
        answer = await self._harnesses.ListModels(runner_pb2.ListModelsRequest(harness_id=harness_id))
        backend = answer.backends[0] if answer.backends else runner_pb2.Backend()
        return schema.HarnessModels(
            harness_id=harness_id,
            backend=backend.name,
            default=backend.default_model or UNSET,
            models=[_model(one) for one in backend.models],
        )


def _harness(message: runner_pb2.Harness) -> schema.Harness:
    return schema.Harness(
        id=message.id,
        name=message.name,
        base=message.base,
        baseLabel=message.base_label or UNSET,
        defaultModel=message.default_model or UNSET,
        systemPrompt=message.system_prompt,
        mcpServers=[],
        skills=[],
        plugins=[],
        disabledTools=list(message.disabled_tools),
        maxStep=message.max_step or None,
        timeoutSeconds=message.timeout_seconds or None,
        createdAt=milliseconds(message.created_at),
    )


def _attachments(message: runner_pb2.MemoriesResponse) -> schema.Attachments:
    return schema.Attachments(
        memories=[
            schema.Attachment(
                memory_id=one.memory_id, access=one.access, default=True if one.is_default else UNSET
            )
            for one in message.memories
        ],
        notices=[
            schema.Notice(code="memory_outside", memory_id=one.memory_id, message=one.message)
            for one in message.notices
        ]
        or UNSET,
    )


def _model(message: runner_pb2.Model) -> schema.Model:
    return schema.Model(
        id=message.id,
        label=message.label or message.id,
        backend=message.backend,
        available=message.available,
        default=message.is_default,
    )
