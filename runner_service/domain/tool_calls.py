"""The memory tools' arguments (Memories §9.1), read strictly; free-form JSON stays as it was sent.

Names of fields are what an agent reads in the tools' schemas, so they are few and plain.
"""

from typing import Annotated, Final, Literal

import msgspec

from runner_service.domain.errors import invalid

__all__ = [
    "READ_TOOLS",
    "WRITE_TOOLS",
    "Forget",
    "FreeQuery",
    "Get",
    "List",
    "Operate",
    "Pointer",
    "Recall",
    "Remember",
    "Revise",
    "RunQuery",
    "ToolCall",
    "read_call",
]

READ_TOOLS: Final = ("memory_list", "memory_recall", "memory_get")
WRITE_TOOLS: Final = ("memory_remember", "memory_revise", "memory_forget")

_Include = Literal["active", "superseded", "forgotten", "all"]
_Limit = Annotated[int, msgspec.Meta(ge=1, le=100)]
_Depth = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
_Version = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class _Call(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    memory: str = ""


class List(_Call):
    """``memory_list``: where to look. Without a memory, where the agent starts."""


class Recall(_Call):
    """``memory_recall``."""

    query: str = ""
    text: str = ""
    filters: msgspec.Raw = msgspec.Raw()
    types: list[str] = []
    as_of: str = ""
    include: _Include = "active"
    limit: _Limit = 8
    depth: _Depth | None = None


class Get(_Call, kw_only=True):
    """``memory_get``: one record, or every version of it."""

    record: str
    as_of: str = ""
    history: bool = False


class Pointer(msgspec.Struct, forbid_unknown_fields=True):
    """A reference to another record."""

    rel: str
    memory: str
    record: str


class Remember(_Call, kw_only=True):
    """``memory_remember``."""

    content: str
    type: str = "fact"
    attributes: msgspec.Raw = msgspec.Raw()
    valid_from: str = ""
    valid_to: str = ""
    references: list[Pointer] = []
    supersedes: str = ""


class Revise(_Call, kw_only=True):
    """``memory_revise``: what is not given stays as it is."""

    record: str
    content: str | None = None
    attributes: msgspec.Raw = msgspec.Raw()
    valid_from: str = ""
    valid_to: str = ""
    references: list[Pointer] | None = None
    expected_version: _Version = 0


class Forget(_Call, kw_only=True):
    """``memory_forget``."""

    record: str
    expected_version: _Version = 0


class RunQuery(_Call, kw_only=True):
    """``memory_run_query``, or a named query's own tool."""

    name: str
    params: msgspec.Raw = msgspec.Raw()


class Operate(_Call, kw_only=True):
    """``memory_operate``: an operation of a record's type."""

    record: str
    operation: str
    input: msgspec.Raw = msgspec.Raw()
    expected_version: _Version = 0


class FreeQuery(_Call, kw_only=True):
    """``memory_query``: a statement of the agent's own, which reads."""

    language: str
    statement: str
    params: msgspec.Raw = msgspec.Raw()


ToolCall = List | Recall | Get | Remember | Revise | Forget | RunQuery | Operate | FreeQuery

_DECODERS: Final[dict[str, msgspec.json.Decoder[ToolCall]]] = {
    "memory_list": msgspec.json.Decoder(List),
    "memory_recall": msgspec.json.Decoder(Recall),
    "memory_get": msgspec.json.Decoder(Get),
    "memory_remember": msgspec.json.Decoder(Remember),
    "memory_revise": msgspec.json.Decoder(Revise),
    "memory_forget": msgspec.json.Decoder(Forget),
    "memory_run_query": msgspec.json.Decoder(RunQuery),
    "memory_operate": msgspec.json.Decoder(Operate),
    "memory_query": msgspec.json.Decoder(FreeQuery),
}


def read_call(name: str, arguments: bytes) -> ToolCall:
    """The call in these arguments (JSON). ``invalid_input`` in words a model can act on."""
    try:
        return _DECODERS[name].decode(arguments or b"{}")
    except KeyError:
        raise invalid(f"There is no tool called {name[:100]!r}.", "name") from None
    except msgspec.ValidationError as error:
        raise invalid(f"The arguments do not fit: {error}.", "arguments") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise invalid("The arguments are not a JSON object.", "arguments") from None
