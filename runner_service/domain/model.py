"""What runner_service speaks of: harnesses, sessions, responses, turns. Immutable values, no wire, no database."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

Access = Literal["read", "write"]
Item = dict[str, object]
"""An input or output item as UHP spells it (Tasks): a JSON object with a ``type``."""


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The caller's ``Idempotency-Key`` (empty: none) and the SHA-256 of its request."""

    key: str
    request_sha256: bytes


@dataclass(frozen=True, slots=True)
class Configuration:
    """What of a harness may be changed. ``max_step`` and ``timeout_seconds`` 0: no budget of its own."""

    name: str
    default_model: str
    system_prompt: str
    disabled_tools: tuple[str, ...]
    max_step: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Harness:
    """A configured harness (Architecture §1). ``owner`` is the principal that created it."""

    id: str
    owner: str
    base: str
    configuration: Configuration
    created_at: datetime
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A memory a harness starts from (Memories §9). ``access`` narrows, never widens."""

    memory_id: str
    access: Access
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """What whoever attaches a memory has to be told; ``message`` is one sentence for a person."""

    code: str
    memory_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Attached:
    """What a harness starts from, and what is to be told of it."""

    memories: tuple[Attachment, ...]
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a base; ``available`` is computed, never asserted."""

    id: str
    label: str
    backend: str
    available: bool
    is_default: bool


@dataclass(frozen=True, slots=True)
class Backend:
    """A base and what it can serve."""

    name: str
    default_model: str
    models: tuple[Model, ...]


class Status(StrEnum):
    """Where a response stands. ``QUEUED`` is our own: on the wire it reads ``in_progress``."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether it never changes again."""
        return self not in {Status.QUEUED, Status.IN_PROGRESS}

    @property
    def wire(self) -> str:
        """As UHP spells it."""
        return "in_progress" if self is Status.QUEUED else self.value


@dataclass(frozen=True, slots=True)
class Budgets:
    """What stops a turn ``incomplete``; 0 means no such budget. Seconds for ``timeout_seconds``."""

    max_output_tokens: int = 0
    max_step: int = 0
    timeout_seconds: int = 0

    def within(self, other: "Budgets") -> "Budgets":
        """The tighter of two, field by field."""
        return Budgets(
            _tighter(self.max_output_tokens, other.max_output_tokens),
            _tighter(self.max_step, other.max_step),
            _tighter(self.timeout_seconds, other.timeout_seconds),
        )


def _tighter(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


@dataclass(frozen=True, slots=True)
class Asked:
    """A task as it was asked for (Tasks). ``input`` is the client's JSON, byte for byte."""

    input: bytes
    model: str
    harness_id: str
    memory_id: str
    previous_response_id: str
    instructions: str
    store: bool
    background: bool
    budgets: Budgets
    ignored_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a response failed: a code of the error table and a sentence safe to show."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the model's endpoint counted them; never an estimate."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended. ``failure`` only with FAILED, ``reason`` only with INCOMPLETE. ``compacted``: how many turns its
    base left out of the conversation from this turn on; 0 when it left out none anew.
    """

    status: Status
    failure: Failure | None = None
    reason: str = ""
    usage: Usage | None = None
    compacted: int = 0


@dataclass(frozen=True, slots=True)
class Primed:
    """What was placed of one memory in a session's instructions; ``tokens`` None where nobody counted."""

    memory_id: str
    name: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A memory an agent was told of by name: attached ones and their direct children."""

    id: str
    name: str
    attached: bool


@dataclass(frozen=True, slots=True)
class Priming:
    """The memory block of a session's instructions (Memories §9.1): made once, and anew only when the conversation was
    compacted or a memory of it may not be read any more. ``tokenizer`` is the vocabulary its tokens were counted in.
    """

    block: str
    primed: tuple[Primed, ...]
    known: tuple[Known, ...] = ()
    tokenizer: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """A chain of responses on one harness. ``memory_id`` is the task's ``metadata.memory``; empty: none."""

    id: str
    owner: str
    harness_id: str
    memory_id: str
    created_at: datetime
    priming: Priming | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """One task (Architecture §3). ``final`` is the UHP object as it was when it ended, else empty; ``title`` is what it
    asks, on one line.
    """

    id: str
    owner: str
    session_id: str
    harness_id: str
    asked: Asked
    model: str
    status: Status
    created_at: datetime
    outcome: Outcome | None = None
    finished_at: datetime | None = None
    cancel_requested: bool = False
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    final: bytes = b""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one turn's events: refused as soon as somebody holds a later epoch."""

    session_id: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn taken from the queue."""

    response: Response
    session: Session
    harness: Harness
    lease: Lease
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One UHP event: its number, its type, the whole object as JSON."""

    sequence_number: int
    type: str
    json: bytes
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class PastTurn:
    """An earlier turn of the conversation: what was asked (as it was sent) and the items it produced."""

    input: bytes
    output: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an input, as text."""

    role: Literal["user", "assistant", "system", "developer"]
    text: str


@dataclass(frozen=True, slots=True)
class Reach:
    """What one turn's agent starts from. ``default``: where it writes unless told otherwise; empty: nowhere."""

    attachments: tuple[Attachment, ...]
    default: str

    @property
    def writable(self) -> bool:
        """Whether it is attached somewhere to write, and so is offered write tools."""
        return any(one.access == "write" for one in self.attachments)

    @property
    def starts(self) -> tuple[str, ...]:
        """Ids of the memories it starts from, in order."""
        return tuple(one.memory_id for one in self.attachments)


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """Where a turn's agent finds its tools: an MCP server, and the token it is known there by."""

    url: str
    token: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """A turn's calls of models, so far: how many were made, failed, met a rate limit, and came again after a failure."""

    made: int = 0
    failed: int = 0
    rate_limited: int = 0
    retried: int = 0


@dataclass(frozen=True, slots=True)
class RelayAccess:
    """Where a turn's agent finds models: a base URL for each API, as that API's clients want it, and the token it is
    known there by. What follows can be asked during the turn and after it, and is whole when the access has ended.

    ``usage()``: tokens of all calls; None when nothing was counted, or one call was not. ``failure()``: why the last
    call failed, unless one like it succeeded since. ``limit(budgets)``: ``max_output_tokens`` and ``max_step`` (calls)
    beyond which calls are refused. ``stopped()``: the budget for which one was refused, else empty.
    """

    urls: Mapping[str, str]
    token: str = field(repr=False)
    usage: Callable[[], Usage | None]
    failure: Callable[[], Failure | None]
    calls: Callable[[], ModelCalls]
    limit: Callable[[Budgets], None]
    stopped: Callable[[], str]

    def url(self, kind: str) -> str:
        """The base URL of ``anthropic``, ``responses`` or ``chat``. ``KeyError`` for one that is not offered."""
        return self.urls[kind]


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a base is asked to run. ``history`` is oldest first; the input's messages come last. ``disabled`` names tools
    the agent may not use, its own ones too.

    The caller stops a turn (cancel, timeout, lost lease) by cancelling the task that iterates it.
    """

    response_id: str
    session_id: str
    harness_name: str
    model: str
    instructions: str
    history: tuple[Item, ...]
    input: tuple[Message, ...]
    budgets: Budgets
    tools: ToolAccess | None = None
    memories: tuple[Known, ...] = ()
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Episode:
    """One piece of a turn as it is observed. ``role`` is ``user``, ``assistant`` or ``tool``."""

    role: str
    text: str
