"""What an agent can be offered beyond records (Memories §9.1): named and free queries, operations of types."""

from dataclasses import dataclass

__all__ = ["NOTHING", "Abilities", "Ability", "NamedQuery", "Operation"]


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A named query (§6.4). All of it was written by whoever may write its memory; ``params`` is a JSON Schema."""

    name: str
    description: str
    params: bytes
    writes: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of an extension type (§8); ``input`` is a JSON Schema."""

    type: str
    name: str
    description: str
    input: bytes
    writes: bool


@dataclass(frozen=True, slots=True)
class Ability:
    """One memory's. ``query_schema`` says what a free query can name, in its provider's words."""

    memory_id: str
    provider: str
    queries: tuple[NamedQuery, ...] = ()
    free_query_languages: tuple[str, ...] = ()
    query_schema: str = ""
    types: bool = False
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Abilities:
    """Of the memories that may be read, and the operations of their types."""

    of: tuple[Ability, ...] = ()
    operations: tuple[Operation, ...] = ()


NOTHING = Abilities()
