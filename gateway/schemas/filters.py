"""Filters: a condition over one field, or a tree of ``and`` / ``or`` / ``not`` (Memories, section 6.2)."""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from gateway.schemas.base import UNSET, Ask, Raw, UnsetType
from service_kit.errors import GroveError

__all__ = ["MAX_NODES", "OPS", "Condition", "Filter", "Node", "Not", "Tree", "tree_of"]

MAX_NODES: Final = 200
"""Most conditions and combinations in one filter."""

MAX_DEPTH: Final = 16
"""Deepest combination within combinations."""

OPS: Final = ("eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "exists")
"""What a condition can ask of a field."""


class Filter(Ask, kw_only=True, frozen=True):
    """Exactly one of: ``field`` with ``op`` and ``value``; ``and``; ``or``; ``not``."""

    field: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    op: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    all: "list[Filter] | UnsetType" = msgspec.field(default=UNSET, name="and")
    any: "list[Filter] | UnsetType" = msgspec.field(default=UNSET, name="or")
    negation: "Filter | UnsetType" = msgspec.field(default=UNSET, name="not")


class Condition(Ask, kw_only=True, frozen=True):
    """One field compared with one value, as raw JSON."""

    field: str
    op: str
    value: bytes


class Tree(Ask, kw_only=True, frozen=True):
    """All (``and``) or any (``or``) of several."""

    every: bool
    nodes: "list[Node]"


class Not(Ask, kw_only=True, frozen=True):
    """The opposite of one."""

    node: "Node"


Node: TypeAlias = Condition | Tree | Not


def tree_of(asked: Filter, param: str = "filters") -> Node:
    """The filter, checked for shape. Raises ``invalid_input`` naming the node at fault."""
    return _Reader().node(asked, param, 0)


class _Reader:
    """Counts nodes on the way down."""

    def __init__(self) -> None:
        self._nodes: int = 0

    def node(self, asked: Filter, param: str, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES or depth >= MAX_DEPTH:
            raise GroveError(
                "invalid_input",
                f"A filter has at most {MAX_NODES} conditions, {MAX_DEPTH} levels deep.",
                param=param,
            )
        forms = [asked.field, asked.all, asked.any, asked.negation]
        if sum(one is not UNSET for one in forms) != 1:
            raise GroveError(
                "invalid_input", "A filter is one of field, and, or, not; exactly one.", param=param
            )
        if not isinstance(asked.all, UnsetType):
            return self._tree(asked.all, f"{param}.and", depth, every=True)
        if not isinstance(asked.any, UnsetType):
            return self._tree(asked.any, f"{param}.or", depth, every=False)
        if not isinstance(asked.negation, UnsetType):
            return Not(node=self.node(asked.negation, f"{param}.not", depth + 1))
        return _condition(asked, param)

    def _tree(self, asked: list[Filter], param: str, depth: int, *, every: bool) -> Tree:
        if not asked:
            raise GroveError("invalid_input", "A combination needs at least one filter.", param=param)
        return Tree(
            every=every, nodes=[self.node(one, f"{param}.{i}", depth + 1) for i, one in enumerate(asked)]
        )


def _condition(asked: Filter, param: str) -> Condition:
    field, op = asked.field, asked.op
    if isinstance(field, UnsetType):
        raise GroveError("invalid_input", "A condition needs a field.", param=param)
    named = field[:100]
    if isinstance(op, UnsetType) or op not in OPS:
        raise GroveError(
            "invalid_input",
            f"The condition on {named} needs one of {', '.join(OPS)} as op.",
            param=f"{param}.op",
        )
    value = b"true" if op == "exists" else b""
    if not isinstance(asked.value, UnsetType):
        value = bytes(asked.value)
    if not value:
        raise GroveError(
            "invalid_input", f"The condition {op} on {named} needs a value.", param=f"{param}.value"
        )
    if op in ("in", "nin") and not value.startswith(b"["):
        raise GroveError(
            "invalid_input", f"The condition {op} on {named} takes a list.", param=f"{param}.value"
        )
    return Condition(field=field, op=op, value=value)
