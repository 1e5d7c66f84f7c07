"""Harnesses, their memories and models (UHP Harnesses; Memories, section 9).

Requests may spell a field ``snake_case`` or as it is read; where both are there, ``snake_case`` wins.
"""

from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from gateway.schemas.base import UNSET, Answer, Ask, Raw, Text, UnsetType, Whole
from service_kit.errors import GroveError

__all__ = [
    "Attachment",
    "Attachments",
    "Backend",
    "Backends",
    "Configuration",
    "DeletedHarness",
    "Harness",
    "HarnessModels",
    "Harnesses",
    "Model",
    "NewAttachment",
    "Notice",
    "PutHarness",
    "PutMemories",
    "configuration",
]

_Value = TypeVar("_Value")


class PutHarness(Ask, kw_only=True, frozen=True):
    """Body of ``POST /v1/harnesses`` and ``PUT /v1/harnesses/{id}``; ``base`` counts on the first only."""

    name: Text | None = None
    base: Text | None = None
    default_model: str | None = None
    defaultModel: str | None = None  # noqa: N815 - the other spelling
    system_prompt: str | None = None
    systemPrompt: str | None = None  # noqa: N815 - the other spelling
    disabled_tools: list[str] | None = None
    disabledTools: list[str] | None = None  # noqa: N815 - the other spelling
    max_step: Whole | None = None
    maxStep: Whole | None = None  # noqa: N815 - the other spelling
    timeout_seconds: Whole | None = None
    timeoutSeconds: Whole | None = None  # noqa: N815 - the other spelling
    mcp_servers: list[Raw] | None = None
    mcpServers: list[Raw] | None = None  # noqa: N815 - the other spelling
    skills: list[Raw] | None = None
    plugins: list[Raw] | None = None


class Configuration(Ask, kw_only=True, frozen=True):
    """What of a harness can be configured, in one spelling."""

    name: str
    default_model: str
    system_prompt: str
    disabled_tools: list[str]
    max_step: int
    timeout_seconds: int


def configuration(asked: PutHarness, name: str) -> Configuration:
    """The configuration asked for. Raises ``invalid_input`` for what this server does not offer yet."""
    servers = _either(asked.mcp_servers, asked.mcpServers, [])
    for field, given in (("mcp_servers", servers), ("skills", asked.skills), ("plugins", asked.plugins)):
        if given:
            raise GroveError(
                "invalid_input", f"This server does not offer {field} yet; leave the list empty.", param=field
            )
    return Configuration(
        name=name,
        default_model=_either(asked.default_model, asked.defaultModel, ""),
        system_prompt=_either(asked.system_prompt, asked.systemPrompt, ""),
        disabled_tools=_either(asked.disabled_tools, asked.disabledTools, []),
        max_step=_either(asked.max_step, asked.maxStep, 0),
        timeout_seconds=_either(asked.timeout_seconds, asked.timeoutSeconds, 0),
    )


def _either(snake: _Value | None, camel: _Value | None, default: _Value) -> _Value:
    if snake is not None:
        return snake
    return default if camel is None else camel


class Harness(Answer, kw_only=True, frozen=True):
    """A configured harness as it is read."""

    id: str
    object: Literal["harness"] = "harness"
    name: str
    base: str
    baseLabel: str | UnsetType = UNSET  # noqa: N815 - as UHP spells it
    defaultModel: str | UnsetType = UNSET  # noqa: N815 - as UHP spells it
    systemPrompt: str  # noqa: N815 - as UHP spells it
    mcpServers: list[Raw]  # noqa: N815 - as UHP spells it
    skills: list[Raw]
    plugins: list[Raw]
    disabledTools: list[str]  # noqa: N815 - as UHP spells it
    maxStep: int | None  # noqa: N815 - as UHP spells it
    timeoutSeconds: int | None  # noqa: N815 - as UHP spells it
    createdAt: int  # noqa: N815 - as UHP spells it


class Harnesses(Answer, kw_only=True, frozen=True):
    """The caller's harnesses."""

    harnesses: list[Harness]


class DeletedHarness(Answer, kw_only=True, frozen=True):
    """What was deleted."""

    id: str
    object: Literal["harness"] = "harness"
    deleted: Literal[True] = True


class NewAttachment(Ask, kw_only=True, frozen=True):
    """A memory to attach. ``access`` narrows what the harness may do there and below."""

    memory_id: Text
    access: Literal["read", "write"]
    default: bool | None = None


class PutMemories(Ask, kw_only=True, frozen=True):
    """Body of ``PUT /v1/harnesses/{id}/memories``: the whole list."""

    memories: Annotated[list[NewAttachment], Meta(max_length=100)]


class Attachment(Answer, kw_only=True, frozen=True):
    """An attached memory. ``default`` is there on the one that is."""

    memory_id: str
    access: str
    default: Literal[True] | UnsetType = UNSET


class Notice(Answer, kw_only=True, frozen=True):
    """What whoever attaches a memory has to be told. ``memory_outside``: every turn is sent outside the server."""

    code: Literal["memory_outside"]
    memory_id: str
    message: str


class Attachments(Answer, kw_only=True, frozen=True):
    """The memories a harness starts from. ``notices`` is there when something has to be told of them."""

    memories: list[Attachment]
    notices: list[Notice] | UnsetType = UNSET


class Model(Answer, kw_only=True, frozen=True):
    """A model; ``available`` is computed."""

    id: str
    label: str
    backend: str
    available: bool
    default: bool


class Backend(Answer, kw_only=True, frozen=True):
    """One base and its models."""

    default: str
    models: list[Model]


class Backends(Answer, kw_only=True, frozen=True):
    """Every base's models."""

    backends: dict[str, Backend]


class HarnessModels(Answer, kw_only=True, frozen=True):
    """The models of one harness."""

    harness_id: str
    backend: str
    default: str | UnsetType = UNSET
    models: list[Model]
