"""What a base says while it works: facts in the order they happened, without numbers or item ids.

The composer turns them into UHP events. A text or a reasoning is opened by its first delta and closed
by its ``…Done``, or by whatever else comes; a call is opened by ``CallStarted`` and closed by ``CallDone``.
"""

from dataclasses import dataclass

__all__ = [
    "CallArguments",
    "CallDone",
    "CallOutput",
    "CallStarted",
    "Compacted",
    "ReasoningDelta",
    "ReasoningDone",
    "Stopped",
    "TextDelta",
    "TextDone",
    "TurnEvent",
    "Used",
]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDone:
    """The message is whole."""


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the agent's reasoning, as its model shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDone:
    """The reasoning is whole."""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The agent begins to call a tool."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of a call's arguments (JSON text)."""

    call_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class CallDone:
    """A call is whole; ``arguments`` is all of its JSON text, as the model wrote it."""

    call_id: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CallOutput:
    """What a tool answered, as the agent saw it."""

    call_id: str
    output: str


@dataclass(frozen=True, slots=True)
class Used:
    """Tokens of the whole turn so far, as its endpoint counted them."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """A budget stopped the work; ``reason`` names it (``max_output_tokens``, ``max_step``)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """The base shortened the conversation, from this turn on: its first ``turns`` turns are not shown to the model
    any more. The session is primed again, for its next turn (Memories §9.1).
    """

    turns: int


TurnEvent = (
    TextDelta
    | TextDone
    | ReasoningDelta
    | ReasoningDone
    | CallStarted
    | CallArguments
    | CallDone
    | CallOutput
    | Used
    | Compacted
    | Stopped
)
