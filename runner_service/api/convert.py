"""Between the wire's messages and the domain's models."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from protos.common.v1 import common_pb2
from protos.runner.v1 import runner_pb2 as wire
from runner_service.domain.errors import memory_invalid
from runner_service.domain.model import (
    Access,
    Asked,
    Attached,
    Attachment,
    Backend,
    Budgets,
    Configuration,
    Event,
    Harness,
    Idempotency,
)
from runner_service.domain.responses import Reading

__all__ = [
    "asked",
    "attachments",
    "backend",
    "batches",
    "configuration",
    "harness",
    "idempotency",
    "memories",
    "response",
]

_BATCH_BYTES: Final = 1024 * 1024


def idempotency(message: common_pb2.Idempotency) -> Idempotency:
    """An idempotency key."""
    return Idempotency(message.key, message.request_sha256)


def configuration(message: wire.CreateHarnessRequest | wire.UpdateHarnessRequest) -> Configuration:
    """What of a harness may be changed."""
    return Configuration(
        name=message.name,
        default_model=message.default_model,
        system_prompt=message.system_prompt,
        disabled_tools=tuple(message.disabled_tools),
        max_step=message.max_step,
        timeout_seconds=message.timeout_seconds,
    )


def harness(found: Harness, label: str) -> wire.Harness:
    """A harness."""
    created_at = Timestamp()
    created_at.FromDatetime(found.created_at)
    configured = found.configuration
    return wire.Harness(
        id=found.id,
        name=configured.name,
        base=found.base,
        base_label=label,
        default_model=configured.default_model,
        system_prompt=configured.system_prompt,
        disabled_tools=configured.disabled_tools,
        max_step=configured.max_step,
        timeout_seconds=configured.timeout_seconds,
        created_at=created_at,
    )


def attachments(messages: Iterable[wire.Attachment]) -> tuple[Attachment, ...]:
    """Memories to attach. ``memory_invalid`` for an access that is neither."""
    return tuple(Attachment(one.memory_id, _access(one.access), one.is_default) for one in messages)


def _access(given: str) -> Access:
    if given not in ("read", "write"):
        raise memory_invalid("An attached memory's access is read or write.")
    return given


def memories(found: Attached) -> wire.MemoriesResponse:
    """Attached memories, and what has to be told of them."""
    return wire.MemoriesResponse(
        memories=[
            wire.Attachment(memory_id=one.memory_id, access=one.access, is_default=one.is_default)
            for one in found.memories
        ],
        notices=[
            wire.Notice(code=one.code, memory_id=one.memory_id, message=one.message) for one in found.notices
        ],
    )


def backend(found: Backend) -> wire.Backend:
    """A base and its models."""
    return wire.Backend(
        name=found.name,
        default_model=found.default_model,
        models=[
            wire.Model(
                id=one.id,
                label=one.label,
                backend=one.backend,
                available=one.available,
                is_default=one.is_default,
            )
            for one in found.models
        ],
    )


def asked(message: wire.CreateResponseRequest) -> Asked:
    """A task as it was asked for."""
    return Asked(
        input=message.input,
        model=message.model,
        harness_id=message.harness_id,
        memory_id=message.memory_id,
        previous_response_id=message.previous_response_id,
        instructions=message.instructions,
        store=message.store,
        background=message.background,
        budgets=Budgets(message.max_output_tokens, message.max_step, message.timeout_seconds),
        ignored_fields=tuple(message.ignored_fields),
    )


def response(reading: Reading) -> wire.Response:
    """A response and its UHP object."""
    found = reading.response
    return wire.Response(
        id=found.id, session_id=found.session_id, status=found.status.wire, json=reading.json
    )


def batches(events: Sequence[Event]) -> Iterator[wire.EventBatch]:
    """Events that are ready, in messages that stay well below what a channel carries."""
    size, batch = 0, wire.EventBatch()
    for one in events:
        if batch.events and size + len(one.json) > _BATCH_BYTES:
            yield batch
            size, batch = 0, wire.EventBatch()
        size += len(one.json)
        batch.events.add(
            sequence_number=one.sequence_number, type=one.type, json=one.json, terminal=one.terminal
        )
    if batch.events:
        yield batch
