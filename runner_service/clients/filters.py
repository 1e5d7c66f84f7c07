"""Filters (Memories §6.2) from an agent's JSON: a condition, or a tree of ``and`` / ``or`` / ``not``."""

from typing import Final, Literal

import msgspec

from protos.common.v1 import record_pb2
from runner_service.domain.errors import invalid

__all__ = ["filter_of"]

_MAX_DEPTH: Final = 16
_MAX_NODES: Final = 200


class _Filter(msgspec.Struct, forbid_unknown_fields=True):
    field: str | None = None
    op: Literal["eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "exists"] | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")
    all: "list[_Filter] | None" = msgspec.field(default=None, name="and")
    any: "list[_Filter] | None" = msgspec.field(default=None, name="or")
    negation: "_Filter | None" = msgspec.field(default=None, name="not")


_decoder: Final = msgspec.json.Decoder(_Filter)


def filter_of(raw: bytes) -> record_pb2.Filter:
    """The filter in this JSON. ``invalid_input`` in words a model can act on."""
    try:
        asked = _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid(f"The filters do not fit: {error}.", "filters") from None
    return _Reader().node(asked, 0)


class _Reader:
    """Counts nodes on the way down."""

    def __init__(self) -> None:
        self._nodes: int = 0

    def node(self, asked: _Filter, depth: int) -> record_pb2.Filter:
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise invalid(
                f"A filter has at most {_MAX_NODES} conditions, {_MAX_DEPTH} levels deep.", "filters"
            )
        forms = (asked.field, asked.all, asked.any, asked.negation)
        if sum(form is not None for form in forms) != 1:
            raise invalid("A filter is one of field with op and value, and, or, not.", "filters")
        if asked.field is not None:
            if asked.op is None:
                raise invalid("A filter on a field needs an op.", "filters")
            condition = record_pb2.Condition(field=asked.field, op=asked.op, value=bytes(asked.value))
            return record_pb2.Filter(condition=condition)
        if asked.negation is not None:
            return record_pb2.Filter(negation=self.node(asked.negation, depth + 1))
        if asked.all is not None:
            return record_pb2.Filter(all=self._list(asked.all, depth))
        return record_pb2.Filter(any=self._list(asked.any or [], depth))

    def _list(self, nodes: "list[_Filter]", depth: int) -> record_pb2.FilterList:
        return record_pb2.FilterList(filters=[self.node(one, depth + 1) for one in nodes])
