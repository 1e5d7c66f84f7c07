"""What the protocol declares of its objects, read strictly: a null where a string is declared does not pass.

A field that may be left out is ``UNSET``. Fields we add to an object are no matter here.
"""

from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

import httpx
import msgspec
from msgspec import UNSET, Meta, UnsetType

__all__ = [
    "Backends",
    "Discovery",
    "Envelope",
    "Erased",
    "Event",
    "Harness",
    "HarnessModels",
    "Holder",
    "Memory",
    "Place",
    "Recall",
    "Record",
    "Response",
    "ok",
    "read",
    "refusal",
]

_Shape = TypeVar("_Shape")

Free: TypeAlias = dict[str, Any]
Number: TypeAlias = Annotated[int, Meta(ge=0)]
HarnessId: TypeAlias = Annotated[str, Meta(pattern="^chrn_")]
MemoryId: TypeAlias = Annotated[str, Meta(pattern="^hmem_")]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]


def read(answer: object, kind: type[_Shape]) -> _Shape:
    """The answer as this kind of object. Raises ``msgspec.ValidationError`` with the field at fault."""
    return msgspec.convert(answer, kind)


class Discovery(msgspec.Struct):
    object: Literal["uhp.discovery"]
    protocol: Literal["uhp"]
    versions: Annotated[list[str], Meta(min_length=1)]
    default_version: str
    conformance_class: Literal["core", "extended", "full"]
    capabilities: dict[str, bool]
    implementation: dict[str, str]


class Fault(msgspec.Struct):
    type: Literal[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "rate_limit_error",
        "harness_error",
        "server_error",
    ]
    code: Text
    message: Text
    param: str | None
    detail: Free | None


class Envelope(msgspec.Struct):
    error: Fault


class Harness(msgspec.Struct):
    id: HarnessId
    object: Literal["harness"]
    name: str
    base: str
    mcpServers: list[Free]  # noqa: N815 - as the protocol spells it
    skills: list[Free]
    plugins: list[Free]
    disabledTools: list[str]  # noqa: N815 - as the protocol spells it
    maxStep: int | None  # noqa: N815 - as the protocol spells it
    timeoutSeconds: int | None  # noqa: N815 - as the protocol spells it
    createdAt: int  # noqa: N815 - as the protocol spells it
    baseLabel: str | UnsetType = UNSET  # noqa: N815 - as the protocol spells it
    defaultModel: str | UnsetType = UNSET  # noqa: N815 - as the protocol spells it
    systemPrompt: str | UnsetType = UNSET  # noqa: N815 - as the protocol spells it


class Model(msgspec.Struct):
    id: str
    label: str
    backend: str
    available: bool
    default: bool


class Backend(msgspec.Struct):
    default: str
    models: list[Model]


class Backends(msgspec.Struct):
    backends: dict[str, Backend]


class HarnessModels(msgspec.Struct):
    harness_id: HarnessId
    backend: str
    models: list[Model]
    default: str | UnsetType = UNSET
    fallback: str | UnsetType = UNSET


class Item(msgspec.Struct):
    id: Text
    type: Literal["message", "reasoning", "function_call", "function_call_output"]
    status: str | UnsetType = UNSET
    role: Literal["assistant"] | UnsetType = UNSET
    content: list[Free] | UnsetType = UNSET
    summary: list[Free] | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    output: str | UnsetType = UNSET


class Usage(msgspec.Struct):
    input_tokens: Number
    output_tokens: Number
    total_tokens: Number


class TaskMetadata(msgspec.Struct):
    session_id: Annotated[str, Meta(pattern="^hsess")]
    harness_id: HarnessId
    requested_model: str | UnsetType = UNSET
    model_fallback: bool | UnsetType = UNSET
    ignored_fields: list[str] | UnsetType = UNSET


class Response(msgspec.Struct):
    id: Annotated[str, Meta(pattern="^resp_")]
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "failed", "incomplete", "cancelled"]
    error: Fault | None
    incomplete_details: Free | None
    previous_response_id: str | None
    model: Text
    output: list[Item]
    store: bool
    usage: Usage | None
    metadata: TaskMetadata
    instructions: str | UnsetType = UNSET


class Event(msgspec.Struct):
    type: str
    sequence_number: Number
    response: Response | UnsetType = UNSET
    item: Item | UnsetType = UNSET
    part: Free | UnsetType = UNSET
    item_id: str | UnsetType = UNSET
    output_index: Number | UnsetType = UNSET
    content_index: Number | UnsetType = UNSET
    summary_index: Number | UnsetType = UNSET
    delta: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class Count(msgspec.Struct):
    count: Number


class Memory(msgspec.Struct):
    id: MemoryId
    object: Literal["memory"]
    name: str
    description: str
    parent_id: str | None
    ancestors: list[str]
    restricted: bool
    provider: Text
    privileges: list[Literal["read", "write", "create", "delete"]]
    records: Count
    children: Count
    createdAt: int  # noqa: N815 - as the protocol spells it
    updatedAt: int  # noqa: N815 - as the protocol spells it


class Times(msgspec.Struct):
    valid_from: str | None
    valid_to: str | None
    written_at: Text
    invalidated_at: str | None


class Writer(msgspec.Struct):
    kind: Text
    id: Text


class Record(msgspec.Struct):
    id: Text
    object: Literal["memory.record"]
    memory_id: MemoryId
    type: Text
    content: str | list[Free]
    attributes: Free
    version: Annotated[int, Meta(ge=1)]
    status: Literal["active", "superseded", "forgotten"]
    time: Times
    written_by: Writer
    references: list[Free]
    trust: Literal["untrusted"]
    supersedes: str | UnsetType = UNSET


class Place(msgspec.Struct):
    id: MemoryId
    name: str
    description: str
    records: Count


class Holder(msgspec.Struct):
    id: MemoryId
    name: str


class Result(msgspec.Struct):
    record: Record
    score: float
    why: list[str]
    memory: Holder | UnsetType = UNSET


class Recall(msgspec.Struct):
    results: list[Result]
    children: list[Place]
    degraded: list[str]
    abstain: bool
    parent: Place | UnsetType = UNSET


class Erased(msgspec.Struct):
    erased: list[str]
    unreachable: list[str]


def ok(answer: httpx.Response) -> Free:
    """What a request that must be answered 200, and nothing near it, was answered."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    return cast("Free", answer.json())


def refusal(answer: httpx.Response, status: int, code: str) -> Envelope:
    """The envelope of a refusal that must be this one, and safe to show."""
    assert answer.status_code == status, answer.text
    found = read(answer.json(), Envelope)
    assert found.error.code == code
    assert not any(trace in found.error.message for trace in ("Traceback", 'File "', "/", "\n"))
    return found
