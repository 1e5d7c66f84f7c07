"""Memories, grants and providers (Memories, sections 2, 3 and 10.2)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gateway.schemas.base import UNSET, Answer, Ask, Count, Text, UnsetType

__all__ = [
    "CreateMemory",
    "Grant",
    "Grants",
    "ListGrants",
    "ListMemories",
    "Memories",
    "Memory",
    "NewGrant",
    "Place",
    "Privilege",
    "ProviderCapabilities",
    "Providers",
    "UpdateMemory",
]

Privilege: TypeAlias = Literal["read", "write", "create", "delete"]


class CreateMemory(Ask, kw_only=True, frozen=True):
    """Body of ``POST /v1/memories``."""

    name: str
    description: str | None = None
    parent_id: str | None = None
    restricted: bool | None = None
    provider: str | None = None


class UpdateMemory(Ask, kw_only=True, frozen=True):
    """Body of ``PUT /v1/memories/{id}``. What is absent stays; ``parent_id: null`` makes it a root."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    parent_id: str | UnsetType | None = UNSET
    restricted: bool | UnsetType = UNSET
    provider: str | UnsetType = UNSET


class ListMemories(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/memories``: one level, the entry points, or everything below an ancestor."""

    parent: str = ""
    ancestor: str = ""
    limit: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    cursor: str = ""


class Memory(Answer, kw_only=True, frozen=True):
    """A memory as its caller sees it."""

    id: str
    object: Literal["memory"] = "memory"
    name: str
    description: str
    parent_id: str | None
    ancestors: list[str]
    restricted: bool
    provider: str
    privileges: list[str]
    records: Count
    children: Count
    createdAt: int  # noqa: N815 - as the chapter spells it
    updatedAt: int  # noqa: N815 - as the chapter spells it


class Memories(Answer, kw_only=True, frozen=True):
    """A page of memories."""

    data: list[Memory]
    next_cursor: str | None


class Place(Answer, kw_only=True, frozen=True):
    """Where a reader can walk to from here (section 6.1)."""

    id: str
    name: str
    description: str
    records: Count


class NewGrant(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/grants``."""

    principal: Text
    privileges: Annotated[list[Privilege], Meta(min_length=1)]


class Grant(Answer, kw_only=True, frozen=True):
    """Who holds what, and on which node the grant sits."""

    id: str
    memory_id: str
    principal: str
    privileges: list[str]
    inherited: bool
    creator: bool


class ListGrants(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/memories/{id}/grants``."""

    limit: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    cursor: str = ""


class Grants(Answer, kw_only=True, frozen=True):
    """Every grant that reaches a memory."""

    data: list[Grant]
    next_cursor: str | None = None


class Observing(Answer, kw_only=True, frozen=True):
    """How a provider takes an observe."""

    keeps_episodes: bool
    answers: str


class Recalling(Answer, kw_only=True, frozen=True):
    """What a provider's recall can do."""

    signals: list[str]
    abstain: bool
    max_depth: int


class Keeping(Answer, kw_only=True, frozen=True):
    """How much history a provider keeps."""

    content: str
    structure: str


class Erasing(Answer, kw_only=True, frozen=True):
    """What a provider says of what it could not reach."""

    unreachable: str


class FreeQueries(Answer, kw_only=True, frozen=True):
    """The languages of free queries, and whether one may write (section 6.5)."""

    languages: list[str]
    write: bool


class Queries(Answer, kw_only=True, frozen=True):
    """Named and free queries; ``languages`` are those a named one may be written in."""

    named: bool
    languages: list[str]
    free: FreeQueries | Literal[False]


class Holding(Answer, kw_only=True, frozen=True):
    """What content a provider keeps, in the later revision's words: ``bytes`` are ``kept`` or ``referenced``,
    ``media`` the types whose words are found.
    """

    media: list[str]
    bytes: str | UnsetType = UNSET
    describes: bool


class ProviderCapabilities(Answer, kw_only=True, frozen=True):
    """A capability document; the fields of both revisions are always there."""

    id: str
    isolation: str
    derivation: str
    observe: Observing
    recall: Recalling
    history: Keeping
    revise: str | Literal[False]
    forget: str | Literal[False]
    erase: Erasing | Literal[False]
    prime: bool
    consolidate: str | Literal[False]
    queries: Queries
    types: bool
    files: bool
    snapshots: bool
    content: Holding
    outside: bool


class Providers(Answer, kw_only=True, frozen=True):
    """The connected providers."""

    data: list[ProviderCapabilities]
