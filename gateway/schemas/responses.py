"""Tasks (UHP Tasks, Streaming, Sessions)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.schemas.base import UNSET, Answer, Ask, Raw, Text, UnsetType, Whole
from gateway.schemas.discovery import Fault

__all__ = [
    "CancelledSession",
    "CreateResponse",
    "Created",
    "DeletedResponse",
    "Event",
    "InputItems",
    "ReadResponse",
    "Response",
    "ResponseObject",
    "TaskMetadata",
    "ignored_fields",
    "input_items",
]


class TaskMetadata(Ask, kw_only=True, frozen=True):
    """What of ``metadata`` steers a task; the rest is named in ``ignored_fields``."""

    harness_id: str | None = None
    memory: str | None = None


class CreateResponse(Ask, kw_only=True, frozen=True):
    """Body of ``POST /v1/responses``."""

    input: Raw
    model: str | None = None
    metadata: TaskMetadata | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    instructions: str | None = None
    store: bool | None = None
    max_output_tokens: Whole | None = None
    max_step: Whole | None = None
    timeout_seconds: Whole | None = None
    background: bool | None = None


class ReadResponse(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/responses/{id}``: with ``stream`` its events, those after a number only."""

    stream: bool = False
    starting_after: Annotated[int, Meta(ge=-1, le=2**63 - 1)] | None = None


class Usage(Answer, kw_only=True, frozen=True):
    """Tokens, as the endpoint counted them."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class ResponseObject(Answer, kw_only=True, frozen=True):
    """The UHP object that the runner composes; described here, and handed on byte for byte."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | UnsetType = UNSET
    status: Literal["in_progress", "completed", "failed", "incomplete", "cancelled"]
    background: bool
    error: Fault | None
    incomplete_details: dict[str, str] | None
    previous_response_id: str | None
    model: str
    instructions: str | UnsetType = UNSET
    output: list[dict[str, Any]]
    store: bool
    usage: Usage | None
    metadata: dict[str, Any]


class InputItems(Answer, kw_only=True, frozen=True):
    """What a task was asked: items as they were sent, handed on byte for byte."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    has_more: bool


def input_items(items: bytes) -> bytes:
    """The JSON of :class:`InputItems`, of a list that is JSON."""
    return b'{"object":"list","data":' + items + b',"has_more":false}'


class DeletedResponse(Answer, kw_only=True, frozen=True):
    """A response that is gone."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


class Response(Answer, kw_only=True, frozen=True):
    """A response: where it stands, and the UHP object as the runner composed it."""

    id: str
    status: str
    json: bytes

    @property
    def terminal(self) -> bool:
        """Whether it will never change again."""
        return self.status != "in_progress"


class Created(Answer, kw_only=True, frozen=True):
    """A task that was accepted, or the first one with the same idempotency key."""

    response: Response


class Event(Answer, kw_only=True, frozen=True):
    """One event of a response; ``json`` is the whole UHP event object."""

    sequence_number: int
    json: bytes
    terminal: bool

    @property
    def response(self) -> bytes:
        """The response a terminal event carries, byte for byte."""
        return bytes(_TERMINAL.decode(self.json).response)


class _Terminal(msgspec.Struct):
    response: Raw


_TERMINAL: Final = msgspec.json.Decoder(_Terminal)


class CancelledSession(Answer, kw_only=True, frozen=True):
    """A session after what ran in it was cancelled; ``status`` is its newest turn's."""

    id: Text
    object: Literal["session"] = "session"
    status: str


_RESERVED: Final = frozenset({"tools", "include"})
_KNOWN: Final = frozenset(CreateResponse.__struct_fields__) - _RESERVED
_STEERING: Final = frozenset(TaskMetadata.__struct_fields__)


class _Metadata(msgspec.Struct):
    metadata: dict[str, Raw] | None = None


_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_METADATA: Final = msgspec.json.Decoder(_Metadata)


def ignored_fields(body: bytes) -> list[str]:
    """The fields of a task that are not acted on, in the order they were sent (UHP, every request)."""
    ignored = [name for name in _FIELDS.decode(body) if name not in _KNOWN]
    metadata = _METADATA.decode(body).metadata or {}
    return ignored + [f"metadata.{name}" for name in metadata if name not in _STEERING]
